import type { Permission } from "../domain/permissions.js";
import type { ApiScope } from "../domain/scope.js";
import { revokeCredential, rotateCredential } from "../governance/change-credentials.js";
import { createApiKeyOnce, keyLifeDefaultMs } from "../governance/edit-api-keys.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import {
  type CredentialPayload,
  credentialStatus,
  RevokeInput,
  RotateInput,
  rotationOf,
  secretFields,
} from "./credential.js";
import { ApiScopeEnum, CredentialStatusEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { nilUuid, rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "api_keys:read" satisfies Permission;

const ApiKey = builder.prismaNode("ApiKey", {
  authScopes: { may: sees },
  description: "A client credential. Its secret is shown once, when it is made or rotated.",
  id: { resolve: (key) => key.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    publicId: t.exposeString("publicId", { description: "The part of the key that is not secret." }),
    last4: t.exposeString("last4"),
    scopes: t.field({ type: [ApiScopeEnum], select: { scopes: true }, resolve: (key) => key.scopes as ApiScope[] }),
    status: t.field({
      type: CredentialStatusEnum,
      select: {
        expiresAt: true,
        revokedAt: true,
        member: { select: { status: true } },
        serviceAccount: { select: { removedAt: true } },
      },
      resolve: (key, _args, context) => {
        const isOwnerGone = key.member?.status === "removed" || Boolean(key.serviceAccount?.removedAt);
        return credentialStatus(key, context.plane.clock.now(), isOwnerGone);
      },
    }),
    member: t.relation("member", {
      nullable: true,
      description: "Whose key it is. With neither a member nor a service account it is the tenant's own.",
    }),
    serviceAccount: t.relation("serviceAccount", { nullable: true }),
    agentIds: t.exposeStringList("agentIds", { description: "UUIDs of the agents that it is for; empty: all." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    rotatedAt: t.expose("rotatedAt", { type: "DateTime", nullable: true }),
    previousExpiresAt: t.expose("previousExpiresAt", {
      type: "DateTime",
      nullable: true,
      description: "Until when the secret of before the last rotation works.",
    }),
    expiresAt: t.expose("expiresAt", { type: "DateTime", nullable: true }),
    revokedAt: t.expose("revokedAt", { type: "DateTime", nullable: true }),
    lastUsedAt: t.expose("lastUsedAt", { type: "DateTime", nullable: true, description: "To the minute." }),
  }),
});

function ownerUuid(id: string): string {
  const member = uuidOf("Member", id);
  return member === nilUuid ? uuidOf("ServiceAccount", id) : member;
}

const ApiKeyConnection = builder.connectionObject({ type: ApiKey, name: "ApiKeyConnection" }, { name: "ApiKeyEdge" });

builder.queryFields((t) => ({
  apiKey: t.prismaField({
    type: "ApiKey",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.apiKey.findUnique({ ...query, where: rowKey(context, uuidOf("ApiKey", args.id)) }),
  }),
  apiKeys: t.connection(
    {
      type: ApiKey,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { includeRevoked: t.arg.boolean({ defaultValue: true }) },
      resolve: (_root, { includeRevoked, ...args }, context, info) =>
        readConnection(
          context,
          "apiKey",
          includeRevoked === false ? [{ sql: "revoked_at is null" }] : [],
          args,
          (ids) =>
            context.operation.client.apiKey.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    ApiKeyConnection,
  ),
}));

const payload = (name: string, isSecret: boolean) =>
  builder.objectRef<CredentialPayload>(name).implement({
    fields: (t) => ({
      apiKey: t.prismaField({
        type: "ApiKey",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done ? context.operation.client.apiKey.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      ...(isSecret ? secretFields(t, "key") : {}),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const ApiKeyCreateInput = builder.inputType("ApiKeyCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    scopes: t.field({ type: [ApiScopeEnum], required: true, description: "None that the creator lacks." }),
    ownerId: t.id({
      description:
        "A service account, or oneself. Default: whoever makes the key; the tenant, when a key of its own does.",
    }),
    agentIds: t.idList({
      description: "The agents that it is for. Such a key works on the Agent Protocol only. Default: all.",
    }),
    expiresAt: t.field({ type: "DateTime", description: "At most 366 days away. Default: in 90 days." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});

const ApiKeyCreatePayload = payload("ApiKeyCreatePayload", true);
const ApiKeyRotatePayload = payload("ApiKeyRotatePayload", true);
const ApiKeyRevokePayload = payload("ApiKeyRevokePayload", false);

builder.mutationFields((t) => ({
  apiKeyCreate: t.field({
    type: ApiKeyCreatePayload,
    authScopes: { may: "own_keys:write" },
    args: { input: t.arg({ type: ApiKeyCreateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, () => {
        const { stores, rootKey, clock } = context.office;
        const { idempotencyKey, ...given } = input;
        const expiresAt = given.expiresAt ?? new Date(clock.now() + keyLifeDefaultMs);
        const ownerId = given.ownerId ? ownerUuid(given.ownerId) : null;
        const agentIds = given.agentIds?.map((id) => uuidOf("Agent", id)) ?? [];
        const key = { name: given.name, scopes: given.scopes, expiresAt, ownerId, agentIds };
        return createApiKeyOnce(stores, rootKey, context.scope, key, onceOf(idempotencyKey, given));
      }),
  }),
  apiKeyRotate: t.field({
    type: ApiKeyRotatePayload,
    authScopes: { may: "own_keys:write" },
    args: { input: t.arg({ type: RotateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, () =>
        rotateCredential(context.office, context.scope, "api_key", rotationOf(uuidOf("ApiKey", input.id), input)),
      ),
  }),
  apiKeyRevoke: t.field({
    type: ApiKeyRevokePayload,
    description: "Ends a key for good; it is refused everywhere within five seconds.",
    authScopes: { may: "own_keys:write" },
    args: { input: t.arg({ type: RevokeInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await revokeCredential(context.office, context.scope, "api_key", uuidOf("ApiKey", input.id)),
      })),
  }),
}));
