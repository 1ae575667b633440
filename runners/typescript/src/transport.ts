import { readFileSync } from "node:fs";
import {
  type CallOptions,
  type ChannelCredentials,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { RunnerError } from "./errors.js";
import { RunnerServiceClient } from "./generated/fairlead/runner/v1/runner.js";

/** `true` trusts the system's authorities. Values are PEM text; the command line takes file names instead. */
export type TlsOptions = boolean | { readonly ca?: string; readonly cert?: string; readonly key?: string };

export interface Connection {
  readonly client: RunnerServiceClient;
  readonly metadata: Metadata;
  readonly address: string;
}

export function connect(address: string, token: string, tls: TlsOptions | undefined): Connection {
  const target = parseAddress(address, tls);
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const client = new RunnerServiceClient(target.host, target.credentials, {
    "grpc.keepalive_time_ms": 15_000,
    "grpc.keepalive_timeout_ms": 5_000,
    "grpc.keepalive_permit_without_calls": 1,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
    // Assignments carry whole checkpoints, and batches whole states: the plane sets the limits and says so.
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.service_config_disable_resolution": 1,
    "grpc.enable_retries": 0,
    // Two runners in one process must not share a connection: the plane cuts leases when a runner's own connection closes.
    "grpc.use_local_subchannel_pool": 1,
  });
  return { client, metadata, address: target.host };
}

function parseAddress(address: string, tls: TlsOptions | undefined): { host: string; credentials: ChannelCredentials } {
  const match = /^(?:([a-z]+):\/\/)?([^/]+?)\/?$/i.exec(address);
  const scheme = match?.[1]?.toLowerCase();
  const host = match?.[2];
  if (host === undefined || !/:\d+$/.test(host)) {
    throw new RunnerError(
      "config",
      `address: "${address}" is not host:port. Give the plane's gRPC address, for example 127.0.0.1:50051.`,
    );
  }
  const secure = new Set(["https", "grpcs"]);
  const plain = new Set(["http", "grpc"]);
  if (scheme !== undefined && !secure.has(scheme) && !plain.has(scheme)) {
    throw new RunnerError(
      "config",
      `address: "${scheme}://" is unknown. Use host:port, grpc://host:port or grpcs://host:port.`,
    );
  }
  const encrypted = tls !== undefined ? tls !== false : scheme !== undefined && secure.has(scheme);
  if (!encrypted) return { host, credentials: credentials.createInsecure() };
  const pem = typeof tls === "object" ? tls : {};
  if ((pem.cert === undefined) !== (pem.key === undefined)) {
    throw new RunnerError("config", "tls: cert and key belong together. Give both, or neither.");
  }
  const bytes = (text: string | undefined): Buffer | null => (text === undefined ? null : Buffer.from(text));
  return { host, credentials: credentials.createSsl(bytes(pem.ca), bytes(pem.key), bytes(pem.cert)) };
}

/** Reads the files that a configuration names. */
export function readTlsFiles(files: { ca?: string; cert?: string; key?: string }): TlsOptions {
  const pem: Record<string, string> = {};
  for (const [name, file] of Object.entries(files)) {
    try {
      pem[name] = readFileSync(file, "utf8");
    } catch (error) {
      throw new RunnerError("config", `tls.${name}: cannot read ${file}: ${(error as Error).message}`);
    }
  }
  return pem;
}

type UnaryMethod<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  callback: (error: ServiceError | null, response: Response) => void,
) => ClientUnaryCall;

/** A unary call as a promise, with a deadline always and a signal where somebody may lose interest. */
export function callUnary<Request, Response>(
  connection: Connection,
  method: UnaryMethod<Request, Response>,
  request: Request,
  deadlineMs: number,
  signal?: AbortSignal,
): Promise<Response> {
  return new Promise<Response>((resolve, reject) => {
    const deadline = Date.now() + deadlineMs;
    const call = method.call(connection.client, request, connection.metadata, { deadline }, (error, response) => {
      signal?.removeEventListener("abort", cancel);
      if (error === null) resolve(response);
      else reject(error);
    });
    const cancel = (): void => call.cancel();
    if (signal?.aborted) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
  });
}

export function statusOf(error: unknown): number {
  const code = (error as Partial<ServiceError>).code;
  return typeof code === "number" ? code : status.UNKNOWN;
}

/** One line for people: gRPC's own message starts with the number and the name of the status. */
export function describeCallError(error: unknown): string {
  const { details, message } = error as Partial<ServiceError>;
  const name = Object.entries(status).find(([, value]) => value === statusOf(error))?.[0] ?? "UNKNOWN";
  return `${name}: ${details || message || String(error)}`;
}

/** Did the plane itself answer that it cannot reach its store? A plane that cannot be reached says nothing. */
export function saysStoreIsAway(error: unknown): boolean {
  const { metadata } = error as Partial<ServiceError>;
  return statusOf(error) === status.UNAVAILABLE && metadata?.get("fairlead-code")[0] === "UNAVAILABLE";
}

/** Does the plane refuse this runner itself? Then no call of it will work until a person changes something. */
export function isRefusal(error: unknown): boolean {
  const code = statusOf(error);
  return code === status.UNAUTHENTICATED || code === status.PERMISSION_DENIED;
}

/** What a person must change before GetJob can work; undefined for everything that may pass by itself. */
export function refusal(error: unknown, address: string, kind: string): RunnerError | undefined {
  const details = (error as Partial<ServiceError>).details ?? "";
  const because = details === "" ? "" : ` (${details})`;
  const refused = (what: string, todo: string): RunnerError =>
    new RunnerError("refused", `The plane at ${address} ${what}${because}. ${todo}`, { cause: error });
  switch (statusOf(error)) {
    case status.UNAUTHENTICATED:
      return refused("does not accept the runner token", `Create a new token for kind "${kind}".`);
    case status.PERMISSION_DENIED:
      return refused(`refuses this runner as kind "${kind}"`, "Use the kind for which the token was created.");
    case status.INVALID_ARGUMENT:
      return refused("refuses what this runner announced", "Correct the options of its agents.");
    case status.UNIMPLEMENTED:
      return refused("does not speak the Runner Protocol", "Give the plane's gRPC address.");
    default:
      return undefined;
  }
}
