import type { Scope } from "../domain/scope.js";
import type { CreateItem } from "../store/run-path/create.js";
import type { Plane } from "./plane.js";

/** Where governance will decide whether a run may be created, before anything of it is written. Today everybody with `runs:write` may. */
export function admit(_plane: Plane, _scope: Scope, _run: CreateItem): Promise<void> {
  return Promise.resolve();
}
