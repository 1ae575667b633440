import SchemaBuilder from "@pothos/core";
import ComplexityPlugin from "@pothos/plugin-complexity";
import DataloaderPlugin from "@pothos/plugin-dataloader";
import ErrorsPlugin from "@pothos/plugin-errors";
import PrismaPlugin from "@pothos/plugin-prisma";
import RelayPlugin from "@pothos/plugin-relay";
import ScopeAuthPlugin from "@pothos/plugin-scope-auth";
import { DomainError } from "../domain/errors.js";
import { allows, type Permission, refusal } from "../domain/permissions.js";
import type PrismaTypes from "../generated/pothos-types.js";
import { getDatamodel } from "../generated/pothos-types.js";
import type { GraphqlContext } from "./context.js";

export interface Types {
  Context: GraphqlContext;
  PrismaTypes: PrismaTypes;
  AuthScopes: { may: Permission };
  Scalars: {
    ID: { Input: string; Output: string };
    BigInt: { Input: bigint; Output: bigint | number };
    DateTime: { Input: Date; Output: Date };
    JSON: { Input: unknown; Output: unknown };
  };
  DefaultFieldNullability: false;
  DefaultInputFieldRequiredness: false;
}

/** Code-first schema. A file a type: its fields, its queries, its mutations. */
export const builder = new SchemaBuilder<Types>({
  defaultFieldNullability: false,
  // The first plugin wraps outermost: a refused field is refused before anything is loaded.
  plugins: [ScopeAuthPlugin, ErrorsPlugin, DataloaderPlugin, RelayPlugin, PrismaPlugin, ComplexityPlugin],
  scopeAuth: {
    authScopes: (context) => ({ may: (permission) => allows(context.scope, permission) }),
    unauthorizedError: (_parent, context, _info, { failure }) => {
      const permission = missing(failure as Failure);
      return (permission && refusal(context.scope, permission)) || new DomainError("FORBIDDEN");
    },
  },
  relay: { nodesOnConnection: true, cursorType: "String", clientMutationId: "omit" },
  prisma: {
    client: (context) => context.operation.client,
    dmmf: getDatamodel(),
    onUnusedQuery: null,
  },
  // Lists are bounded by the connections' own multiplier; the limit itself is checked before execution.
  complexity: { defaultComplexity: 1, defaultListMultiplier: 1, disabled: true },
  errors: { defaultTypes: [] },
});

interface Failure {
  readonly parameter?: unknown;
  readonly failures?: readonly Failure[];
}

/** A field needs one permission, however deep the plugin wraps what failed. */
function missing(failure: Failure): Permission | null {
  if (typeof failure.parameter === "string") return failure.parameter as Permission;
  const [first] = failure.failures ?? [];
  return first ? missing(first) : null;
}

builder.queryType({});
builder.mutationType({});
builder.subscriptionType({});
