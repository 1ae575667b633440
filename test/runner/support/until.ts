/** Waits for a condition. There are no sleeps in tests: whoever waits says for what, and for how long at most. */
export function until<Value>(what: string, condition: () => Value, withinMs = 5_000): Promise<NonNullable<Value>> {
  const end = performance.now() + withinMs;
  return new Promise((resolve, reject) => {
    const look = (): boolean => {
      try {
        const value = condition();
        if (value !== undefined && value !== null && value !== false) resolve(value as NonNullable<Value>);
        else if (performance.now() > end) reject(new Error(`waited ${withinMs} ms in vain: ${what}`));
        else return false;
      } catch (error) {
        reject(error);
      }
      return true;
    };
    if (look()) return;
    const timer = setInterval(() => {
      if (look()) clearInterval(timer);
    }, 2);
  });
}
