import { existsSync, readFileSync, renameSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { writePrivately } from "./data-directory.js";

const tenantSchema = z.object({
  id: z.uuid(),
  slug: z.string(),
  adminKey: z.string(),
  apiKey: z.string(),
  runnerToken: z.string(),
});
const schema = z.object({
  url: z.string(),
  graphqlUrl: z.string(),
  grpcAddress: z.string(),
  tenants: z.array(tenantSchema),
});

/** Everything that a program on this machine needs in order to use the plane. It holds credentials in clear, hence mode 0600. */
export type DevFile = z.infer<typeof schema>;
export type DevTenant = z.infer<typeof tenantSchema>;

export function devFilePath(directory: string): string {
  return path.join(directory, "dev.json");
}

/** What the last start wrote. A file that cannot be understood is put aside, because somebody may want to look at it. */
export function readDevFile(directory: string, log: (line: string) => void): DevFile | undefined {
  const file = devFilePath(directory);
  if (!existsSync(file)) return undefined;
  try {
    return schema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    const aside = `${file}.broken`;
    renameSync(file, aside);
    log(`${file} cannot be understood (${reasonOf(error)}): it is now ${aside}, and new keys are made.`);
    return undefined;
  }
}

export function writeDevFile(directory: string, content: DevFile): void {
  writePrivately(devFilePath(directory), `${JSON.stringify(content, null, 2)}\n`);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof z.ZodError)) return (error as Error).message;
  const [issue] = error.issues;
  return issue === undefined ? "it is not of this version" : `${issue.path.join(".")}: ${issue.message}`;
}
