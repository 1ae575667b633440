import { readFileSync } from "node:fs";
import http2 from "node:http2";
import { createRunner, silentLogger } from "@fairlead/runner";
import { credentials, Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { errorTable } from "../../../src/domain/errors.js";
import {
  GetJobRequest,
  RunnerServiceClient,
  RunnerServiceService,
} from "../../../src/generated/proto/fairlead/runner/v1/runner.js";
import { startBridge } from "../../../src/runner-bridge/server.js";
import { startWorld, type World } from "../../support/world.js";

let world: World;

beforeAll(async () => {
  world = await startWorld({
    agents: {
      echo: (run) => ({ echo: run.input }),
      fail: () => {
        throw new RangeError("the agent failed");
      },
      ask: (run) => ({ answer: run.interrupt("sure?") }),
    },
  });
});
afterAll(() => world.stop());

function getJob(address: string, authorization: string | null): Promise<number> {
  const client = new RunnerServiceClient(address, credentials.createInsecure());
  const metadata = new Metadata();
  if (authorization) metadata.set("authorization", authorization);
  const request = GetJobRequest.create({ runnerId: crypto.randomUUID(), kind: "typescript", freeSlots: 1 });
  return new Promise((resolve) => {
    client.getJob(request, metadata, { deadline: Date.now() + 10_000 }, (error) => {
      client.close();
      resolve(error?.code ?? status.OK);
    });
  });
}

test("the runner contract is exactly five calls", () => {
  const calls = Object.values(RunnerServiceService).map((method) => method.path.replace(/^.*\//, ""));
  expect(calls.sort()).toEqual(["GetJob", "Heartbeat", "ReportStatus", "StreamEvents", "WatchCancels"]);
});

test("a client's key opens nothing on the back door, and a runner's token nothing on the front door", async () => {
  const token = await world.runnerToken();
  expect(await getJob(world.grpcAddress, `Bearer ${token}`)).toBe(status.OK);
  for (const wrong of [null, "", `Bearer ${world.home.key}`, token, "Bearer flr_live_x", `Basic ${token}`]) {
    expect(await getJob(world.grpcAddress, wrong)).toBe(status.UNAUTHENTICATED);
  }
  for (const path of ["/assistants/search", "/threads", "/runs/wait"]) {
    const answer = await world.fetch(path, { method: "POST", body: "{}", key: token });
    expect([path, answer.status]).toEqual([path, 401]);
  }
});

test("the clients' port speaks no runner protocol", async () => {
  await expect(
    new Promise<number>((resolve, reject) => {
      const session = http2.connect(world.url);
      session.on("error", reject);
      const stream = session.request({
        ":method": "POST",
        ":path": "/fairlead.runner.v1.RunnerService/GetJob",
        "content-type": "application/grpc",
        te: "trailers",
      });
      stream.on("error", reject);
      stream.on("response", (headers) => {
        session.close();
        resolve(Number(headers[":status"]));
      });
      stream.end();
    }),
  ).rejects.toThrow(/protocol|closed|reset|socket|hang up/i);
  for (const path of Object.values(RunnerServiceService).map((method) => method.path)) {
    const answer = await world.fetch(path, { method: "POST", body: "{}" });
    expect([path, answer.status]).toEqual([path, 404]);
  }
});

test("a run is given only to a runner that offers its agent, and waits for one", async () => {
  const token = await world.runnerToken();
  const start = async (name: string): Promise<ReturnType<typeof createRunner>> => {
    const runner = createRunner({
      address: world.grpcAddress,
      token,
      kind: "typescript",
      agents: { [name]: () => ({ by: name }) },
      logger: silentLogger,
    });
    await runner.start();
    return runner;
  };
  const one = await start("only-one");
  const other = await start("only-other");
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, i) => i % 2).map((i) =>
      world.client().runs.wait(null, i === 0 ? "only-one" : "only-other", { input: {} }),
    ),
  );
  expect(answers).toEqual(answers.map((_, i) => ({ by: i % 2 === 0 ? "only-one" : "only-other" })));
  await one.stop({ drainMs: 0 });
  // More of them than a tenant may have admitted: they hold up nobody else.
  const client = world.client();
  const { thread_id: thread } = await client.threads.create();
  const waiting = await client.runs.create(thread, "only-one", { input: {} });
  await Promise.all(Array.from({ length: 40 }, () => client.runs.create(null, "only-one", { input: {} })));
  expect(await client.runs.wait(null, "only-other", { input: {} })).toEqual({ by: "only-other" });
  expect((await client.runs.get(thread, waiting.run_id)).status).toBe("pending");
  const again = await start("only-one");
  await client.runs.join(thread, waiting.run_id);
  expect((await client.runs.get(thread, waiting.run_id)).status).toBe("success");
  await Promise.all([again, other].map((runner) => runner.stop({ drainMs: 0 })));
});

test("no client ever reads of runners, queues, generations, fences or leases", async () => {
  const inner = /\b(runner|queue|generation|fence|lease)s?\b/i;
  const said: string[] = Object.entries(errorTable).map(([code, row]) => `${code} ${row.title}`);
  const hear = async (path: string, init: RequestInit = {}): Promise<void> => {
    const answer = await world.fetch(path, init);
    const headers = [...answer.headers].map((pair) => pair.join(": ")).join("\n");
    said.push(`${path}\n${headers}\n${await answer.text()}`);
  };
  const post = (body: unknown): RequestInit => ({ method: "POST", body: JSON.stringify(body) });
  await hear("/info");
  await hear("/assistants/search", post({}));
  const { thread_id: thread } = await world.client().threads.create();
  for (const assistant_id of ["echo", "fail", "ask"]) {
    await hear(`/threads/${thread}/runs/stream`, post({ assistant_id, input: {}, stream_mode: ["values", "updates"] }));
    await hear(`/threads/${thread}/runs/wait`, post({ assistant_id, input: {} }));
  }
  await hear(`/threads/${thread}`);
  await hear(`/threads/${thread}/state`);
  await hear(`/threads/${thread}/history`);
  await hear(`/threads/${thread}/runs`);
  await hear(`/threads/${thread}/runs/wait`, post({ assistant_id: "ask", command: { resume: "yes" } }));
  await hear(`/threads/${thread}/runs/wait`, post({ assistant_id: "ask", command: { resume: "again" } }));
  await hear(`/threads/${thread}/runs/wait`, post({ assistant_id: "nobody", input: {} }));
  await hear(`/threads/${crypto.randomUUID()}/runs/wait`, post({ assistant_id: "echo", input: {} }));
  // `enqueue` is the SDK's own word.
  const leaks = said.filter((text) => inner.test(text));
  expect(leaks).toEqual([]);
  expect(said.length).toBeGreaterThan(15);
});

// Last, because a bridge that stops drains the plane that it shares.
test("runners connect over TLS, and not in plain text where TLS is asked for", async () => {
  const cert = new URL("../../fixtures/tls/cert.pem", import.meta.url).pathname;
  const key = new URL("../../fixtures/tls/key.pem", import.meta.url).pathname;
  const bridge = await startBridge(world.plane, world.running.authenticator, {
    host: "127.0.0.1",
    port: 0,
    tlsCert: cert,
    tlsKey: key,
  });
  const token = await world.runnerToken();
  const runner = createRunner({
    address: `localhost:${bridge.port}`,
    token,
    kind: "typescript",
    tls: { ca: readFileSync(cert, "utf8") },
    agents: { "over-tls": () => ({ ok: true }) },
    logger: silentLogger,
  });
  await runner.start();
  expect(await world.client().runs.wait(null, "over-tls", { input: {} })).toEqual({ ok: true });
  expect(await getJob(`127.0.0.1:${bridge.port}`, `Bearer ${token}`)).toBe(status.UNAVAILABLE);
  await runner.stop({ drainMs: 0 });
  await bridge.stop();
});
