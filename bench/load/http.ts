import { benchPackage } from "../place.js";

// Keep-alive connections of undici, one a virtual client, driven by its dispatcher so that a client costs little.

interface DispatchHandler {
  onRequestStart?(): void;
  onResponseStart(controller: unknown, status: number, headers: Record<string, string | string[] | undefined>): void;
  onResponseData(controller: unknown, chunk: Buffer): void;
  onResponseEnd(): void;
  onResponseError(controller: unknown, error: Error): void;
}

interface UndiciClient {
  dispatch(
    request: {
      path: string;
      method: string;
      headers: Record<string, string>;
      body: string | null;
      bodyTimeout: number;
      headersTimeout: number;
    },
    handler: DispatchHandler,
  ): boolean;
  destroy(): Promise<void>;
}

const { Client } = await benchPackage<{ Client: new (origin: string, options: object) => UndiciClient }>("undici");

export interface Answer {
  readonly status: number;
  readonly location: string;
  readonly body: string;
}

export interface Connection {
  /** `onData` gets the body piece by piece, and then the answer's body is empty. */
  send(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string | null,
    onData?: (chunk: Buffer) => void,
  ): Promise<Answer>;
  close(): Promise<void>;
}

export function openConnection(origin: string): Connection {
  const client = new Client(origin, { pipelining: 1, keepAliveTimeout: 60_000 });
  return {
    send: (method, path, headers, body, onData) =>
      new Promise((resolve, reject) => {
        let status = 0;
        let location = "";
        const chunks: Buffer[] = [];
        client.dispatch(
          {
            path,
            method,
            headers: { "content-type": "application/json", ...headers },
            body,
            bodyTimeout: 120_000,
            headersTimeout: 120_000,
          },
          {
            onRequestStart: () => {},
            onResponseStart: (_controller, code, answered) => {
              status = code;
              location = String(answered["content-location"] ?? "");
            },
            onResponseData: (_controller, chunk) => {
              if (onData) onData(chunk);
              else chunks.push(chunk);
            },
            onResponseEnd: () =>
              resolve({
                status,
                location,
                body: chunks.length === 1 ? String(chunks[0]) : Buffer.concat(chunks).toString(),
              }),
            onResponseError: (_controller, error) => reject(error),
          },
        );
      }),
    close: () => client.destroy(),
  };
}
