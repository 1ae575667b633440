import { queryFromInfo } from "@pothos/plugin-prisma";
import type { GraphQLResolveInfo } from "graphql";
import { invalidInput } from "../domain/errors.js";
import { isUuid } from "../domain/ids.js";
import { type Condition, type PagedTable, type PageRequest, readPage } from "../store/graphql-pages.js";
import type { GraphqlContext } from "./context.js";

export interface ConnectionArgs {
  readonly first?: number | null | undefined;
  readonly last?: number | null | undefined;
  readonly after?: string | null | undefined;
  readonly before?: string | null | undefined;
}

const pageDefault = 20;
const pageMax = 100;

/** What a connection costs: its rows times what is asked of each. */
export function connectionCost(args: ConnectionArgs): { field: number; multiplier: number } {
  return { field: 1, multiplier: Math.min(Math.max(args.first ?? args.last ?? pageDefault, 1), pageMax) };
}

export function pageSize(args: ConnectionArgs): number {
  if (args.first !== null && args.first !== undefined && args.last !== null && args.last !== undefined)
    throw invalidInput("last", "first and last exclude each other");
  const size = args.first ?? args.last ?? pageDefault;
  if (size < 1 || size > pageMax)
    throw invalidInput(args.first === null || args.first === undefined ? "last" : "first", `1 to ${pageMax}`);
  return size;
}

/** The columns and relations that the query asks of a page's rows. */
export function askedOf(context: GraphqlContext, info: GraphQLResolveInfo): object {
  return queryFromInfo({ context, info, paths: [["nodes"], ["edges", "node"]] });
}

/** The rows of a page, in its order, as a Relay connection. `load` gets the ids of the page. */
export async function readConnection<Row extends object>(
  context: GraphqlContext,
  table: PagedTable,
  conditions: readonly Condition[],
  args: ConnectionArgs,
  load: (ids: string[]) => Promise<Row[]>,
  idOf: (row: Row) => string = (row) => (row as { id: string }).id,
) {
  const isText = table === "step";
  const page: PageRequest = {
    limit: pageSize(args),
    backward: args.last !== null && args.last !== undefined,
    after: cursorId("after", args.after, isText),
    before: cursorId("before", args.before, isText),
  };
  const { ids, hasNextPage, hasPreviousPage, unknownCursor } = await readPage(
    context.operation,
    context.scope.tenantId,
    table,
    conditions,
    page,
  );
  if (unknownCursor) throw invalidInput(unknownCursor, "this cursor is not of this list");
  const byId = new Map((ids.length > 0 ? await load(ids) : []).map((row) => [idOf(row), row]));
  const edges = ids.flatMap((id) => {
    const node = byId.get(id);
    return node ? [{ cursor: cursorOf(id), node }] : [];
  });
  return {
    edges,
    pageInfo: {
      hasNextPage,
      hasPreviousPage,
      startCursor: edges[0]?.cursor ?? null,
      endCursor: edges.at(-1)?.cursor ?? null,
    },
  };
}

export function cursorOf(id: string): string {
  return Buffer.from(`c:${id}`).toString("base64url");
}

function cursorId(field: "after" | "before", cursor: string | null | undefined, isText: boolean): string | null {
  if (cursor === null || cursor === undefined) return null;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const id = text.slice(2);
  if (!text.startsWith("c:") || (isText ? id === "" || id.includes("\0") : !isUuid(id)))
    throw invalidInput(field, "not a cursor of this API; take endCursor or startCursor of an earlier page");
  return id;
}
