import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { getDatamodel } from "../../src/generated/pothos-types.js";
import { type TestDatabase, testDatabase } from "../support/postgres.js";
import { withAdmin } from "../support/template-database.js";

// The migrations are written by hand, so prisma/schema.prisma can drift from them without anybody noticing before a query fails.

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());

interface Column {
  readonly table: string;
  readonly column: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly list: boolean;
}

const prismaTypes: Record<string, string> = {
  uuid: "String",
  text: "String",
  int4: "Int",
  int8: "BigInt",
  bool: "Boolean",
  timestamptz: "DateTime",
  json: "Json",
  bytea: "Bytes",
};

/** Each model's table and each field's column, as the schema file maps them. */
function mappedColumns(): Column[] {
  const text = readFileSync(new URL("../../prisma/schema.prisma", import.meta.url), "utf8");
  const { models } = getDatamodel().datamodel;
  return Object.entries(models).flatMap(([model, { fields }]) => {
    const body = new RegExp(`^model ${model} \\{\\n([\\s\\S]*?)^\\}`, "m").exec(text)?.[1] ?? "";
    const table = /@@map\("(\w+)"\)/.exec(body)?.[1] as string;
    return fields
      .filter(({ kind }) => kind === "scalar")
      .map((field) => ({
        table,
        column: new RegExp(`^ +${field.name} .*@map\\("(\\w+)"\\)`, "m").exec(body)?.[1] ?? field.name,
        type: field.type,
        nullable: !field.isRequired,
        list: field.isList,
      }));
  });
}

const byName = (a: Column, b: Column): number => (`${a.table}.${a.column}` < `${b.table}.${b.column}` ? -1 : 1);

test("Prisma's models are the migrated tables, column by column", async () => {
  const { rows } = await withAdmin(database.adminUrl, (admin) =>
    admin.query<{ table: string; column: string; type: string; nullable: boolean }>(`
      select c.table_name as table, c.column_name as column, c.udt_name as type, c.is_nullable = 'YES' as nullable
      from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
      where table_schema = 'public' and t.table_type = 'BASE TABLE' and table_name not in ('_prisma_migrations', 'run_delta_rest')`),
  );
  const migrated = rows.map(({ type, ...row }) => ({
    ...row,
    type: prismaTypes[type.replace(/^_/, "")] ?? `no Prisma type for ${type}`,
    list: type.startsWith("_"),
  }));
  expect(migrated.length).toBeGreaterThan(150);
  expect(mappedColumns().sort(byName)).toEqual(migrated.sort(byName));
});

test("every model's key is the table's key", async () => {
  const { rows } = await withAdmin(database.adminUrl, (admin) =>
    admin.query<{ table: string; columns: string[] }>(`
      select t.relname as table, array_agg(a.attname::text order by array_position(i.indkey::int[], a.attnum::int)) as columns
      from pg_index i join pg_class t on t.oid = i.indrelid join pg_namespace n on n.oid = t.relnamespace
      join pg_attribute a on a.attrelid = t.oid and a.attnum = any (i.indkey)
      where i.indisprimary and n.nspname = 'public' and t.relname not in ('_prisma_migrations', 'run_delta_rest') group by t.relname`),
  );
  const text = readFileSync(new URL("../../prisma/schema.prisma", import.meta.url), "utf8");
  const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const keys = Object.entries(getDatamodel().datamodel.models).map(([model, { primaryKey, fields }]) => ({
    table: new RegExp(`^model ${model} \\{[\\s\\S]*?@@map\\("(\\w+)"\\)`, "m").exec(text)?.[1] as string,
    columns: (primaryKey?.fields ?? fields.filter(({ isId }) => isId).map(({ name }) => name)).map(snake),
  }));
  const order = (a: { table: string }, b: { table: string }): number => (a.table < b.table ? -1 : 1);
  expect(keys.sort(order)).toEqual(rows.sort(order));
});
