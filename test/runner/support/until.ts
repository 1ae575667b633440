/** Waits for a condition. There are no sleeps in tests: whoever waits says for what, and for how long at most. */
export async function until<Value>(
  what: string,
  condition: () => Value | Promise<Value>,
  withinMs = 5_000,
): Promise<NonNullable<Value>> {
  const end = performance.now() + withinMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<Value>;
    if (performance.now() > end) throw new Error(`waited ${withinMs} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
