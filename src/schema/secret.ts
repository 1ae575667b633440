import type { SecretVersionMove, SecretVersionState } from "../domain/moves/secret-version.js";
import type { Permission } from "../domain/permissions.js";
import { allows } from "../domain/permissions.js";
import { createSecret, deleteSecret, moveSecretVersion, putSecretVersion } from "../governance/secrets/edit-secrets.js";
import { builder } from "./builder.js";
import { type GraphqlContext, need } from "./context.js";
import { PermissionEnum, SecretVersionStateEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

// There is no field here that could answer a value, or anything made from one.

const sees = "secrets:read" satisfies Permission;
const writes = "secrets:write" satisfies Permission;
const versionsShown = 100;

const SecretVersion = builder.prismaObject("SecretVersion", {
  description: "One value of a secret.",
  select: { tenantId: true, secretId: true, number: true },
  fields: (t) => ({
    number: t.exposeInt("number"),
    state: t.field({
      type: SecretVersionStateEnum,
      select: { state: true },
      resolve: (version) => version.state as SecretVersionState,
    }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    activatedAt: t.expose("activatedAt", { type: "DateTime", nullable: true }),
    destroyedAt: t.expose("destroyedAt", { type: "DateTime", nullable: true }),
  }),
});

export const Secret = builder.prismaNode("Secret", {
  authScopes: { may: sees },
  description: "A name under which a tenant keeps values. No field shows one.",
  id: { resolve: (secret) => secret.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    name: t.exposeString("name"),
    version: t.exposeInt("version", { description: "Raised by every change; give it as expectedVersion." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    deletedAt: t.expose("deletedAt", { type: "DateTime", nullable: true }),
    versions: t.relation("versions", {
      type: SecretVersion,
      description: `The newest ${versionsShown}, newest first.`,
      complexity: { field: 1, multiplier: versionsShown },
      query: { orderBy: { number: "desc" }, take: versionsShown },
    }),
    viewerCan: t.field({
      type: [PermissionEnum],
      description: "What the caller may do with it.",
      resolve: (_secret, _args, { scope }) => ([writes] as const).filter((name) => allows(scope, name)),
    }),
  }),
});

const SecretConnection = builder.connectionObject({ type: Secret, name: "SecretConnection" }, { name: "SecretEdge" });

builder.queryFields((t) => ({
  secret: t.prismaField({
    type: "Secret",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.secret.findUnique({ ...query, where: rowKey(context, uuidOf("Secret", args.id)) }),
  }),
  secrets: t.connection(
    {
      type: Secret,
      description: "Those that are not deleted.",
      authScopes: { may: sees },
      complexity: connectionCost,
      resolve: (_root, args, context, info) =>
        readConnection(context, "secret", [{ sql: "deleted_at is null" }], args, (ids) =>
          context.operation.client.secret.findMany({
            ...askedOf(context, info),
            where: { tenantId: context.scope.tenantId, id: { in: ids } },
          }),
        ),
    },
    SecretConnection,
  ),
}));

interface Done {
  readonly id: string;
  readonly number?: number;
}
type Payload = Awaited<ReturnType<typeof outcomeOf<Done>>>;

const payload = (name: string) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      secret: t.prismaField({
        type: "Secret",
        nullable: true,
        description: "Null when nothing was done.",
        resolve: (query, { done }, _args, context) =>
          done ? context.operation.client.secret.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const valueHint = "6 characters to 65536 bytes. Send it as a variable; it is never shown again.";
const SecretCreateInput = builder.inputType("SecretCreateInput", {
  fields: (t) => ({
    name: t.string({ required: true, description: "A letter, then letters, digits, _ . -" }),
    value: t.string({ required: true, description: valueHint }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const SecretPutVersionInput = builder.inputType("SecretPutVersionInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    value: t.string({ required: true, description: valueHint }),
    activate: t.boolean({ defaultValue: false, description: "Not staged: in use at once." }),
    expectedVersion: t.int(),
  }),
});
const SecretVersionInput = builder.inputType("SecretVersionInput", {
  fields: (t) => ({ id: t.id({ required: true }), number: t.int({ required: true }), expectedVersion: t.int() }),
});
const SecretDeleteInput = builder.inputType("SecretDeleteInput", {
  fields: (t) => ({ id: t.id({ required: true }), expectedVersion: t.int() }),
});

const SecretCreatePayload = payload("SecretCreatePayload");
const SecretPutVersionPayload = payload("SecretPutVersionPayload");
const SecretVersionPayload = payload("SecretVersionPayload");
const SecretDeletePayload = payload("SecretDeletePayload");

const officeOf = ({ plane, keyring }: GraphqlContext) => ({ stores: plane.stores, keyring });
const changeOf = (input: { readonly id: string; readonly expectedVersion?: number | null | undefined }) => ({
  id: uuidOf("Secret", input.id),
  expectedVersion: input.expectedVersion ?? null,
});

builder.mutationFields((t) => {
  const move = (name: SecretVersionMove, description: string) =>
    t.field({
      type: SecretVersionPayload,
      description,
      authScopes: { may: writes },
      args: { input: t.arg({ type: SecretVersionInput, required: true }) },
      resolve: (_root, { input }, context) =>
        outcomeOf<Done>(context, async () => ({
          id: await moveSecretVersion(officeOf(context), context.scope, {
            ...changeOf(input),
            number: input.number,
            move: name,
          }),
        })),
    });
  return {
    secretCreate: t.field({
      type: SecretCreatePayload,
      description: "Keeps a value under a new name; it is version 1, and active.",
      authScopes: { may: writes },
      args: { input: t.arg({ type: SecretCreateInput, required: true }) },
      resolve: (_root, { input }, context) =>
        outcomeOf<Done>(context, async () => {
          const { idempotencyKey, ...given } = input;
          return {
            id: await createSecret(officeOf(context), context.scope, given, onceOf(idempotencyKey, given)),
          };
        }),
    }),
    secretPutVersion: t.field({
      type: SecretPutVersionPayload,
      description: "Adds a value. It is staged, unless it is to be active at once.",
      authScopes: { may: writes },
      args: { input: t.arg({ type: SecretPutVersionInput, required: true }) },
      resolve: (_root, { input }, context) =>
        outcomeOf<Done>(context, () =>
          putSecretVersion(officeOf(context), context.scope, {
            ...changeOf(input),
            value: input.value,
            activate: input.activate ?? false,
          }),
        ),
    }),
    secretActivateVersion: move("activate", "Puts a version in use; the one of before is deprecated."),
    secretDeprecateVersion: move("deprecate", "Takes the active version out of use."),
    secretDestroyVersion: move("destroy", "Erases the sealed value of a version for good."),
    secretDelete: t.field({
      type: SecretDeletePayload,
      description: "Destroys all versions for good and frees the name.",
      authScopes: { may: writes },
      args: { input: t.arg({ type: SecretDeleteInput, required: true }) },
      resolve: (_root, { input }, context) =>
        outcomeOf<Done>(context, async () => ({
          id: await deleteSecret(officeOf(context), context.scope, changeOf(input)),
        })),
    }),
  };
});
