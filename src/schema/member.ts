import type { Permission } from "../domain/permissions.js";
import type { Role } from "../domain/roles.js";
import { changeMemberRole, inviteMember, removeMember } from "../governance/edit-members.js";
import type { MemberStatus } from "../store/members.js";
import { builder } from "./builder.js";
import { need } from "./context.js";
import { MemberStatusEnum, RoleEnum } from "./enums.js";
import { onceOf, outcomeOf, UserErrorRef } from "./errors.js";
import { rowKey, uuidOf, uuidOrNil } from "./ids.js";
import { askedOf, connectionCost, readConnection } from "./pages.js";

const sees = "members:read" satisfies Permission;

export const Member = builder.prismaNode("Member", {
  authScopes: { may: sees },
  description: "A person in the tenant: invited by address, then known by what their provider calls them.",
  id: { resolve: (member) => member.id },
  findUnique: (id, context) => {
    need(context, sees);
    return rowKey(context, uuidOrNil(id));
  },
  select: { tenantId: true, id: true },
  fields: (t) => ({
    uuid: t.exposeString("id"),
    email: t.exposeString("email", { description: "Where the invitation went." }),
    name: t.exposeString("name", { nullable: true, description: "As the provider said when they joined." }),
    role: t.field({ type: RoleEnum, select: { role: true }, resolve: (member) => member.role as Role }),
    status: t.field({
      type: MemberStatusEnum,
      select: { status: true },
      resolve: (member) => member.status as MemberStatus,
    }),
    version: t.exposeInt("version", { description: "Raised by every change; give it as expectedVersion." }),
    createdBy: t.exposeString("createdBy"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    joinedAt: t.expose("joinedAt", { type: "DateTime", nullable: true }),
    removedAt: t.expose("removedAt", { type: "DateTime", nullable: true }),
  }),
});

const MemberConnection = builder.connectionObject({ type: Member, name: "MemberConnection" }, { name: "MemberEdge" });

const MemberFilter = builder.inputType("MemberFilter", {
  fields: (t) => ({
    roles: t.field({ type: [RoleEnum] }),
    statuses: t.field({ type: [MemberStatusEnum] }),
  }),
});

builder.queryFields((t) => ({
  member: t.prismaField({
    type: "Member",
    nullable: true,
    description: "By id; null when there is none.",
    authScopes: { may: sees },
    args: { id: t.arg.id({ required: true }) },
    resolve: (query, _root, args, context) =>
      context.operation.client.member.findUnique({ ...query, where: rowKey(context, uuidOf("Member", args.id)) }),
  }),
  members: t.connection(
    {
      type: Member,
      authScopes: { may: sees },
      complexity: connectionCost,
      args: { filter: t.arg({ type: MemberFilter }) },
      resolve: (_root, { filter, ...args }, context, info) =>
        readConnection(
          context,
          "member",
          [
            ...(filter?.roles ? [{ sql: "role = any ($::text[])", value: filter.roles }] : []),
            ...(filter?.statuses ? [{ sql: "status = any ($::text[])", value: filter.statuses }] : []),
          ],
          args,
          (ids) =>
            context.operation.client.member.findMany({
              ...askedOf(context, info),
              where: { tenantId: context.scope.tenantId, id: { in: ids } },
            }),
        ),
    },
    MemberConnection,
  ),
}));

type Payload = Awaited<ReturnType<typeof outcomeOf<{ readonly id: string }>>>;

const payload = (name: string) =>
  builder.objectRef<Payload>(name).implement({
    fields: (t) => ({
      member: t.prismaField({
        type: "Member",
        nullable: true,
        resolve: (query, { done }, _args, context) =>
          done ? context.operation.client.member.findUnique({ ...query, where: rowKey(context, done.id) }) : null,
      }),
      userErrors: t.field({ type: [UserErrorRef], resolve: ({ userErrors }) => userErrors }),
    }),
  });

const MemberInviteInput = builder.inputType("MemberInviteInput", {
  fields: (t) => ({
    email: t.string({ required: true, description: "Whoever signs in with it, verified by their provider, joins." }),
    role: t.field({ type: RoleEnum, required: true, description: "None that includes what the caller may not." }),
    idempotencyKey: t.string({ description: "Repeating the request under the same key makes nothing new." }),
  }),
});
const MemberRoleUpdateInput = builder.inputType("MemberRoleUpdateInput", {
  fields: (t) => ({
    id: t.id({ required: true }),
    role: t.field({ type: RoleEnum, required: true }),
    expectedVersion: t.int({ required: true, description: "The version that the decision was made on." }),
  }),
});
const MemberRemoveInput = builder.inputType("MemberRemoveInput", {
  fields: (t) => ({ id: t.id({ required: true }), expectedVersion: t.int() }),
});

const MemberInvitePayload = payload("MemberInvitePayload");
const MemberRoleUpdatePayload = payload("MemberRoleUpdatePayload");
const MemberRemovePayload = payload("MemberRemovePayload");

builder.mutationFields((t) => ({
  memberInvite: t.field({
    type: MemberInvitePayload,
    authScopes: { may: "members:write" },
    args: { input: t.arg({ type: MemberInviteInput, required: true }) },
    resolve: (_root, { input: { idempotencyKey, ...input } }, context) =>
      outcomeOf(context, async () => ({
        id: await inviteMember(context.office, context.scope, input, onceOf(idempotencyKey, input)),
      })),
  }),
  memberRoleUpdate: t.field({
    type: MemberRoleUpdatePayload,
    description: "What the member may do changes everywhere within five seconds, their keys and sessions included.",
    authScopes: { may: "members:write" },
    args: { input: t.arg({ type: MemberRoleUpdateInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await changeMemberRole(context.office, context.scope, { ...input, id: uuidOf("Member", input.id) }),
      })),
  }),
  memberRemove: t.field({
    type: MemberRemovePayload,
    description: "Their sessions end and their keys are refused, everywhere within five seconds.",
    authScopes: { may: "members:write" },
    args: { input: t.arg({ type: MemberRemoveInput, required: true }) },
    resolve: (_root, { input }, context) =>
      outcomeOf(context, async () => ({
        id: await removeMember(context.office, context.scope, {
          id: uuidOf("Member", input.id),
          expectedVersion: input.expectedVersion ?? null,
        }),
      })),
  }),
}));
