import { readFileSync, writeFileSync } from "node:fs";
import { isObjectType, lexicographicSortSchema, printSchema } from "graphql";
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
  // The secrets of tenants are a noun of their own: what is answered of them is listed below, and a value is not in it.
  const ofSecrets = /^(Secret\w*|Query|Mutation)[.]/;
  expect(fields.filter((name) => /hash|secret/i.test(name) && !ofSecrets.test(name)).sort()).toEqual([
    "ApiKeyCreatePayload.secret",
    "ApiKeyRotatePayload.secret",
    "RunnerTokenCreatePayload.secret",
    "RunnerTokenRotatePayload.secret",
  ]);
});

test("what is answered of a tenant's secret are names, numbers, states and times, never a value", () => {
  const answered = Object.values(graphqlSchema.getTypeMap()).flatMap((type) =>
    isObjectType(type) && /^Secret(Version)?$/.test(type.name)
      ? Object.keys(type.getFields()).map((name) => `${type.name}.${name}`)
      : [],
  );
  expect(answered.sort()).toEqual([
    ...["createdAt", "createdBy", "deletedAt", "id", "name", "uuid", "version", "versions", "viewerCan"].map(
      (name) => `Secret.${name}`,
    ),
    ...["activatedAt", "createdAt", "createdBy", "destroyedAt", "number", "state"].map(
      (name) => `SecretVersion.${name}`,
    ),
  ]);
  const others = Object.values(graphqlSchema.getTypeMap()).filter(
    (type) => isObjectType(type) && /^Secret\w*(Payload|Edge|Connection)$/.test(type.name),
  );
  const kinds = others.flatMap((type) => (isObjectType(type) ? Object.keys(type.getFields()) : []));
  expect([...new Set(kinds)].sort()).toEqual(["cursor", "edges", "node", "nodes", "pageInfo", "secret", "userErrors"]);
});
