import SchemaBuilder from "@pothos/core";
import ComplexityPlugin from "@pothos/plugin-complexity";
import DataloaderPlugin from "@pothos/plugin-dataloader";
import ErrorsPlugin from "@pothos/plugin-errors";
import PrismaPlugin from "@pothos/plugin-prisma";
import RelayPlugin from "@pothos/plugin-relay";
import ScopeAuthPlugin from "@pothos/plugin-scope-auth";
import { DomainError } from "../domain/errors.js";
import type { ApiScope } from "../domain/scope.js";
import type PrismaTypes from "../generated/pothos-types.js";
import { getDatamodel } from "../generated/pothos-types.js";
import type { GraphqlContext } from "./context.js";

export interface Types {
  Context: GraphqlContext;
  PrismaTypes: PrismaTypes;
  AuthScopes: { scope: ApiScope };
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
    authScopes: (context) => ({ scope: (name) => context.scope.scopes.has(name) }),
    unauthorizedError: (_parent, _context, _info, { failure }) =>
      new DomainError("FORBIDDEN", `The API key lacks the scope "${missingScope(failure as Failure)}".`),
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

/** A field needs one scope, however deep the plugin wraps what failed. */
function missingScope(failure: Failure): string {
  if (typeof failure.parameter === "string") return failure.parameter;
  const [first] = failure.failures ?? [];
  return first ? missingScope(first) : "that this needs";
}

builder.queryType({});
builder.mutationType({});
builder.subscriptionType({});
