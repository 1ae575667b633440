// Starts an embedded Redis in a process of its own, for tests that end that process. Exits, without stopping Redis, when its input ends.
import { startEmbeddedRedis } from "../../src/platform/embedded-redis.js";

const redis = await startEmbeddedRedis({ directory: process.argv[2] ?? "", log: () => {} });
console.log(`started ${redis.port}`);
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
