import type { Permission } from "../domain/permissions.js";
import { setModelPrice } from "../governance/edit-budgets.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "budgets:read" satisfies Permission;

const ModelPrice = builder.prismaNode("ModelPrice", {
  authScopes: { may: sees },
  description: "What a token of a model costs from a moment on. Never changed: the newest that has begun counts.",
  id: { resolve: (price) => price.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    model: t.exposeString("model"),
    inputPico: t.expose("inputPico", { type: "BigInt", description: "Picodollars (1e-12 USD) a token." }),
    outputPico: t.expose("outputPico", { type: "BigInt" }),
    cacheReadPico: t.expose("cacheReadPico", { type: "BigInt" }),
    effectiveFrom: t.expose("effectiveFrom", { type: "DateTime" }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
  }),
});

const ModelPriceConnection = builder.connectionObject(
  { type: ModelPrice, name: "ModelPriceConnection" },
  { name: "ModelPriceEdge" },
);

builder.queryField("modelPrices", (t) =>
  t.connection(
    {
      type: ModelPrice,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { model: t.arg.string() },
      resolve: (_root, { model, ...args }, context, info) =>
        readConnection(
          context,
          "modelPrice",
          typeof model === "string" ? [{ sql: "model = $::text", value: model }] : [],
          args,
          (ids) =>
            context.operation.client.modelPrice.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    ModelPriceConnection,
  ),
);

const ModelPriceSetInput = builder.inputType("ModelPriceSetInput", {
  fields: (t) => ({
    model: t.string({ required: true, description: "As the steps of runs name it." }),
    inputPico: t.field({ type: "BigInt", required: true, description: "$2.50 a million tokens are 2500000." }),
    outputPico: t.field({ type: "BigInt", required: true }),
    cacheReadPico: t.field({ type: "BigInt", description: "Default: as inputPico." }),
    effectiveFrom: t.field({ type: "DateTime", description: "Default: now. Not in the past." }),
  }),
});

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;
const ModelPriceSetPayload = builder.objectRef<Payload>("ModelPriceSetPayload").implement({
  fields: (t) => ({
    modelPrice: t.prismaField({
      type: "ModelPrice",
      nullable: true,
      resolve: (query, { done }, _args, context) =>
        done ? context.operation.client.modelPrice.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
    }),
    userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
  }),
});

builder.mutationField("modelPriceSet", (t) =>
  t.field({
    type: ModelPriceSetPayload,
    description: "Sets what a model costs from a moment on. What was posted before stays as it is.",
    authScopes: { may: "budgets:write" },
    args: { input: t.arg({ type: ModelPriceSetInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await setModelPrice(context.plane.stores, context.scope, {
          ...input,
          cacheReadPico: input.cacheReadPico ?? input.inputPico,
          effectiveFrom: input.effectiveFrom ?? null,
        }),
      })),
  }),
);
