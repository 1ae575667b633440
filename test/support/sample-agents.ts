import type { RunContext, RunnerOptions } from "@fairlead/runner";

// Agents whose doings a test controls: they run in the test's own process.

export interface Gate {
  /** Lets every run that waits here go on. */
  open(): void;
}

const gates = new Map<string, { opened: boolean; readonly waiting: Set<() => void> }>();

function gateOf(name: string) {
  const gate = gates.get(name) ?? { opened: false, waiting: new Set() };
  gates.set(name, gate);
  return gate;
}

/** A gate that runs of the agent `gated` wait at, by the name in their input. */
export function gate(name: string): Gate {
  return {
    open: () => {
      const state = gateOf(name);
      state.opened = true;
      for (const go of state.waiting) go();
    },
  };
}

async function passGate(name: string, signal: AbortSignal): Promise<void> {
  const state = gateOf(name);
  if (state.opened) return;
  await new Promise<void>((resolve, reject) => {
    state.waiting.add(resolve);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}

/** A plain error of an agent's own. */
class OutOfPaper extends Error {
  override readonly name = "OutOfPaper";
}

export const sampleAgents: RunnerOptions["agents"] = {
  /** Its result is its input. */
  echo: (run) => run.input ?? { input: null },
  /** Says that it started, waits at the gate of its input, and ends. */
  gated: async (run) => {
    await run.emit.values({ started: true });
    await passGate((run.input as { gate: string }).gate, run.signal);
    return { passed: (run.input as { gate: string }).gate };
  },
  failing: () => {
    throw new OutOfPaper("The tray is empty.");
  },
  /** Asks one question, or as many as its input says. */
  asking: (run) => {
    const wanted = (run.input as { questions?: number } | null)?.questions ?? 1;
    const answers: unknown[] = [];
    for (let n = 1; n <= wanted; n++) answers.push(run.interrupt({ question: n }));
    return { answers };
  },
  /** Streams the words of its input as one message. */
  talking: async (run: RunContext) => {
    const { words } = run.input as { words: string[] };
    for (const word of words) await run.emit.messages(word, { id: "said" });
    return { messages: [{ id: "said", type: "ai", content: words.join("") }] };
  },
  /** Emits many values, of a size that its input says. */
  counting: async (run) => {
    const { count, bytes = 0 } = run.input as { count: number; bytes?: number };
    const padding = "x".repeat(bytes);
    for (let n = 1; n <= count; n++) await run.emit.custom({ n, padding });
    return { counted: count };
  },
};
