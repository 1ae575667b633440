import { readFileSync } from "node:fs";

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

export interface ProfileParts {
  /** Microseconds of self time. */
  readonly parts: Readonly<Record<string, number>>;
  readonly hottest: readonly { readonly name: string; readonly micros: number }[];
  readonly busy: number;
}

const parts: readonly [RegExp, string][] = [
  [/node_modules\/pg-pool\//, "pg driver"],
  [/node_modules\/pg(-[a-z]+)?\//, "pg driver"],
  [/node_modules\/@grpc\//, "grpc-js"],
  [/generated\/.*runner\.js|@bufbuild\/protobuf/, "protobuf"],
  [
    /node_modules\/(fastify|find-my-way|avvio|fast-json|secure-json|@fastify|light-my-request|process-warning|ajv|toad-cache|rfdc)/,
    "fastify",
  ],
  [/node_modules\/zod\//, "zod"],
  [/node_modules\/(ioredis|bullmq|@ioredis|redis-parser)/, "redis and bullmq"],
  [/node_modules\/@langchain\//, "langchain"],
  [/node:internal\/(http2)|node:http2/, "node http2"],
  [/node:_http|node:internal\/http|node:http/, "node http1"],
  [/node:(internal\/)?(net|stream|tls|streams)/, "node net and streams"],
  [/node:internal\/(timers|process|async_hooks|promises)|node:timers/, "node timers and ticks"],
  [/node:/, "node, other"],
  [/@fairlead\/runner\/dist\//, "runner SDK"],
  [/node_modules\//, "packages, other"],
  [/dist\/store\/coalescer/, "coalescer"],
  [/dist\/store\//, "store"],
  [/dist\/runner-bridge\//, "runner-bridge"],
  [/dist\/agent-protocol\//, "agent-protocol"],
  [/dist\/runs\//, "runs"],
  [/runners\/typescript\/dist\//, "runner SDK"],
  [/dist\//, "plane, other"],
];

/**
 * Self time of the last milliseconds of a profile that node's --cpu-prof wrote, by part and by function. What node does itself (a system call, a
 * timer) is put down to the package or file that asked for it, if one did.
 */
export function readProfile(file: string, lastMs = Number.POSITIVE_INFINITY, skipLastMs = 0): ProfileParts {
  const profile = JSON.parse(readFileSync(file, "utf8")) as CpuProfile;
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map<number, number>();
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const self = new Map<number, number>();
  let at = profile.timeDeltas.reduce((sum, delta) => sum + delta, 0);
  profile.samples.forEach((id, index) => {
    const delta = profile.timeDeltas[index] ?? 0;
    at -= delta;
    if (at < (lastMs + skipLastMs) * 1_000 && at >= skipLastMs * 1_000) self.set(id, (self.get(id) ?? 0) + delta);
  });
  const sums: Record<string, number> = {};
  const functions = new Map<string, number>();
  let busy = 0;
  for (const [id, micros] of self) {
    const frame = byId.get(id)?.callFrame;
    if (!frame || frame.functionName === "(idle)") continue;
    busy += micros;
    const part = partOf(id);
    sums[part] = (sums[part] ?? 0) + micros;
    const name = `${frame.functionName || "(anonymous)"} ${frame.url.replace(/^.*\/(node_modules|dist)\//, "$1/")}:${frame.lineNumber + 1}${frame.url === "" ? ` for ${part}` : ""}`;
    functions.set(name, (functions.get(name) ?? 0) + micros);
  }
  const hottest = [...functions].map(([name, micros]) => ({ name, micros })).sort((a, b) => b.micros - a.micros);
  return { parts: sums, hottest, busy };

  function partOf(id: number): string {
    const own = byId.get(id)?.callFrame;
    if (own && /^\((garbage collector|program)\)$/.test(own.functionName)) return own.functionName;
    let fallback = "node, other";
    let isFirst = true;
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const url = byId.get(at)?.callFrame.url ?? "";
      const part = parts.find(([pattern]) => pattern.test(url))?.[1];
      if (part === undefined) continue;
      if (!part.startsWith("node")) return part;
      if (isFirst) fallback = part;
      isFirst = false;
    }
    return fallback;
  }
}
