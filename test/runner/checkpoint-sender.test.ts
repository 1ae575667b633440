import { expect, test } from "vitest";
import type { Execution } from "../../runners/typescript/src/agent.js";
import { eventHead } from "../../runners/typescript/src/event-encoding.js";
import { createCheckpointSender } from "../../runners/typescript/src/langgraph/checkpoint-sender.js";
import { type OutgoingEvent, taken } from "../../runners/typescript/src/outbox.js";
import { type Checkpoint, Family, type PendingWrite } from "../../src/generated/proto/fairlead/runner/v1/runner.js";
import { gate } from "./support/world.js";

const event = { head: eventHead({ family: Family.FAMILY_CHECKPOINTS }), body: "{}", legacyBody: "" };
const write = (taskId: string): PendingWrite => {
  return { namespace: "", checkpointId: "c1", taskId, index: 0, channel: "x", type: "json", data: Buffer.from("1") };
};
const checkpoint = (id: string, view: string): Checkpoint => {
  return { id, view: Buffer.from(view) } as Checkpoint;
};

function sender(emit: (event: OutgoingEvent) => Promise<void> = () => taken) {
  const sent: OutgoingEvent[] = [];
  const execution = {
    emit: (one: OutgoingEvent) => {
      sent.push(one);
      return emit(one);
    },
    attachWrites: () => false,
  } as unknown as Execution;
  return { sent, sender: createCheckpointSender(execution, checkpoint, () => undefined) };
}

test("writes for a checkpoint that still waits for its view are sent with it, not before it", async () => {
  const { sent, sender: checkpoints } = sender();
  await checkpoints.onCheckpoint("", "c1", { blobs: [] });
  await checkpoints.onWrites("", "c1", [write("early")]);
  expect(sent).toEqual([]);
  await checkpoints.complete("c1", "{}", event);
  await checkpoints.onWrites("", "c1", [write("late")]);
  expect(
    sent.map(({ checkpoints: c, writes }) => [c?.map(({ id }) => id), writes?.map(({ taskId }) => taskId)]),
  ).toEqual([
    [["c1"], ["early"]],
    [undefined, ["late"]],
  ]);
});

test("whoever waits for a checkpoint that will not be saved is told so at the end", async () => {
  const { sender: checkpoints } = sender();
  const saved = checkpoints.saved("never");
  checkpoints.end();
  expect([await saved, await checkpoints.saved("later")]).toEqual([false, false]);
});

test("nothing comes between the events of a large checkpoint, and a refusal of one is told when all is settled", async () => {
  const room = gate();
  const { sent, sender: checkpoints } = sender((one) => {
    if (one.body === "refused") return Promise.reject(new Error("too large"));
    return one.blobs?.length ? room.passed : taken;
  });
  const part = (index: number): object => ({
    digest: Buffer.alloc(32),
    part: index,
    parts: 3,
    data: Buffer.alloc(900_000),
  });
  await checkpoints.onCheckpoint("", "c1", { blobs: [0, 1, 2].map(part) as never });
  const complete = checkpoints.complete("c1", "{}", event);
  void checkpoints.send([{ ...event, body: "after", delta: false }]);
  await Promise.resolve();
  room.open();
  await complete;
  await checkpoints.settled();
  expect(sent.map(({ blobs, body }) => [blobs?.length ?? 0, body])).toEqual([
    [1, ""],
    [1, ""],
    [1, "{}"],
    [0, "after"],
  ]);
  await checkpoints.send([{ ...event, body: "refused", delta: false }]).catch(() => {});
  await expect(checkpoints.settled()).rejects.toThrow("too large");
});
