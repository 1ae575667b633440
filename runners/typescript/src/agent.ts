import type { ToolQuestion, ToolVerdict } from "./asks.js";
import type { AgentOffer, Assignment, Interrupt, PendingWrite } from "./generated/fairlead/runner/v1/runner.js";
import type { Logger } from "./log.js";
import type { OutgoingEvent } from "./outbox.js";

/** What a framework must offer so that its agents can run here; plain functions and LangGraph are the two that exist. */
export interface Agent {
  readonly offer: AgentOffer;
  /** Executes one attempt. Throwing ends the run as an error, or as cancelled when it was told to stop. */
  execute(execution: Execution): Promise<Ending>;
}

/** One attempt of one run, as an agent sees it. */
export interface Execution {
  readonly assignment: Assignment;
  /** Aborted when the run must stop; its reason is a RunnerError. */
  readonly signal: AbortSignal;
  /** Resolves when there is room for more. Rejects when the event is refused, and then nothing of it is sent. */
  emit(event: OutgoingEvent): Promise<void>;
  /** Sends pending writes with the batch that leaves next; false when none is open, and they need an event of their own. */
  attachWrites(writes: readonly PendingWrite[]): boolean;
  /** Resolves when new side effects may be started: not while the lease is in doubt. Throws when the run must stop. */
  mayStartWork(): Promise<void> | undefined;
  /** May this tool be called? Only a verdict that says so permits it. */
  ask(question: ToolQuestion): Promise<ToolVerdict>;
  /** Remembers the newest state, as JSON text, for the case that the run does not end well. */
  remember(values: string): void;
  /** What was remembered last; empty when nothing was. */
  remembered(): string;
  readonly log: Logger;
}

export type Ending =
  | { readonly outcome: "success"; readonly values: string }
  | {
      readonly outcome: "waiting";
      readonly values: string;
      readonly interrupts: readonly Interrupt[];
      readonly next: readonly string[];
    };
