// Starts runs one after the other. Code that never waits for the outside, as a small graph does, keeps the event loop from everything else, from
// heartbeats and from its own report, for as long as there is more of it. So each run has its turn alone, and after a while the others wait until
// the loop has been round: what arrives together must not make offers lapse. Within that while no turn of the loop is spent, so that the reports of
// many short runs share a call.

const SLICE_MS = 25;

export interface StartQueue<Item> {
  add(item: Item): void;
}

export function createStartQueue<Item>(start: (item: Item) => void): StartQueue<Item> {
  const waiting: Item[] = [];
  let isScheduled = false;
  let sliceEnd = 0;

  function next(): void {
    const item = waiting.shift();
    isScheduled = item !== undefined;
    if (item === undefined) return;
    afterIt();
    start(item);
  }

  /** A tick that is asked for by a promise's job comes when no job is left: when the run waits for something, or is over. */
  function afterIt(): void {
    queueMicrotask(() => {
      process.nextTick(() => {
        if (performance.now() < sliceEnd) next();
        else setImmediate(begin);
      });
    });
  }

  function begin(): void {
    sliceEnd = performance.now() + SLICE_MS;
    next();
  }

  return {
    add: (item) => {
      waiting.push(item);
      if (isScheduled) return;
      isScheduled = true;
      process.nextTick(begin);
    },
  };
}
