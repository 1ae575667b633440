import { type GraphQLInputType, getNamedType, isInputObjectType, isNonNullType, isScalarType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiScopes } from "../../../src/domain/scope.js";
import { graphqlSchema } from "../../../src/schema/index.js";
import { askGraphql } from "../../support/graphql.js";
import { startWorld, type World } from "../../support/world.js";

// Every string that the schema lets a caller send, one by one, holding what no text column holds.

let world: World;
let admin: string;
beforeAll(async () => {
  world = await startWorld();
  admin = await world.key(world.home, apiScopes);
});
afterAll(() => world.stop());

interface Place {
  readonly operation: "query" | "mutation";
  readonly field: string;
  readonly argument: string;
  readonly type: GraphQLInputType;
  /** Names of input fields below the argument. */
  readonly path: readonly string[];
}

/** The strings and ids in an input type. */
function textsIn(type: GraphQLInputType, path: readonly string[] = []): (readonly string[])[] {
  const named = getNamedType(type);
  if (isScalarType(named)) return ["String", "ID"].includes(named.name) ? [path] : [];
  if (!isInputObjectType(named)) return [];
  return Object.values(named.getFields()).flatMap((field) => textsIn(field.type, [...path, field.name]));
}

const places: Place[] = (
  [
    ["query", graphqlSchema.getQueryType()],
    ["mutation", graphqlSchema.getMutationType()],
  ] as const
).flatMap(([operation, root]) =>
  Object.values(root?.getFields() ?? {}).flatMap((field) =>
    field.args.flatMap((argument) =>
      textsIn(argument.type).map((path) => ({
        operation,
        field: field.name,
        argument: argument.name,
        type: argument.type,
        path,
      })),
    ),
  ),
);

/** The least that a type accepts, with one text in it. */
function sampleWith(type: GraphQLInputType, path: readonly string[], text: string): unknown {
  const bare = isNonNullType(type) ? type.ofType : type;
  const named = getNamedType(bare);
  const isList = bare !== named;
  const one = (() => {
    if (!isInputObjectType(named)) return path.length === 0 && isScalarType(named) ? sampleOf(named.name, text) : "x";
    const [next, ...rest] = path;
    const members = Object.values(named.getFields()).filter(
      (field) => field.name === next || (isNonNullType(field.type) && field.defaultValue === undefined),
    );
    return Object.fromEntries(
      members.map((field) => [
        field.name,
        field.name === next ? sampleWith(field.type, rest, text) : neededOf(field.type),
      ]),
    );
  })();
  return isList ? [one] : one;
}
const sampleOf = (scalar: string, text: string): unknown =>
  ({ String: text, ID: text, Int: 1, Float: 1, Boolean: true, DateTime: "2030-01-01T00:00:00Z" })[scalar] ?? text;
function neededOf(type: GraphQLInputType): unknown {
  const bare = isNonNullType(type) ? type.ofType : type;
  const named = getNamedType(bare);
  const one = isScalarType(named)
    ? sampleOf(named.name, "x")
    : isInputObjectType(named)
      ? sampleWith(named, [], "x")
      : firstOf(named);
  return bare === named ? one : [one];
}
const firstOf = (named: { name: string }): string => {
  const type = graphqlSchema.getType(named.name) as unknown as { getValues(): { name: string }[] };
  return type.getValues()[0]?.name as string;
};

test("there are such places", () => {
  expect(places.length).toBeGreaterThan(10);
});

describe.each(
  places.map(
    (place) => [`${place.operation} ${place.field}(${[place.argument, ...place.path].join(".")})`, place] as const,
  ),
)("%s", (_name, { operation, field, argument, type, path }) => {
  test.each(["a\u0000b", "a\ud800b"])("is refused by its name when it holds %j", async (text) => {
    const output = (
      operation === "query" ? graphqlSchema.getQueryType() : graphqlSchema.getMutationType()
    )?.getFields()[field]?.type;
    const selection = output && "getFields" in getNamedType(output) ? "{ __typename }" : "";
    const { errors } = await askGraphql(
      world.url,
      admin,
      `${operation} ($v: ${String(type)}) { ${field}(${argument}: $v${others(operation, field, argument)}) ${selection} }`,
      { v: sampleWith(type, path, text) },
    );
    expect(errors?.[0]).toMatchObject({
      extensions: { code: "INVALID_INPUT", field: ["variables.v", ...path].join(".") },
    });
  });
});

/** Arguments that the field needs besides. */
function others(operation: "query" | "mutation", field: string, argument: string): string {
  const root = operation === "query" ? graphqlSchema.getQueryType() : graphqlSchema.getMutationType();
  const needed = (root?.getFields()[field]?.args ?? []).filter(
    ({ name, type }) => name !== argument && isNonNullType(type),
  );
  return needed.map(({ name, type }) => `, ${name}: ${JSON.stringify(neededOf(type))}`).join("");
}

test("a literal in the query is refused by the name of its argument or input field", async () => {
  const ask = async (query: string) => (await askGraphql(world.url, admin, query)).errors?.[0];
  expect(await ask('{ thread(id: "a\\u0000") { uuid } }')).toMatchObject({
    extensions: { code: "INVALID_INPUT", field: "id" },
  });
  expect(
    await ask('mutation { apiKeyCreate(input: {name: "a\\u0000", scopes: [RUNS_READ]}) { secret } }'),
  ).toMatchObject({
    extensions: { code: "INVALID_INPUT", field: "name" },
  });
  expect(await ask('query ($id: ID! = "\\u0000") { thread(id: $id) { uuid } }')).toMatchObject({
    extensions: { code: "INVALID_INPUT", field: "variables.id" },
  });
});
