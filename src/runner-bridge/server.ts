import { readFileSync } from "node:fs";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { RunnerServiceService } from "../generated/proto/fairlead/runner/v1/runner.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { Plane } from "../runs/plane.js";
import { startOpenCalls } from "./open-calls.js";
import { createRunnerService } from "./service.js";
import { createSessions, type Sessions } from "./sessions.js";

export interface BridgeOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
}

export interface Bridge {
  readonly name: string;
  readonly port: number;
  readonly sessions: Sessions;
  /** Drains: no new work, then the open streams, then the listener. */
  stop(): Promise<void>;
}

// A message holds at most a checkpoint of 64 MiB with room for its envelope.
const maxMessageBytes = 80 * 1024 * 1024;

/** The runners' own listener: clients cannot reach it. */
export async function startBridge(plane: Plane, authenticator: Authenticator, options: BridgeOptions): Promise<Bridge> {
  const server = new Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_send_message_length": maxMessageBytes,
    // A peer that is silent this long is cut off. How often runners ping is theirs to choose: grpc-js counts no offences.
    "grpc.keepalive_time_ms": plane.limits.runnerPingMs,
    "grpc.keepalive_timeout_ms": plane.limits.runnerPingTimeoutMs,
    "grpc.keepalive_permit_without_calls": 1,
  });
  const sessions = createSessions(plane);
  const calls = startOpenCalls(authenticator);
  server.addService(RunnerServiceService, createRunnerService(plane, sessions, authenticator, calls));
  const credentials =
    options.tlsCert && options.tlsKey
      ? ServerCredentials.createSsl(null, [
          { cert_chain: readFileSync(options.tlsCert), private_key: readFileSync(options.tlsKey) },
        ])
      : ServerCredentials.createInsecure();
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${options.host}:${options.port}`, credentials, (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return {
    name: "bridge",
    port,
    sessions,
    stop: async () => {
      plane.parked.drain();
      for (const session of sessions.all()) {
        for (const stream of session.cancelStreams) stream.end();
        for (const stream of session.eventStreams) stream.end();
      }
      sessions.stop();
      await calls.stop();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(() => {
          server.forceShutdown();
          resolve();
        }, 2_000);
        server.tryShutdown(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    },
  };
}
