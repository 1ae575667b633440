// Starts runs, a few at a time. Code that never waits for the outside, as a small graph does, keeps the event loop from everything else, from heartbeats
// and from its own report, for as long as there is more of it: what arrives together must not make offers lapse. So a group is started when the one
// before waits or is over, and after a while the others wait until the loop has been round.
//
// Groups and not single runs, because runs that take the same steps side by side measured cheaper, presumably for the processor's caches
// (docs/performance.md). Within the while no turn of the loop is spent, so that the reports of many short runs share a call.

const GROUP = 16;
/** Far below the time in which an offer lapses. */
const SLICE_MS = 200;

export interface StartQueue<Item> {
  add(item: Item): void;
}

export function createStartQueue<Item>(start: (item: Item) => void): StartQueue<Item> {
  const waiting: Item[] = [];
  let isScheduled = false;
  let sliceEnd = 0;

  function next(): void {
    const group = waiting.splice(0, GROUP);
    isScheduled = group.length > 0;
    if (!isScheduled) return;
    afterThem();
    for (const item of group) start(item);
  }

  /** A tick that is asked for by a promise's job comes when no job is left: when the runs wait for something, or are over. */
  function afterThem(): void {
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
