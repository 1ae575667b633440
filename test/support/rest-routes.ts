import type { ApiScope } from "../../src/domain/scope.js";

// Every route of the Agent Protocol with a request that it accepts, and bodies that it must refuse. Tests that go through all routes fail when one
// is missing here.

export interface RestRoute {
  readonly scope: ApiScope;
  /** A body that is accepted; none for routes that read none. */
  readonly body?: unknown;
  /** Bodies of wrong types, by the field that the refusal must name. */
  readonly wrong?: Readonly<Record<string, unknown>>;
  /** Members of the body that are text, lists of text included: they must be refused when they hold what no text can. */
  readonly texts?: readonly string[];
  /** Query strings that must be refused, by the field. */
  readonly wrongQuery?: Readonly<Record<string, string>>;
}

const wrongRun = {
  body: [1, 2],
  assistant_id: { assistant_id: 5 },
  metadata: { assistant_id: "echo", metadata: "x" },
  "metadata ": { assistant_id: "echo", metadata: { a: "\u0000" } },
  stream_mode: { assistant_id: "echo", stream_mode: ["values", "telepathy"] },
  after_seconds: { assistant_id: "echo", after_seconds: -1 },
  multitask_strategy: { assistant_id: "echo", multitask_strategy: "guess" },
  run_id: { assistant_id: "echo", run_id: "7" },
  interrupt_before: { assistant_id: "echo", interrupt_before: ["a\u0000b"] },
  webhook: { assistant_id: "echo", webhook: "https://example.com" },
} as const;
const checkpointTexts = ["checkpoint.thread_id", "checkpoint.checkpoint_ns", "checkpoint.checkpoint_id"];
const run = {
  scope: "runs:write",
  body: { assistant_id: "echo", input: {} },
  wrong: wrongRun,
  texts: [
    ...checkpointTexts,
    ...["assistant_id", "checkpoint_id", "interrupt_before", "interrupt_after", "config.tags", "webhook", "run_id"],
    ...["thread_id", "feedback_keys", "metadata.a", "stream_mode", "multitask_strategy", "on_disconnect"],
  ],
} as const;
const read = { scope: "runs:read" } as const;
const select = { select: "?select=nonsense" } as const;
const stream = { scope: "runs:read", wrongQuery: { stream_mode: "?stream_mode=telepathy" } } as const;
const cancel = { scope: "runs:write", wrongQuery: { action: "?action=explode", wait: "?wait=perhaps" } } as const;

export const restRoutes: Readonly<Record<string, RestRoute>> = {
  "POST /assistants/search": {
    scope: "runs:read",
    body: {},
    wrong: { limit: { limit: 0 }, sort_by: { sort_by: "mood" }, metadata: { metadata: 5 }, select: { select: ["x"] } },
    texts: ["graph_id", "name", "select", "metadata.a"],
  },
  "GET /assistants/:assistant_id": read,
  "GET /assistants/:assistant_id/schemas": read,
  "POST /threads": {
    scope: "runs:write",
    body: {},
    wrong: {
      thread_id: { thread_id: "1" },
      metadata: { metadata: { "a\ud800": 1 } },
      if_exists: { if_exists: "maybe" },
      ttl: { ttl: { ttl: 5 } },
      supersteps: { supersteps: [{ updates: [] }] },
    },
    texts: ["thread_id", "metadata.a", "if_exists"],
  },
  "POST /threads/search": {
    scope: "runs:read",
    body: {},
    wrong: {
      limit: { limit: 1001 },
      offset: { offset: -1 },
      ids: { ids: ["x"] },
      status: { status: "happy" },
      values: { values: { a: 1 } },
      extract: { extract: { a: "values.a" } },
      metadata: { metadata: { a: "\u0000" } },
    },
    texts: ["ids", "status", "select", "metadata.a"],
  },
  "GET /threads/:thread_id": read,
  "PATCH /threads/:thread_id": {
    scope: "runs:write",
    body: { metadata: { a: 1 } },
    wrong: { metadata: { metadata: [] }, values: { values: {} }, messages: { messages: [] }, ttl: { ttl: 5 } },
    texts: ["metadata.a"],
  },
  "DELETE /threads/:thread_id": { scope: "runs:write" },
  "GET /threads/:thread_id/state": {
    scope: "runs:read",
    wrongQuery: { subgraphs: "?subgraphs=perhaps", ...select },
  },
  "POST /threads/:thread_id/state": {
    scope: "runs:write",
    body: { values: { a: 1 } },
    wrong: { values: { values: "x" }, as_node: { as_node: 5 }, checkpoint: { checkpoint: 5 } },
    texts: [...checkpointTexts, "checkpoint_id", "as_node"],
  },
  "PATCH /threads/:thread_id/state": {
    scope: "runs:write",
    body: { metadata: {} },
    wrong: { metadata: { metadata: "x" } },
    texts: ["metadata.a"],
  },
  "GET /threads/:thread_id/state/:checkpoint_id": read,
  "POST /threads/:thread_id/state/checkpoint": {
    scope: "runs:read",
    body: {},
    wrong: { subgraphs: { subgraphs: "x" }, "checkpoint.checkpoint_id": { checkpoint: { checkpoint_id: 5 } } },
    texts: [...checkpointTexts, "select"],
  },
  "GET /threads/:thread_id/history": { scope: "runs:read", wrongQuery: { limit: "?limit=-1", ...select } },
  "POST /threads/:thread_id/history": {
    scope: "runs:read",
    body: {},
    wrong: { limit: { limit: "x" }, before: { before: 5 }, metadata: { metadata: 5 } },
    texts: [...checkpointTexts, "before", "before.checkpoint_id", "before.configurable.checkpoint_id", "select"],
  },
  "POST /threads/:thread_id/runs": run,
  "POST /threads/:thread_id/runs/stream": run,
  "POST /threads/:thread_id/runs/wait": run,
  "GET /threads/:thread_id/runs": {
    scope: "runs:read",
    wrongQuery: { status: "?status=constructor", limit: "?limit=x", offset: "?offset=-1", ...select },
  },
  "GET /threads/:thread_id/runs/:run_id": read,
  "DELETE /threads/:thread_id/runs/:run_id": { scope: "runs:write" },
  "GET /threads/:thread_id/runs/:run_id/join": {
    scope: "runs:read",
    wrongQuery: { cancel_on_disconnect: "?cancel_on_disconnect=perhaps" },
  },
  "GET /threads/:thread_id/runs/:run_id/stream": stream,
  "POST /threads/:thread_id/runs/:run_id/cancel": cancel,
  "POST /runs": run,
  "POST /runs/stream": run,
  "POST /runs/wait": run,
  "POST /runs/cancel": {
    scope: "runs:write",
    body: { status: "pending" },
    wrong: { body: {}, status: { status: "ended" }, run_ids: { run_ids: "x" } },
    texts: ["thread_id", "run_ids", "status"],
    wrongQuery: { action: "?action=explode" },
  },
  "GET /runs/:run_id": read,
  "DELETE /runs/:run_id": { scope: "runs:write" },
  "GET /runs/:run_id/join": read,
  "GET /runs/:run_id/stream": stream,
  "POST /runs/:run_id/cancel": cancel,
};

/** Served without a credential, or by another facade with tests of its own. */
const elsewhere = /^\/(ok|info|livez|readyz|metrics|graphql|\*|$)/;

/** The routes that a plane registered and that the table must know. */
export function registeredRoutes(table: readonly { readonly method: string; readonly url: string }[]): string[] {
  return table
    .filter(({ method, url }) => !elsewhere.test(url) && method !== "OPTIONS")
    .map(({ method, url }) => `${method} ${url}`);
}

export interface Names {
  readonly thread: string;
  readonly run: string;
  readonly checkpoint: string;
  readonly assistant: string;
}

/** The path of a route with these names in it. */
export function pathOf(route: string, names: Names): string {
  return (route.split(" ")[1] as string)
    .replace(":thread_id", names.thread)
    .replace(":run_id", names.run)
    .replace(":checkpoint_id", names.checkpoint)
    .replace(":assistant_id", names.assistant);
}

export function requestOf(route: string, body: unknown): RequestInit {
  const method = route.split(" ")[0] as string;
  if (body === undefined) return { method };
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { method, body: text, headers: { "content-type": "application/json" } };
}
