// Loaded into the sample runner before its own code. However the process that started it ends, SIGKILL included, its standard input closes, and
// without this the runner would live on and wait for a plane that never comes back.
import { pid, stdin } from "node:process";

stdin.on("end", () => process.kill(pid, "SIGTERM"));
stdin.on("error", () => process.kill(pid, "SIGTERM"));
stdin.resume();
// A pipe is a socket here, and must not keep the runner alive; its declared type is the general stream.
(stdin as { unref?: () => void }).unref?.();
