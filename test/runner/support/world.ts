import { createRunner, type Logger, type Runner, type RunnerOptions } from "@fairlead/runner";
import { afterEach } from "vitest";
import { type Plane, type Switches, startPlane } from "./plane.js";

// A plane and a runner for one test. Both end with it, whatever happened, and the protocol must not have been violated.

const open: (() => Promise<void>)[] = [];

afterEach(async () => {
  const ending = open.splice(0).reverse();
  for (const end of ending) await end();
});

export interface World {
  readonly plane: Plane;
  readonly runner: Runner;
  readonly log: string[];
}

export async function world(
  agents: RunnerOptions["agents"],
  options: Partial<RunnerOptions> & { switches?: Partial<Switches> } = {},
): Promise<World> {
  const plane = await planeFor(options.switches);
  const { runner, log } = await runnerFor(plane, agents, options);
  return { plane, runner, log };
}

export async function planeFor(switches: Partial<Switches> = {}): Promise<Plane> {
  const plane = await startPlane(switches);
  open.push(async () => {
    await plane.stop();
    if (plane.store.violations.length > 0) throw new Error(`protocol violations: ${plane.store.violations.join("; ")}`);
  });
  return plane;
}

export async function runnerFor(
  plane: Plane,
  agents: RunnerOptions["agents"],
  options: Partial<RunnerOptions> = {},
): Promise<{ runner: Runner; log: string[] }> {
  const { runner, log } = makeRunner(plane, agents, options);
  await runner.start();
  return { runner, log };
}

export function makeRunner(
  plane: Plane,
  agents: RunnerOptions["agents"],
  options: Partial<RunnerOptions> = {},
): { runner: Runner; log: string[] } {
  const log: string[] = [];
  const keep = (message: string): void => void log.push(message);
  const logger: Logger = { debug: keep, info: keep, warn: keep, error: keep };
  const runner = createRunner({ address: plane.address, token: "flr_test", logger, agents, ...options });
  open.push(() => runner.stop({ drainMs: 0 }));
  return { runner, log };
}

/** A promise that the test settles: how agents in tests wait for the test instead of for time. */
export function gate<Value = void>(): { readonly passed: Promise<Value>; open(value: Value): void } {
  let open: (value: Value) => void = () => {};
  const passed = new Promise<Value>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}
