import type { FinishItem } from "../store/run-path/finish.js";
import type { Plane } from "./plane.js";

/** Where governance will settle what a run used, in the statement that ends it. Today nothing is held and nothing is owed. */
export function settle(_plane: Plane, _run: FinishItem): Promise<void> {
  return Promise.resolve();
}
