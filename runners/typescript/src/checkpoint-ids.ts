import { randomBytes } from "node:crypto";

const GREGORIAN_OFFSET_MS = 12_219_292_800_000;
const node = randomBytes(8).toString("hex");
let lastMs = 0;
let lastTicks = 0;

/**
 * A version 6 UUID, the format in which LangGraph names its own checkpoints: checkpoints of a thread are sorted by id, so those of plain
 * functions must sort among those of graphs. Ids of one process grow strictly.
 */
export function checkpointId(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    lastTicks = 0;
  } else {
    lastTicks += 1;
    if (lastTicks >= 10_000) {
      lastMs += 1;
      lastTicks = 0;
    }
  }
  const ticks = (BigInt(lastMs + GREGORIAN_OFFSET_MS) * 10_000n + BigInt(lastTicks)).toString(16).padStart(15, "0");
  return `${ticks.slice(0, 8)}-${ticks.slice(8, 12)}-6${ticks.slice(12, 15)}-8${node.slice(1, 4)}-${node.slice(4, 16)}`;
}
