import type { Metadata, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { DomainError, invalidInput } from "../domain/errors.js";
import type { RunnerId } from "../domain/ids.js";
import { isUuid, runKey } from "../domain/ids.js";
import { type RunnerScope, systemScope } from "../domain/scope.js";
import type { Pulse, RunnerServiceServer, RunRef } from "../generated/proto/fairlead/runner/v1/runner.js";
import type { Authenticator } from "../governance/authenticate.js";
import type { Plane } from "../runs/plane.js";
import { openCancels } from "../store/run-path/read.js";
import { toWireError } from "./errors.js";
import { getJob } from "./get-job.js";
import type { OpenCalls } from "./open-calls.js";
import { settleReport } from "./report-status.js";
import type { CancelStream, EventStream, Sessions } from "./sessions.js";
import { type Intake, serveEventStream } from "./stream-events.js";
import { fromWireRun, toWireRun } from "./wire.js";

const maxRunsPerCall = 1_000;

/** The five calls. Each authenticates, then hands over to one function. */
export function createRunnerService(
  plane: Plane,
  sessions: Sessions,
  authenticator: Authenticator,
  calls: OpenCalls,
): RunnerServiceServer {
  const tokenOf = (metadata: Metadata): string => {
    const [value] = metadata.get("authorization");
    const match = typeof value === "string" ? /^bearer +(\S+)$/i.exec(value) : null;
    if (!match) throw new DomainError("UNAUTHENTICATED", "Send `authorization: Bearer flr_…`, a runner token.");
    return match[1] as string;
  };
  const noteDenial = (scope: RunnerScope, error: unknown): never => {
    if (error instanceof DomainError && error.code === "FORBIDDEN") {
      const actor = { kind: "runner_token", id: scope.tokenId } as const;
      plane.denials.note({ ...systemScope(scope.poolId), actor }, "GetJob", error.message);
    }
    throw error;
  };
  const authenticate = (metadata: Metadata): Promise<RunnerScope> => authenticator.runner(tokenOf(metadata));
  /** Ends a stream with a status. Destroying it would send none, and the runner would wait on. */
  const refuse = (stream: EventStream | CancelStream, error: unknown): void => {
    stream.emit("error", Object.assign(new DomainError("INTERNAL"), toWireError(error, plane.log)));
  };
  /** Ends a stream whose token is refused later. */
  const watch = (stream: EventStream | CancelStream): void => {
    const unwatch = calls.watch(tokenOf(stream.metadata), (error) => {
      refuse(stream, error);
    });
    for (const end of ["cancelled", "close", "error"]) stream.once(end, unwatch);
  };

  const unary = <Request, Response>(
    call: ServerUnaryCall<Request, Response>,
    callback: sendUnaryData<Response>,
    work: (scope: RunnerScope, gone: AbortSignal) => Promise<Response>,
    withinMs?: number,
  ): void => {
    const gone = new AbortController();
    let isAnswered = false;
    call.on("cancelled", () => {
      // Every call is told so when it ends, and an abort makes an error with its stack: 2 % of the time of a run.
      if (!isAnswered) gone.abort();
    });
    const answer: typeof callback = (error, response) => {
      isAnswered = true;
      callback(error, response);
    };
    const done = Promise.resolve()
      .then(() => authenticate(call.metadata))
      .then((scope) => work(scope, gone.signal).catch((error: unknown) => noteDenial(scope, error)));
    (withinMs === undefined ? done : inTime(done, withinMs)).then(
      (response) => answer(null, response),
      (error: unknown) => answer(toWireError(error, plane.log)),
    );
  };

  const sessionOf = (scope: RunnerScope, runnerId: string) => {
    if (!isUuid(runnerId)) throw invalidInput("runner_id", "must be a UUID");
    return sessions.of(runnerId as RunnerId, { poolId: scope.poolId, kind: scope.kind });
  };

  const intake: Intake = { sending: 0 };

  return {
    getJob: (call, callback) =>
      unary(call, callback, async (scope, gone) => {
        const stop = new AbortController();
        const onGone = (): void => stop.abort();
        if (gone.aborted) onGone();
        gone.addEventListener("abort", onGone, { once: true });
        let refused: DomainError | undefined;
        const unwatch = calls.watch(tokenOf(call.metadata), (error) => {
          refused = error;
          stop.abort();
        });
        try {
          const response = await getJob(plane, sessions, scope, call.request, stop.signal);
          if (refused) throw refused;
          return response;
        } finally {
          unwatch();
        }
      }),

    streamEvents: (stream) => {
      const fail = (error: unknown): void => {
        refuse(stream, error);
      };
      // Nothing is read before the caller is known.
      stream.pause();
      Promise.resolve()
        .then(() => authenticate(stream.metadata))
        .then((scope) => {
          if (stream.cancelled) return;
          serveEventStream(plane, sessions, scope, stream, intake, fail);
          watch(stream);
          stream.resume();
        })
        .catch(fail);
    },

    reportStatus: (call, callback) =>
      unary(call, callback, async (scope) => {
        if (call.request.reports.length > maxRunsPerCall) throw invalidInput("reports", `at most ${maxRunsPerCall}`);
        const session = call.request.runnerId ? sessionOf(scope, call.request.runnerId) : undefined;
        return {
          verdicts: await Promise.all(
            call.request.reports.map((report) => settleReport(plane, session, scope, report)),
          ),
        };
      }),

    heartbeat: (call, callback) =>
      unary(
        call,
        callback,
        async (scope) => {
          if (call.request.runs.length > maxRunsPerCall) throw invalidInput("runs", `at most ${maxRunsPerCall}`);
          const session = sessionOf(scope, call.request.runnerId);
          const pulse = async (run: RunRef): Promise<Pulse> => {
            const checked = fromWireRun(run, session.queue);
            if ("complaint" in checked) throw new DomainError("INVALID_INPUT", checked.complaint);
            const renewed = await plane.path.renew(checked.ok);
            const key = runKey(checked.ok.tenantId, checked.ok.runId);
            const held = session.held.get(key);
            if (!renewed.alive) session.held.delete(key);
            else if (held) sessions.hold(session, held);
            return {
              run,
              superseded: !renewed.alive,
              cancel: renewed.cancel !== null,
              trustedMs: renewed.alive ? plane.limits.leaseMs : 0,
            };
          };
          return { pulses: await Promise.all(call.request.runs.map(pulse)) };
        },
        plane.limits.heartbeatMs * 0.6,
      ),

    watchCancels: (stream) => {
      Promise.resolve()
        .then(() => authenticate(stream.metadata))
        .then(async (scope) => {
          if (stream.request.kind !== scope.kind)
            throw new DomainError("FORBIDDEN", `The token is for runners of kind "${scope.kind}".`);
          const session = sessionOf(scope, stream.request.runnerId);
          // Its end was announced before anybody listened.
          if (stream.cancelled) return;
          session.cancelStreams.add(stream);
          watch(stream);
          const drop = (): void => {
            if (session.cancelStreams.delete(stream)) sessions.closed(session);
          };
          for (const end of ["cancelled", "close", "error"]) stream.once(end, drop);
          const open = await openCancels(plane.stores.app, session.queue, session.runnerId);
          stream.write({ runs: open.map(toWireRun) });
        })
        .catch((error: unknown) => refuse(stream, error));
    },
  };
}

/** A store that stands still is away: the runner must hear so before it gives up waiting. */
async function inTime<Result>(work: Promise<Result>, ms: number): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DomainError("UNAVAILABLE")), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
