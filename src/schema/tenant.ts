import { allows, permissions } from "../domain/permissions.js";
import { builder } from "./builder.js";
import { ApiScopeEnum, PermissionEnum, RoleEnum } from "./enums.js";
import { uuidOrNil } from "./ids.js";

builder.prismaNode("Tenant", {
  authScopes: { may: "tenant:read" },
  description: "An organisation. A key sees its own only.",
  id: { resolve: (tenant) => tenant.id },
  // Row security hides every other one, whatever the id.
  findUnique: (id) => ({ id: uuidOrNil(id) }),
  select: { id: true },
  fields: (t) => ({
    slug: t.exposeString("slug"),
    name: t.exposeString("name"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
    viewerCan: t.field({
      type: [PermissionEnum],
      description: "What the caller may do in it.",
      resolve: (_tenant, _args, context) => permissions.filter((name) => allows(context.scope, name)),
    }),
  }),
});

interface ViewerMemberRow {
  readonly id: string;
  readonly email: string;
  readonly name: string | null;
}

// Not the node: everybody may see this of themselves, and few may see it of others.
const ViewerMember = builder.objectRef<ViewerMemberRow>("ViewerMember").implement({
  fields: (t) => ({
    uuid: t.exposeString("id"),
    email: t.exposeString("email"),
    name: t.exposeString("name", { nullable: true }),
  }),
});

const Viewer = builder.objectRef<Record<string, never>>("Viewer").implement({
  description: "Who is asking.",
  fields: (t) => ({
    apiKeyId: t.string({
      nullable: true,
      resolve: (_viewer, _args, { scope: { actor } }) => (actor.kind === "api_key" ? actor.id : null),
    }),
    role: t.field({
      type: RoleEnum,
      nullable: true,
      description: "Of whoever owns the key or is signed in; null for a key of the tenant's own.",
      resolve: (_viewer, _args, context) => context.scope.role,
    }),
    member: t.field({
      type: ViewerMember,
      nullable: true,
      description: "Who is signed in, or owns the key.",
      resolve: (_viewer, _args, { scope: { owner, tenantId }, operation }) =>
        owner?.kind === "member"
          ? operation.client.member.findUnique({
              select: { id: true, email: true, name: true },
              where: { tenantId_id: { tenantId, id: owner.id } },
            })
          : null,
    }),
    scopes: t.field({ type: [ApiScopeEnum], resolve: (_viewer, _args, context) => [...context.scope.scopes] }),
    tenant: t.prismaField({
      type: "Tenant",
      resolve: (query, _viewer, _args, context) =>
        context.operation.client.tenant.findUniqueOrThrow({ ...query, where: { id: context.scope.tenantId } }),
    }),
  }),
});

builder.queryFields((t) => ({
  viewer: t.field({ type: Viewer, resolve: () => ({}) }),
  tenant: t.prismaField({
    type: "Tenant",
    description: "The tenant of the key.",
    resolve: (query, _root, _args, context) =>
      context.operation.client.tenant.findUniqueOrThrow({ ...query, where: { id: context.scope.tenantId } }),
  }),
}));
