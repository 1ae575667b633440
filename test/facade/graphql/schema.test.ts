import { readFileSync, writeFileSync } from "node:fs";
import { lexicographicSortSchema, printSchema } from "graphql";
import { expect, test } from "vitest";
import { graphqlSchema } from "../../../src/schema/index.js";

const committed = new URL("../../../schema.graphql", import.meta.url);

test("schema.graphql is the schema that is served (UPDATE_GOLDEN=1 rewrites it)", () => {
  const printed = `${printSchema(lexicographicSortSchema(graphqlSchema))}\n`;
  if (process.env["UPDATE_GOLDEN"] === "1") writeFileSync(committed, printed);
  expect(printed).toBe(readFileSync(committed, "utf8"));
});

test("no field can return what proves a credential", () => {
  const fields = Object.values(graphqlSchema.getTypeMap()).flatMap((type) =>
    "getFields" in type ? Object.keys(type.getFields()).map((name) => `${type.name}.${name}`) : [],
  );
  expect(fields.length).toBeGreaterThan(100);
  expect(fields.filter((name) => /hash|secret/i.test(name)).sort()).toEqual([
    "ApiKeyCreatePayload.secret",
    "ApiKeyRotatePayload.secret",
    "RunnerTokenCreatePayload.secret",
    "RunnerTokenRotatePayload.secret",
  ]);
});
