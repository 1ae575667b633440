import type { Stores } from "./client.js";

/** A real round trip on the pool that runs are written through, within a second. */
export function pingStores(stores: Stores): Promise<boolean> {
  const late = new Promise<false>((resolve) => {
    setTimeout(() => resolve(false), 1_000).unref();
  });
  const answer = stores.path.query("select 1").then(
    () => true,
    () => false,
  );
  return Promise.race([answer, late]);
}
