import { hash } from "node:crypto";
import { eventHead } from "./event-encoding.js";
import { Family, type Step } from "./generated/fairlead/runner/v1/runner.js";
import type { OutgoingEvent } from "./outbox.js";

export type StepKind = "model" | "tool" | "agent" | "node" | "guardrail" | "handoff" | "function";

const kinds: ReadonlySet<string> = new Set([
  "model",
  "tool",
  "agent",
  "node",
  "guardrail",
  "handoff",
  "function",
] satisfies StepKind[]);

export function isStepKind(kind: unknown): kind is StepKind {
  return typeof kind === "string" && kinds.has(kind);
}

/** What the plane takes. */
const MAX_ID = 200;

/** Readable when it is short enough; the same for the same parts always. */
export function stepId(...parts: readonly (string | number)[]): string {
  const id = parts.join(":");
  return id.length <= MAX_ID ? id : hash("sha256", id, "hex");
}

const head = eventHead({ family: Family.FAMILY_STEPS });
const none = Buffer.alloc(0);

export interface StepStart {
  readonly id: string;
  readonly kind: StepKind;
  readonly name: string;
  readonly parentId?: string | undefined;
  readonly namespace?: readonly string[] | undefined;
}

export function startedStep(start: StepStart): Step {
  return {
    id: start.id,
    parentId: start.parentId ?? "",
    kind: start.kind,
    name: start.name,
    status: "running",
    startedMs: Date.now(),
    endedMs: 0,
    usage: none,
    error: "",
    namespace: [...(start.namespace ?? [])],
  };
}

export function endedStep(
  step: Step,
  status: "success" | "error" | "interrupted",
  more: { error?: string; usage?: unknown } = {},
): Step {
  const usage = more.usage === undefined || more.usage === null ? step.usage : Buffer.from(JSON.stringify(more.usage));
  return { ...step, status, endedMs: Date.now(), usage, error: more.error ?? "" };
}

/** A step travels with an event of its own, so that followers see it at once. */
export function stepEvent(step: Step): OutgoingEvent {
  const body = JSON.stringify({
    event: step.status === "running" ? "step-started" : "step-finished",
    id: step.id,
    parent_id: step.parentId || undefined,
    kind: step.kind,
    name: step.name,
    status: step.status,
    error: step.error || undefined,
  });
  return { head, body, legacyBody: "", delta: false, steps: [step] };
}
