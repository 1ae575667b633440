import { request } from "node:http";

// The Agent Protocol by hand: for tests that must know what every byte on the wire was, and whether a response came at all.

const silenceMs = 45_000;

export interface SseFrame {
  readonly event: string;
  readonly data: string;
  readonly id: string;
}

export interface SseReader {
  readonly frames: SseFrame[];
  /** From Content-Location. */
  readonly runId: string;
  /** Resolves when the response ended; false when it broke off. */
  readonly whole: Promise<boolean>;
  close(): void;
}

export interface ProtocolClient {
  json<Body>(method: string, path: string, body?: unknown): Promise<{ status: number; body: Body }>;
  /** Opens an event stream; rejects unless the answer is 200. */
  stream(method: "GET" | "POST", path: string, body?: unknown, lastEventId?: string): Promise<SseReader>;
}

export class NotOk extends Error {
  override readonly name = "NotOk";
  readonly status: number;
  constructor(status: number, text: string) {
    super(`${status} ${text.slice(0, 500)}`);
    this.status = status;
  }
}

/** One request, one connection: nothing of an earlier server is kept. */
export function protocolClient(url: string, apiKey: string): ProtocolClient {
  const send = (method: string, path: string, body: unknown, headers: Record<string, string>) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const outgoing = request(`${url}${path}`, {
      method,
      agent: false,
      headers: {
        "x-api-key": apiKey,
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
        ...headers,
      },
    });
    outgoing.end(text);
    return outgoing;
  };
  return {
    json: (method, path, body) =>
      new Promise((resolve, reject) => {
        const outgoing = send(method, path, body, {});
        // Whoever waits for a run is sent a newline now and then.
        outgoing.setTimeout(silenceMs, () => outgoing.destroy(new Error(`no answer within ${silenceMs} ms`)));
        outgoing.on("error", reject);
        outgoing.on("response", (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (part: string) => {
            text += part;
          });
          response.on("error", reject);
          response.on("close", () => {
            if (!response.complete) return reject(new Error("the response broke off"));
            resolve({
              status: response.statusCode ?? 0,
              body: (text.trim() === "" ? null : JSON.parse(text)) as never,
            });
          });
        });
      }),
    stream: (method, path, body, lastEventId) =>
      new Promise((resolve, reject) => {
        const outgoing = send(method, path, body, lastEventId === undefined ? {} : { "last-event-id": lastEventId });
        outgoing.on("error", reject);
        outgoing.on("response", (response) => {
          const frames: SseFrame[] = [];
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (part: string) => {
            text += part;
            if (response.statusCode !== 200) return;
            for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
              const frame = parseFrame(text.slice(0, end));
              if (frame) frames.push(frame);
              text = text.slice(end + 2);
            }
          });
          const whole = new Promise<boolean>((done) => {
            response.on("error", () => done(false));
            response.on("close", () => done(response.complete));
          });
          if (response.statusCode !== 200) {
            void whole.then(() => reject(new NotOk(response.statusCode ?? 0, text)));
            return;
          }
          const runId = /runs\/([0-9a-f-]{36})/.exec(String(response.headers["content-location"]))?.[1] ?? "";
          resolve({ frames, runId, whole, close: () => outgoing.destroy() });
        });
      }),
  };
}

function parseFrame(text: string): SseFrame | null {
  const fields = { event: "", data: "", id: "" };
  for (const line of text.split("\n")) {
    const match = /^(event|data|id): (.*)$/.exec(line);
    if (match) fields[match[1] as keyof typeof fields] = match[2] as string;
  }
  return fields.event === "" ? null : fields;
}
