import { connect, createServer, type Server, type Socket } from "node:net";

// Stands between two processes and does what networks do: refuses, cuts, stalls, delays.

export interface TcpProxy {
  readonly port: number;
  /** Closes every connection; new ones are let through. */
  cut(): void;
  /** Closes every connection and refuses new ones, until `heal`. */
  refuse(): void;
  /** Keeps every connection open and passes nothing, in either direction, until `heal`. */
  stall(): void;
  /** Passes everything this much later. */
  delay(ms: number): void;
  heal(): void;
  readonly connections: () => number;
  stop(): Promise<void>;
}

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const pairs = new Set<Pair>();
  let isRefusing = false;
  let isStalled = false;
  let delayMs = 0;

  const close = (pair: Pair): void => {
    pairs.delete(pair);
    pair.near.destroy();
    pair.far.destroy();
  };

  const pass = (pair: Pair, from: Socket, to: Socket): void => {
    from.on("data", (bytes) => {
      if (delayMs === 0) to.write(bytes);
      else setTimeout(() => to.destroyed || to.write(bytes), delayMs);
    });
    from.on("error", () => close(pair));
    from.on("close", () => {
      if (!isStalled) close(pair);
    });
  };

  const server: Server = createServer((near) => {
    if (isRefusing) return void near.destroy();
    const far = connect(target.port, target.host);
    near.setNoDelay(true);
    far.setNoDelay(true);
    const pair = { near, far };
    pairs.add(pair);
    pass(pair, near, far);
    pass(pair, far, near);
    if (isStalled) {
      near.pause();
      far.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const closeAll = (): void => {
    for (const pair of [...pairs]) close(pair);
  };
  return {
    port: typeof address === "object" && address ? address.port : 0,
    cut: closeAll,
    refuse: () => {
      isRefusing = true;
      closeAll();
    },
    stall: () => {
      isStalled = true;
      for (const { near, far } of pairs) {
        near.pause();
        far.pause();
      }
    },
    delay: (ms) => {
      delayMs = ms;
    },
    heal: () => {
      isRefusing = false;
      isStalled = false;
      delayMs = 0;
      for (const pair of [...pairs]) {
        if (pair.near.destroyed || pair.far.destroyed) close(pair);
        pair.near.resume();
        pair.far.resume();
      }
    },
    connections: () => pairs.size,
    stop: async () => {
      closeAll();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** The same URL, through the proxy. */
export function throughProxy(url: string, proxy: TcpProxy): string {
  const changed = new URL(url);
  changed.hostname = "127.0.0.1";
  changed.port = String(proxy.port);
  return changed.toString();
}
