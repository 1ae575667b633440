import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface MigrationsFolder {
  readonly directory: string;
  write(name: string, sql: string): void;
  remove(name: string): void;
}

/** A folder of migrations for one test. */
export function migrationsFolder(files: Readonly<Record<string, string>>): MigrationsFolder {
  const directory = mkdtempSync(join(tmpdir(), `fairlead-test-${process.pid}-migrations-`));
  const write = (name: string, sql: string) => {
    mkdirSync(join(directory, name), { recursive: true });
    writeFileSync(join(directory, name, "migration.sql"), sql);
  };
  for (const [name, sql] of Object.entries(files)) write(name, sql);
  return { directory, write, remove: (name) => rmSync(join(directory, name), { recursive: true }) };
}
