import { EnvelopArmorPlugin } from "@escape.tech/graphql-armor";
import { createComplexityRule } from "@pothos/plugin-complexity";
import {
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  NoSchemaIntrospectionCustomRule,
  validate,
} from "graphql";
import type { Plugin } from "graphql-yoga";
import { refusal } from "../domain/permissions.js";
import type { GraphqlContext } from "./context.js";
import { refuseBadText } from "./texts.js";

// Everything is refused before a resolver runs: the shape of a query while it is validated, its cost, which depends on variables, right after.

export const graphqlLimits = {
  depth: 12,
  aliases: 30,
  directives: 20,
  tokens: 2_000,
  cost: 10_000,
  bodyBytes: 256 * 1024,
};

export const shapeLimits = EnvelopArmorPlugin({
  maxDepth: { n: graphqlLimits.depth, flattenFragments: true },
  maxAliases: { n: graphqlLimits.aliases, allowList: [] },
  maxDirectives: { n: graphqlLimits.directives },
  maxTokens: { n: graphqlLimits.tokens },
  blockFieldSuggestion: { enabled: true },
  costLimit: { enabled: false },
});

interface Execution {
  readonly schema: GraphQLSchema;
  readonly document: DocumentNode;
  readonly operationName?: string | null | undefined;
  readonly variableValues?: unknown;
  readonly contextValue: unknown;
}

/** Why this execution must not begin, or nothing. Rows cost what is asked of each, times the size of their page. */
export function refusals(execution: Execution): readonly GraphQLError[] {
  const bad = refuseBadText(execution.document, execution.variableValues);
  if (bad) return [bad];
  const context = execution.contextValue as GraphqlContext;
  const cost = createComplexityRule({
    context,
    variableValues: (execution.variableValues ?? {}) as Record<string, unknown>,
    operationName: execution.operationName ?? null,
    validate: ({ complexity }, report) => {
      if (complexity <= graphqlLimits.cost) return;
      const reason = `the query costs ${complexity}, more than ${graphqlLimits.cost}; ask for smaller pages or fewer fields`;
      report(new GraphQLError(`query: ${reason}`, { extensions: { code: "INVALID_INPUT", field: "query" } }));
    },
  });
  // The schema is for those who administer: others get what is published with the product.
  const refused = refusal(context.scope, "schema:read");
  return validate(execution.schema, execution.document, refused ? [cost, NoSchemaIntrospectionCustomRule] : [cost]).map(
    (error) =>
      refused && error.extensions["code"] === undefined
        ? new GraphQLError(`introspection: ${refused.message}`, {
            nodes: error.nodes ?? null,
            extensions: { code: "FORBIDDEN" },
          })
        : error,
  );
}

export const executionLimits: Plugin<GraphqlContext> = {
  onExecute: ({ args, setResultAndStopExecution }) => {
    const errors = refusals(args);
    if (errors.length > 0) setResultAndStopExecution({ errors: [...errors] });
  },
  onSubscribe: ({ args, setResultAndStopExecution }) => {
    const errors = refusals(args);
    if (errors.length > 0) setResultAndStopExecution({ errors: [...errors] });
  },
};
