import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { deleteRun, listThreadRuns } from "../catalog/edit-runs.js";
import { invalidInput } from "../domain/errors.js";
import { type RunId, runKey, type ThreadId } from "../domain/ids.js";
import type { Scope } from "../domain/scope.js";
import { awaitCancelled, cancelRun } from "../runs/cancel-run.js";
import { type CreatedRun, createRun } from "../runs/create-run.js";
import { requireRun } from "../runs/follow-run.js";
import { cancelActionOf } from "./cancel-runs.js";
import { type FrontDoor, sendJson } from "./front-door.js";
import { cursorOf, joinFilter } from "./join.js";
import { bodyOf } from "./json-body.js";
import { pathId, queryFlag, queryList, queryNumber, queryText } from "./parameters.js";
import { parseRunRequest, type RunRequest } from "./run-request.js";
import { streamRun } from "./run-stream.js";
import { waitForRun } from "./run-wait.js";
import { selectMembers } from "./select.js";
import { hideThreadOfOthers, selected } from "./selected-agents.js";
import { runMembers, runStatesOf, toWireRun } from "./wire.js";

/** Runs on a thread and stateless ones: the same verbs, with and without a thread in the path. */
export function runRoutes(app: FastifyInstance, door: FrontDoor): void {
  const { plane } = door;

  const create = async (
    request: FastifyRequest,
    scope: Scope,
    hasThread: boolean,
  ): Promise<{ run: CreatedRun; given: RunRequest }> => {
    const body = bodyOf(request);
    const header = (name: string): string | null => {
      const value = request.headers[name];
      return typeof value === "string" ? value : null;
    };
    const given = parseRunRequest(body.text, body.json, {
      threadId: hasThread ? pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND") : null,
      route: request.routeOptions.url ?? "",
      idempotencyKey: header("idempotency-key"),
      traceparent: header("traceparent"),
    });
    const agent = selected(scope, await plane.agents.resolve(scope, given.assistantId), given.assistantId);
    await hideThreadOfOthers(plane.stores, scope, given.threadId);
    const run = await createRun(plane, scope, { ...given, agent });
    return { run, given };
  };
  const location = (run: { runId: RunId; threadId: ThreadId }, hasThread: boolean): string =>
    hasThread ? `/threads/${run.threadId}/runs/${run.runId}` : `/runs/${run.runId}`;
  const placeOf = (run: CreatedRun, given: RunRequest): string => location(run, given.threadId !== null);

  for (const hasThread of [true, false]) {
    const base = hasThread ? "/threads/:thread_id/runs" : "/runs";

    app.post(base, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:write");
      const { run, given } = await create(request, scope, hasThread);
      reply.header("content-location", placeOf(run, given));
      return sendJson(reply, toWireRun(await requireRun(plane, scope, run.runId, null)));
    });

    app.post(`${base}/stream`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:write");
      const { run, given } = await create(request, scope, hasThread);
      streamRun(door, scope, reply, {
        run: run.isReplay
          ? await requireRun(plane, scope, run.runId, null)
          : { id: run.runId, threadId: run.threadId, createdAt: run.createdAt, status: "pending", lastSeq: 1 },
        after: 0,
        modes: given.streamModes,
        subgraphs: given.streamSubgraphs,
        location: placeOf(run, given),
        cancelOnDisconnect: given.onDisconnect === "cancel",
      });
    });

    app.post(`${base}/wait`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:write");
      const { run, given } = await create(request, scope, hasThread);
      return waitForRun(door, scope, reply, run.runId, placeOf(run, given), given.onDisconnect === "cancel");
    });

    const find = (request: FastifyRequest, scope: Scope) => {
      const threadId = hasThread ? pathId<ThreadId>(request, "thread_id", "RUN_NOT_FOUND") : null;
      return requireRun(plane, scope, pathId<RunId>(request, "run_id", "RUN_NOT_FOUND"), threadId);
    };

    app.get(`${base}/:run_id`, async (request, reply) =>
      sendJson(reply, toWireRun(await find(request, door.scopeOf(request, "runs:read")))),
    );

    app.get(`${base}/:run_id/join`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:read");
      const run = await find(request, scope);
      const place = location({ runId: run.id, threadId: run.threadId }, hasThread);
      return waitForRun(door, scope, reply, run.id, place, queryFlag(request, "cancel_on_disconnect", false));
    });

    app.get(`${base}/:run_id/stream`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:read");
      joinStream(request, reply, scope, await find(request, scope), hasThread);
    });

    app.post(`${base}/:run_id/cancel`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:cancel");
      const run = await find(request, scope);
      const action = cancelActionOf(request);
      const wait = queryFlag(request, "wait", false);
      const moved = await cancelRun(plane, scope, run.id, action);
      if (wait && moved.verdict === "requested") {
        await awaitCancelled(plane, runKey(scope.tenantId, run.id), AbortSignal.timeout(plane.limits.cancelWaitMs));
      }
      return reply.status(moved.verdict === "requested" && !wait ? 202 : 204).send();
    });

    app.delete(`${base}/:run_id`, async (request, reply) => {
      const scope = door.scopeOf(request, "runs:write");
      const run = await find(request, scope);
      await deleteRun(plane.stores, scope, run.id, run.threadId);
      return reply.status(204).send();
    });
  }

  app.get("/threads/:thread_id/runs", async (request, reply) => {
    const scope = door.scopeOf(request, "runs:read");
    const status = queryText(request, "status");
    const statuses = status === undefined ? null : Object.hasOwn(runStatesOf, status) ? runStatesOf[status] : undefined;
    if (statuses === undefined) throw invalidInput("status", `must be one of ${Object.keys(runStatesOf).join(", ")}`);
    const select = selectMembers(queryList(request, "select"), runMembers);
    const runs = await listThreadRuns(plane.stores, scope, {
      threadId: pathId<ThreadId>(request, "thread_id", "THREAD_NOT_FOUND"),
      statuses,
      limit: queryNumber(request, "limit", 10, 1, 1000),
      offset: queryNumber(request, "offset", 0, 0, 1_000_000),
    });
    return sendJson(reply, `[${runs.map((run) => select(toWireRun(run))).join(",")}]`);
  });

  const joinStream = (
    request: FastifyRequest,
    reply: FastifyReply,
    scope: Scope,
    run: Awaited<ReturnType<typeof requireRun>>,
    hasThread: boolean,
  ): void => {
    streamRun(door, scope, reply, {
      run,
      after: cursorOf(request.headers["last-event-id"], run),
      ...joinFilter(request, run),
      location: location({ runId: run.id, threadId: run.threadId }, hasThread),
      cancelOnDisconnect: queryFlag(request, "cancel_on_disconnect", false),
    });
  };
}
