import { readdirSync, readFileSync } from "node:fs";

// CPU time from /proc, in microseconds. A group is a process with everything below it: children that have ended are in their parent's account, so
// a backend that came and went is not forgotten.

const microsPerTick = 10_000;

interface ProcessTimes {
  readonly parent: number;
  readonly own: number;
  readonly reaped: number;
}

function readProcesses(): Map<number, ProcessTimes> {
  const processes = new Map<number, ProcessTimes>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const text = readFileSync(`/proc/${name}/stat`, "utf8");
      // The command's name stands in parentheses and may hold anything.
      const fields = text
        .slice(text.lastIndexOf(")") + 2)
        .split(" ")
        .map(Number);
      const [, parent = 0] = fields;
      const [user = 0, system = 0, reapedUser = 0, reapedSystem = 0] = fields.slice(11, 15);
      processes.set(Number(name), { parent, own: user + system, reaped: reapedUser + reapedSystem });
    } catch {
      // It ended while we looked.
    }
  }
  return processes;
}

export interface CpuSample {
  readonly groups: Readonly<Record<string, number>>;
  /** Busy time of the whole machine, and time that the hypervisor kept. */
  readonly busy: number;
  readonly stolen: number;
  readonly at: number;
}

/** Accounts of all groups and of the machine at one moment. */
export function sampleCpu(groups: Readonly<Record<string, readonly number[]>>): CpuSample {
  const processes = readProcesses();
  const children = new Map<number, number[]>();
  for (const [pid, { parent }] of processes) children.set(parent, [...(children.get(parent) ?? []), pid]);
  const account = (pid: number): number => {
    const times = processes.get(pid);
    if (!times) return 0;
    return (children.get(pid) ?? []).reduce((sum, child) => sum + account(child), times.own + times.reaped);
  };
  const sums: Record<string, number> = {};
  for (const [name, pids] of Object.entries(groups))
    sums[name] = pids.reduce((sum, pid) => sum + account(pid), 0) * microsPerTick;
  return { groups: sums, ...machineCpu(), at: performance.now() };
}

function machineCpu(): { busy: number; stolen: number } {
  const line = readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "";
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, stolen = 0] = line
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return { busy: (user + nice + system + irq + softIrq) * microsPerTick, stolen: stolen * microsPerTick };
}

export interface CpuUse {
  /** Microseconds by group. */
  readonly groups: Readonly<Record<string, number>>;
  /** Share of the machine's time that neither of the groups used, in percent. */
  readonly foreignPercent: number;
  readonly stolenPercent: number;
}

export function cpuBetween(from: CpuSample, to: CpuSample, cores: number): CpuUse {
  const groups: Record<string, number> = {};
  let ours = 0;
  for (const [name, value] of Object.entries(to.groups)) {
    groups[name] = value - (from.groups[name] ?? 0);
    ours += groups[name];
  }
  const capacity = (to.at - from.at) * 1_000 * cores;
  return {
    groups,
    foreignPercent: (100 * Math.max(0, to.busy - from.busy - ours)) / capacity,
    stolenPercent: (100 * (to.stolen - from.stolen)) / capacity,
  };
}

/** Waits until the machine is quiet: busy below `percent` in two samples in a row. Gives up after `capMs`. */
export async function waitForQuiet(
  percent: number,
  capMs: number,
  cores: number,
): Promise<{ quiet: boolean; waitedMs: number }> {
  const start = performance.now();
  let calm = 0;
  while (performance.now() - start < capMs) {
    const before = machineCpu().busy;
    const at = performance.now();
    await new Promise((resolve) => setTimeout(resolve, 700));
    const share = (100 * (machineCpu().busy - before)) / ((performance.now() - at) * 1_000 * cores);
    calm = share < percent ? calm + 1 : 0;
    if (calm === 2) return { quiet: true, waitedMs: Math.round(performance.now() - start) };
  }
  return { quiet: false, waitedMs: Math.round(performance.now() - start) };
}

/** A process and everything below it. */
export function processTree(pid: number): number[] {
  const processes = readProcesses();
  const tree = [pid];
  for (let at = 0; at < tree.length; at++)
    for (const [child, { parent }] of processes) if (parent === tree[at]) tree.push(child);
  return tree;
}

/** Resident memory of a process in MiB. */
export function residentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Math.round(Number(match?.[1] ?? 0) / 1024);
}

/** Open descriptors of a process. */
export function openHandles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
