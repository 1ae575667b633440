import type { RunName } from "./audit.js";
import { pace } from "./pace.js";
import { NotOk, type ProtocolClient, protocolClient, type SseFrame } from "./protocol-client.js";
import type { TestTenant } from "./tenants.js";

// Clients that create, stream, wait and cancel without a pause while what they talk to is killed, stopped and restarted. 503 and broken connections
// are fair: nothing was promised. Everything else that they are told must hold.

export interface ClientLoad {
  /** Runs whose creation was answered with 2xx. */
  readonly acknowledged: RunName[];
  /** What no client should have been told; empty when all is well. */
  readonly broken: string[];
  /** Acts in the very moment in which a client next learns that its run exists. */
  atNextAcknowledged(act: () => void): Promise<void>;
  /** Lets every client end what it does. */
  stop(): Promise<void>;
}

export interface LoadOptions {
  readonly urls: readonly string[];
  readonly tenants: readonly TestTenant[];
  readonly clients: number;
  readonly seed: number;
}

/** Mulberry32: the same numbers for the same seed. */
export function randomOf(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function startClients({ urls, tenants, clients, seed }: LoadOptions): ClientLoad {
  const acknowledged: RunName[] = [];
  const broken: string[] = [];
  let onAcknowledged = (): void => {};
  const state = { isStopping: false };

  const work = async (url: string, tenant: TestTenant, random: () => number): Promise<void> => {
    const client = protocolClient(url, tenant.apiKey);
    const remember = (runId: string): void => {
      acknowledged.push({ tenantId: tenant.id, runId });
      onAcknowledged();
    };
    const judge = (what: string, status: number, body: unknown): boolean => {
      if (status >= 300 && status !== 503) broken.push(`${what} answered ${status}: ${JSON.stringify(body)}`);
      return status < 300;
    };
    while (!state.isStopping) {
      const body = {
        assistant_id: "patient",
        input: { events: 1 + Math.floor(random() * 8), everyMs: Math.floor(random() * 60) },
        stream_mode: ["custom"],
        on_completion: "keep",
      };
      const choice = random();
      try {
        if (choice < 0.4) await streamToTheEnd(client, body, remember);
        else if (choice < 0.55) {
          const { status, body: outcome } = await client.json("POST", "/runs/wait", body);
          judge("wait", status, outcome);
        } else {
          const { status, body: run } = await client.json<{ run_id: string }>("POST", "/runs", body);
          if (!judge("create", status, run)) continue;
          remember(run.run_id);
          if (choice < 0.85) continue;
          const cancel = await client.json("POST", `/runs/${run.run_id}/cancel?wait=1`);
          judge("cancel", cancel.status, cancel.body);
        }
      } catch (error) {
        complain(error);
        // Nobody answered, or not to the end: nothing was promised. Whoever should have is on its way up.
        await pace(20);
      }
    }
  };

  const complain = (error: unknown): void => {
    const { message } = error as Error;
    const isAnswer = error instanceof NotOk && error.status !== 503;
    // A connection may break, but one that stands owes an answer.
    if (isAnswer || /no answer/.test(message)) broken.push(message);
  };

  /** Streams a run over any number of broken connections, each time from the last id that was seen. */
  const streamToTheEnd = async (
    client: ProtocolClient,
    body: unknown,
    remember: (runId: string) => void,
  ): Promise<void> => {
    const first = await client.stream("POST", "/runs/stream", body);
    remember(first.runId);
    const seen: SseFrame[] = [];
    let isWhole = await first.whole;
    seen.push(...first.frames);
    while (!isWhole && !state.isStopping) {
      try {
        const again = await client.stream("GET", `/runs/${first.runId}/stream`, undefined, seen.at(-1)?.id ?? "0");
        isWhole = await again.whole;
        seen.push(...again.frames);
      } catch (error) {
        complain(error);
        await pace(20);
      }
    }
    broken.push(...complaintsAbout(first.runId, seen, isWhole));
  };

  const busy = Array.from({ length: clients }, (_, n) =>
    work(urls[n % urls.length] as string, tenants[n % tenants.length] as TestTenant, randomOf(seed + n + 1)),
  );
  return {
    acknowledged,
    broken,
    atNextAcknowledged: (act) =>
      new Promise((resolve) => {
        onAcknowledged = () => {
          onAcknowledged = () => {};
          act();
          resolve();
        };
      }),
    stop: async () => {
      state.isStopping = true;
      await Promise.all(busy);
    },
  };
}

/** What is wrong with the frames that one reader of a run got, over all its connections. */
export function complaintsAbout(runId: string, seen: readonly SseFrame[], isWhole: boolean): string[] {
  const complaints: string[] = [];
  const ids = seen.map((frame) => Number(frame.id));
  if (ids.some((id, at) => at > 0 && id <= (ids[at - 1] as number)))
    complaints.push(`run ${runId} was streamed as ${ids.join(" ")}`);
  if (isWhole && seen.filter((frame) => frame.event === "end").length !== 1)
    complaints.push(`run ${runId} ended with ${seen.map((frame) => frame.event).join(" ")}`);
  return complaints;
}
