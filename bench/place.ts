import { chmodSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));
export const benchFolder = fileURLToPath(new URL(".", import.meta.url));

/** A module of the built plane. What is measured is what was built, so the sources are never imported. */
export function built<Module>(file: string): Promise<Module> {
  return import(pathToFileURL(join(root, "dist", file)).href) as Promise<Module>;
}

/** A package that only `bench/package.json` names, which the rest of the checkout does without. */
export function benchPackage<Module>(name: string): Promise<Module> {
  return import(name) as Promise<Module>;
}

/** Everybody may pass, because as root the stores run as another user. */
export function temporaryFolder(purpose: string): string {
  const folder = mkdtempSync(join(tmpdir(), `fairlead-bench-${purpose}-`));
  chmodSync(folder, 0o755);
  return folder;
}
