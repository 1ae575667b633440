import type { Permission } from "../domain/permissions.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { StepKindEnum, StepStatusEnum } from "./enums.js";
import { uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";
import { Run } from "./run.js";

const sees = "runs:read" satisfies Permission;

export const Step = builder.prismaNode("Step", {
  authScopes: { may: sees },
  description: "A model call, tool call or other part of a run.",
  id: { resolve: (step) => `${step.runId}/${step.id}` },
  findUnique: (id, context) => {
    need(context, sees);
    const slash = id.indexOf("/");
    return {
      tenantId_runId_id: {
        tenantId: context.scope.tenantId,
        runId: uuidOrNil(id.slice(0, Math.max(slash, 0))),
        // A zero byte cannot be in a stored id, and not in a question either.
        id: id.slice(slash + 1).replaceAll("\0", ""),
      },
      run: { deletedAt: null },
    };
  },
  select: { tenantId: true, runId: true, id: true },
  fields: (t) => ({
    localId: t.exposeString("id", { description: "Unique in its run." }),
    parentId: t.exposeString("parentId", {
      nullable: true,
      description: "localId of the step that this one is part of.",
    }),
    attempt: t.exposeInt("attempt"),
    kind: t.field({ type: StepKindEnum, select: { kind: true }, resolve: (step) => step.kind as "model" }),
    name: t.exposeString("name"),
    status: t.field({ type: StepStatusEnum, select: { status: true }, resolve: (step) => step.status as "running" }),
    namespace: t.exposeStringList("namespace"),
    startedAt: t.expose("startedAt", { type: "DateTime" }),
    endedAt: t.expose("endedAt", { type: "DateTime", nullable: true }),
    usage: t.expose("usage", { type: "JSON", nullable: true }),
    error: t.exposeString("error", { nullable: true }),
  }),
});

const StepConnection = builder.connectionObject({ type: Step, name: "StepConnection" }, { name: "StepEdge" });

builder.prismaObjectField(Run, "steps", (t) =>
  t.connection(
    {
      type: Step,
      description: "In the order in which they started.",
      complexity: connectionCost,
      select: { id: true },
      resolve: (run, args, context, info) =>
        readConnection(context, "step", [{ sql: "run_id = $::uuid", value: run.id }], args, (ids) =>
          context.operation.client.step.findMany({
            ...askedOf(context, info),
            where: { tenantId: context.scope.tenantId, runId: run.id, id: { in: ids } },
          }),
        ),
    },
    StepConnection,
  ),
);
