import { createServer } from "node:net";

/** A port of 127.0.0.1 that nobody listens on at this moment. Whoever uses it must be ready to lose the race for it. */
export function freePort(): Promise<number> {
  return listenOnce(0);
}

/** Whether a program could listen on this port of 127.0.0.1 now. */
export function isFree(port: number): Promise<boolean> {
  return listenOnce(port).then(
    () => true,
    () => false,
  );
}

function listenOnce(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : port));
    });
  });
}
