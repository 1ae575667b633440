import { type Client, createClient } from "graphql-ws";
import { WebSocket } from "ws";

export interface GraphqlError {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly extensions?: { readonly code?: string; readonly field?: string };
}

export interface GraphqlAnswer {
  readonly status: number;
  // Tests look into answers of every shape.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly data: any;
  readonly errors: readonly GraphqlError[];
}

/** One request over HTTP, as a client without a library sends it. */
export async function askGraphql(
  url: string,
  key: string | null,
  query: string,
  variables: Record<string, unknown> = {},
): Promise<GraphqlAnswer> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key === null ? {} : { "x-api-key": key }) },
    body: JSON.stringify({ query, variables }),
  });
  const body = (await response.json()) as { data?: unknown; errors?: GraphqlError[] };
  return { status: response.status, data: body.data ?? null, errors: body.errors ?? [] };
}

/** The id that Relay clients use. */
export function relayId(type: string, local: string): string {
  return Buffer.from(`${type}:${local}`).toString("base64");
}

/** A graphql-ws client that neither retries nor waits before it connects. */
export function graphqlSocket(url: string, connectionParams: Record<string, unknown>): Client {
  return createClient({
    url: `${url.replace("http", "ws")}/graphql`,
    webSocketImpl: WebSocket,
    connectionParams,
    retryAttempts: 0,
    lazy: true,
    onNonLazyError: () => {},
  });
}

export interface Batch {
  readonly events: readonly { readonly seq: string; readonly family: string; readonly body: unknown }[];
  readonly lastSeq: string;
  readonly ended: boolean;
  readonly status: string | null;
}

export const followQuery =
  "subscription ($run: ID!, $after: BigInt) { runEvents(runId: $run, after: $after) { events { seq family body } lastSeq ended status } }";

export interface Followed {
  readonly batches: Batch[];
  readonly errors: GraphqlError[];
}

/** What a subscription over SSE brings, until it ends or `signal` fires. */
export async function followOverSse(
  url: string,
  key: string,
  variables: Record<string, unknown>,
  into: Followed,
  signal?: AbortSignal,
): Promise<void> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream", "x-api-key": key },
    body: JSON.stringify({ query: followQuery, variables }),
    ...(signal ? { signal } : {}),
  });
  let text = "";
  for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(part).toString("utf8");
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data) take(JSON.parse(data) as { data?: { runEvents?: Batch }; errors?: GraphqlError[] }, into);
    }
  }
}

/** The same over graphql-ws: resolves when the subscription is over. */
export async function followOverSocket(
  client: Client,
  variables: Record<string, unknown>,
  into: Followed,
): Promise<void> {
  for await (const result of client.iterate({ query: followQuery, variables }))
    take(result as { data?: { runEvents?: Batch }; errors?: GraphqlError[] }, into);
}

function take(result: { data?: { runEvents?: Batch } | null; errors?: GraphqlError[] }, into: Followed): void {
  if (result.errors) into.errors.push(...result.errors);
  if (result.data?.runEvents) into.batches.push(result.data.runEvents);
}
