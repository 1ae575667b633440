import { type ASTNode, type DocumentNode, GraphQLError, visit } from "graphql";
import { findBadText, whyNotText } from "../domain/text.js";

/** A string in the variables or in the query itself that no column holds, refused by the name of its place; or null. */
export function refuseBadText(document: DocumentNode, variables: unknown): GraphQLError | null {
  const bad = findBadText(variables, "variables");
  if (bad) return refused(bad.path, bad.reason);
  let found: GraphQLError | null = null;
  visit(document, {
    StringValue: ({ value }, _key, parent, _path, ancestors) => {
      const reason = whyNotText(value);
      if (reason !== null) found ??= refused(nameOfPlace([...ancestors, ...(parent ? [parent] : [])]), reason);
    },
  });
  return found;
}

function refused(field: string, reason: string): GraphQLError {
  return new GraphQLError(`${field}: ${reason}`, { extensions: { code: "INVALID_INPUT", field } });
}

/** The argument, input field or variable that a literal stands in. */
function nameOfPlace(around: readonly (ASTNode | readonly ASTNode[])[]): string {
  for (const node of [...around].reverse()) {
    if (!("kind" in node)) continue;
    if (node.kind === "Argument" || node.kind === "ObjectField") return node.name.value;
    if (node.kind === "VariableDefinition") return `variables.${node.variable.name.value}`;
  }
  return "query";
}
