import { builder } from "./builder.js";
import { ApiScopeEnum } from "./enums.js";
import { uuidOrNil } from "./ids.js";

builder.prismaNode("Tenant", {
  description: "An organisation. A key sees its own only.",
  id: { resolve: (tenant) => tenant.id },
  // Row security hides every other one, whatever the id.
  findUnique: (id) => ({ id: uuidOrNil(id) }),
  select: { id: true },
  fields: (t) => ({
    slug: t.exposeString("slug"),
    name: t.exposeString("name"),
    createdAt: t.expose("createdAt", { type: "DateTime" }),
  }),
});

const Viewer = builder.objectRef<Record<string, never>>("Viewer").implement({
  description: "Who is asking.",
  fields: (t) => ({
    apiKeyId: t.string({ nullable: true, resolve: (_viewer, _args, context) => context.scope.actor.id }),
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
