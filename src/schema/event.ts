import { invalidInput } from "../domain/errors.js";
import { eventFamilies, walkEvents } from "../domain/event-list.js";
import { type RunId, runKey } from "../domain/ids.js";
import { metadataFrame } from "../runs/control-frames.js";
import { type LogChunk, logChunk } from "../runs/feeds.js";
import { readChunks } from "../store/run-path/read.js";
import { builder } from "./builder.js";
import { connectionCost, pageSize } from "./pages.js";
import { Run } from "./run.js";

export interface RunEvent {
  readonly seq: number;
  readonly family: (typeof eventFamilies)[number];
  readonly mode: string;
  readonly name: string;
  readonly namespace: readonly string[];
  readonly node: string;
  readonly at: Date | null;
  /** JSON text. */
  readonly body: string;
}

const EventFamilyEnum = builder.enumType("EventFamily", {
  values: Object.fromEntries(eventFamilies.map((value) => [value.toUpperCase(), { value }])) as Record<
    string,
    { value: RunEvent["family"] }
  >,
});

export const Event = builder.objectRef<RunEvent>("Event").implement({
  description: "What happened in a run. Numbers begin at 1 and have no gaps.",
  fields: (t) => ({
    seq: t.field({ type: "BigInt", description: "Its number in the run.", resolve: (event) => event.seq }),
    family: t.field({ type: EventFamilyEnum, resolve: (event) => event.family }),
    mode: t.exposeString("mode", { description: "The stream mode that shows it; empty for none." }),
    name: t.exposeString("name"),
    namespace: t.stringList({ resolve: (event) => [...event.namespace] }),
    node: t.exposeString("node"),
    at: t.expose("at", {
      type: "DateTime",
      nullable: true,
      description: "When it happened, in the clock of its source.",
    }),
    body: t.field({
      type: "JSON",
      nullable: true,
      resolve: (event) => (event.body === "" ? null : (JSON.parse(event.body) as unknown)),
    }),
  }),
});

const EventConnection = builder.connectionObject({ type: Event, name: "EventConnection" }, { name: "EventEdge" });

/** The events of a chunk from number `from` on, at most `limit` of them. */
export function eventsOf(chunk: Pick<LogChunk, "firstSeq" | "body">, from: number, limit: number): RunEvent[] {
  const events: RunEvent[] = [];
  let seq = chunk.firstSeq;
  walkEvents(chunk.body, (view) => {
    const number = seq++;
    if (number < from || events.length >= limit) return;
    const hasBody = view.bodyEnd > view.bodyStart;
    events.push({
      seq: number,
      family: eventFamilies[view.family] ?? "unspecified",
      mode: view.mode,
      name: view.name,
      namespace: [...view.namespace],
      node: view.node,
      at: view.timeMs > 0 ? new Date(view.timeMs) : null,
      body: chunk.body
        .subarray(hasBody ? view.bodyStart : view.legacyStart, hasBody ? view.bodyEnd : view.legacyEnd)
        .toString("utf8"),
    });
  });
  return events;
}

builder.prismaObjectField(Run, "events", (t) =>
  t.connection(
    {
      type: Event,
      description: "The log, forward only: `after` is the number of an event, as its cursor and its seq say.",
      complexity: connectionCost,
      select: { id: true, threadId: true, createdAt: true },
      resolve: async (run, args, context) => {
        if (args.last !== null && args.last !== undefined)
          throw invalidInput("last", "a log is read forward; use first and after");
        if (args.before !== null && args.before !== undefined)
          throw invalidInput("before", "a log is read forward; use first and after");
        const limit = pageSize(args);
        if (args.after !== null && args.after !== undefined && !/^\d{1,15}$/.test(args.after))
          throw invalidInput("after", "the number of an event, such as the endCursor of an earlier page");
        const after = Number(args.after ?? 0);
        const events: RunEvent[] = [];
        if (after < 1) {
          const frame = metadataFrame(run.id, run.threadId, run.createdAt.getTime());
          events.push(...eventsOf(logChunk(1, frame.count, frame.bytes), 1, 1));
        }
        const key = runKey(context.scope.tenantId, run.id as RunId);
        for (let at = Math.max(after, 1); events.length <= limit; ) {
          const chunks = await readChunks(context.plane.stores.path, key, at);
          if (chunks.length === 0) break;
          for (const chunk of chunks) {
            events.push(...eventsOf(chunk, at + 1, limit + 1 - events.length));
            at = Math.max(at, chunk.firstSeq + chunk.count - 1);
          }
        }
        const edges = events.slice(0, limit).map((node) => ({ cursor: String(node.seq), node }));
        return {
          edges,
          pageInfo: {
            hasNextPage: events.length > limit,
            hasPreviousPage: after > 0,
            startCursor: edges[0]?.cursor ?? null,
            endCursor: edges.at(-1)?.cursor ?? null,
          },
        };
      },
    },
    EventConnection,
  ),
);
