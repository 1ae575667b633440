// Starts the embedded server in a process of its own, for tests that kill it or run it as somebody else. Prints one line of JSON behind the word
// `started` or `refused`, then waits until its standard input ends.
import { startEmbeddedPostgres } from "../../src/platform/embedded-postgres.js";
import { SetupError } from "../../src/platform/setup-error.js";

const options = JSON.parse(process.argv[2] ?? "{}");
try {
  const server = await startEmbeddedPostgres({ ...options, log: (line) => console.log(`log ${line}`) });
  console.log(
    `started ${JSON.stringify({ url: server.url, port: server.port, pid: server.pid, adopted: server.adopted })}`,
  );
  process.stdin.on("end", () => void server.stop());
  process.stdin.resume();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  console.log(`refused ${JSON.stringify({ line: error.line })}`);
}
