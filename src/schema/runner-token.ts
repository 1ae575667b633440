import type { Permission } from "../domain/permissions.js";
import { revokeCredential, rotateCredential } from "../governance/change-credentials.js";
import { createRunnerTokenOnce } from "../governance/edit-runner-tokens.js";
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
import { CredentialStatusEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "runner_tokens:read" satisfies Permission;

const RunnerToken = builder.prismaNode("RunnerToken", {
  authScopes: { may: sees },
  description: "A credential for runners of one kind. Its secret is shown once, when it is made or rotated.",
  id: { resolve: (token) => token.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    publicId: t.exposeString("publicId", { description: "The part of the token that is not secret." }),
    last4: t.exposeString("last4"),
    kind: t.exposeString("kind", { description: "The only kind of runner that may use it." }),
    status: t.field({
      type: CredentialStatusEnum,
      select: { expiresAt: true, revokedAt: true },
      resolve: (token, _args, context) => credentialStatus(token, context.plane.clock.now()),
    }),
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

const RunnerTokenConnection = builder.connectionObject(
  { type: RunnerToken, name: "RunnerTokenConnection" },
  { name: "RunnerTokenEdge" },
);

builder.queryFields((t) => ({
  runnerToken: t.prismaField({
    type: "RunnerToken",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.runnerToken.findUnique({
        ...query,
        where: rowKey(context, uuidOf("RunnerToken", args.id)),
      }),
  }),
  runnerTokens: t.connection(
    {
      type: RunnerToken,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { includeRevoked: t.arg.boolean({ defaultValue: true }) },
      resolve: (_root, { includeRevoked, ...args }, context, info) =>
        readConnection(
          context,
          "runnerToken",
          includeRevoked === false ? [{ sql: "revoked_at is null" }] : [],
          args,
          (ids) =>
            context.operation.client.runnerToken.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    RunnerTokenConnection,
  ),
}));

const payload = (name: string, isSecret: boolean) =>
  builder.objectRef<CredentialPayload>(name).implement({
    fields: (t) => ({
      runnerToken: t.prismaField({
        type: "RunnerToken",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done ? context.operation.client.runnerToken.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      ...(isSecret ? secretFields(t, "token") : {}),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const RunnerTokenCreateInput = builder.inputType("RunnerTokenCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true }),
    kind: t.string({ required: true, description: "1 to 64 characters of A-Z a-z 0-9 _ . -" }),
    expiresAt: t.field({ type: "DateTime", description: "Default: never." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});

const RunnerTokenCreatePayload = payload("RunnerTokenCreatePayload", true);
const RunnerTokenRotatePayload = payload("RunnerTokenRotatePayload", true);
const RunnerTokenRevokePayload = payload("RunnerTokenRevokePayload", false);

builder.mutationFields((t) => ({
  runnerTokenCreate: t.field({
    type: RunnerTokenCreatePayload,
    authScopes: { may: "runner_tokens:write" },
    args: { input: t.arg({ type: RunnerTokenCreateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, () => {
        const { stores, rootKey } = context.office;
        const { idempotencyKey, ...given } = input;
        const token = { ...given, expiresAt: given.expiresAt ?? null };
        return createRunnerTokenOnce(stores, rootKey, context.scope, token, onceOf(idempotencyKey, given));
      }),
  }),
  runnerTokenRotate: t.field({
    type: RunnerTokenRotatePayload,
    authScopes: { may: "runner_tokens:write" },
    args: { input: t.arg({ type: RotateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, () =>
        rotateCredential(
          context.office,
          context.scope,
          "runner_token",
          rotationOf(uuidOf("RunnerToken", input.id), input),
        ),
      ),
  }),
  runnerTokenRevoke: t.field({
    type: RunnerTokenRevokePayload,
    description: "Ends a token for good; it is refused everywhere within five seconds.",
    authScopes: { may: "runner_tokens:write" },
    args: { input: t.arg({ type: RevokeInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await revokeCredential(context.office, context.scope, "runner_token", uuidOf("RunnerToken", input.id)),
      })),
  }),
}));
