/** Waits for a condition of the outside world; the error says what was waited for. There are no sleeps in tests. */
export async function until<Value>(
  what: string,
  condition: () => Value | Promise<Value>,
  withinMs = 60_000,
): Promise<NonNullable<Value>> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const value = await condition();
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<Value>;
    if (performance.now() > deadline) throw new Error(`waited ${withinMs} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
