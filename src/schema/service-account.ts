import type { Permission } from "../domain/permissions.js";
import type { Role } from "../domain/roles.js";
import {
  changeServiceAccount,
  createServiceAccount,
  removeServiceAccount,
} from "../governance/edit-service-accounts.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { RoleEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "service_accounts:read" satisfies Permission;

export const ServiceAccount = builder.prismaNode("ServiceAccount", {
  authScopes: { may: sees },
  description: "A program that acts in the tenant with a role of its own; its keys do what the role allows.",
  id: { resolve: (account) => account.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    role: t.field({ type: RoleEnum, select: { role: true }, resolve: (account) => account.role as Role }),
    version: t.exposeInt("version", { description: "Raised by every change; give it as expectedVersion." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    removedAt: t.expose("removedAt", { type: "DateTime", nullable: true }),
  }),
});

const ServiceAccountConnection = builder.connectionObject(
  { type: ServiceAccount, name: "ServiceAccountConnection" },
  { name: "ServiceAccountEdge" },
);

builder.queryFields((t) => ({
  serviceAccount: t.prismaField({
    type: "ServiceAccount",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.serviceAccount.findUnique({
        ...query,
        where: rowKey(context, uuidOf("ServiceAccount", args.id)),
      }),
  }),
  serviceAccounts: t.connection(
    {
      type: ServiceAccount,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { includeRemoved: t.arg.boolean({ defaultValue: true }) },
      resolve: (_root, { includeRemoved, ...args }, context, info) =>
        readConnection(
          context,
          "serviceAccount",
          includeRemoved === false ? [{ sql: "removed_at is null" }] : [],
          args,
          (ids) =>
            context.operation.client.serviceAccount.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    ServiceAccountConnection,
  ),
}));

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;

const payload = (name: string) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      serviceAccount: t.prismaField({
        type: "ServiceAccount",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done
            ? context.operation.client.serviceAccount.findUnique({ ...query, where: rowKey(context, done.id) })
            : null,
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const ServiceAccountCreateInput = builder.inputType("ServiceAccountCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    role: t.field({ type: RoleEnum, required: true, description: "Any but OWNER, and none that exceeds the caller." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const ServiceAccountUpdateInput = builder.inputType("ServiceAccountUpdateInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    name: t.string({ description: "Default: stays." }),
    role: t.field({ type: RoleEnum, description: "Default: stays." }),
    expectedVersion: t.int({ required: true, description: "The version that the decision was made on." }),
  }),
});
const ServiceAccountRemoveInput = builder.inputType("ServiceAccountRemoveInput", {
  fields: (t) => ({ id: t.id({ required: true }), expectedVersion: t.int() }),
});

const ServiceAccountCreatePayload = payload("ServiceAccountCreatePayload");
const ServiceAccountUpdatePayload = payload("ServiceAccountUpdatePayload");
const ServiceAccountRemovePayload = payload("ServiceAccountRemovePayload");

builder.mutationFields((t) => ({
  serviceAccountCreate: t.field({
    type: ServiceAccountCreatePayload,
    authScopes: { may: "service_accounts:write" },
    args: { input: t.arg({ type: ServiceAccountCreateInput, required: true }) },
    resolve: (_root, { input: { idempotencyKey, ...input } }, context) =>
      outcomeOf(context, async () => ({
        id: await createServiceAccount(context.office, context.scope, input, onceOf(idempotencyKey, input)),
      })),
  }),
  serviceAccountUpdate: t.field({
    type: ServiceAccountUpdatePayload,
    description: "What its keys may do changes everywhere within five seconds.",
    authScopes: { may: "service_accounts:write" },
    args: { input: t.arg({ type: ServiceAccountUpdateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await changeServiceAccount(context.office, context.scope, {
          id: uuidOf("ServiceAccount", input.id),
          name: input.name ?? null,
          role: input.role ?? null,
          expectedVersion: input.expectedVersion,
        }),
      })),
  }),
  serviceAccountRemove: t.field({
    type: ServiceAccountRemovePayload,
    description: "Its keys are refused everywhere within five seconds.",
    authScopes: { may: "service_accounts:write" },
    args: { input: t.arg({ type: ServiceAccountRemoveInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await removeServiceAccount(context.office, context.scope, {
          id: uuidOf("ServiceAccount", input.id),
          expectedVersion: input.expectedVersion ?? null,
        }),
      })),
  }),
}));
