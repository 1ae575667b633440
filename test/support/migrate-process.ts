// A migrator as a process of its own, for tests that kill it. Arguments: the request as JSON.
import { migrate } from "../../src/store/migrate.js";

const { applied } = await migrate(JSON.parse(process.argv[2] ?? "{}"));
console.log(`applied ${JSON.stringify(applied)}`);
