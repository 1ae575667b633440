import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";

// Around every function that a graph calls, LangChain makes a RunTree of LangSmith's with an id from the system's random source, also when nothing
// is traced: a sixth of the CPU of a small graph. Without tracing the tree only carries the config and says that there is no tracing, so here it is
// a copy of one that LangChain made. Whoever traces gets LangChain's own way, and so does everybody when the copy does not serve.

interface Tree {
  readonly tracingEnabled?: boolean;
  extra: Record<PropertyKey, unknown>;
}

interface Provider {
  getInstance(): { getStore(): Tree | undefined; run<T>(store: Tree, callback: () => T): T };
  getRunnableConfig(): unknown;
  runWithConfig<T>(config: Config | undefined, callback: () => T, avoidCreatingRootRunTree?: boolean): T;
}

interface Config {
  readonly callbacks?: readonly Handler[] | { readonly handlers: readonly Handler[] };
}

interface Handler {
  readonly name?: string;
}

/** What LangSmith reads to know whether it traces. */
const switches = ["LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING"];
/** Where a tree carries the config. */
const childConfig = Symbol.for("lc:child_config");
/** What a process has set for its calls; a tree has to hand it on. */
const contextVariables = Symbol.for("lc:context_variables");

let isTried = false;

/** Once per process; an environment that turns tracing on later is not followed. */
export function spareRunTrees(): void {
  if (isTried) return;
  isTried = true;
  if (switches.some((name) => process.env[name]?.toLowerCase() === "true")) return;
  const provider = AsyncLocalStorageProviderSingleton as unknown as Provider;
  const original = provider.runWithConfig;
  try {
    const tree = original.call(provider, {}, () => provider.getInstance().getStore()) as Tree | undefined;
    if (tree?.tracingEnabled !== false || typeof tree.extra !== "object") return;
    provider.runWithConfig = withCopies(provider, original, tree);
    if (!carriesConfig(provider)) provider.runWithConfig = original;
  } catch {
    provider.runWithConfig = original;
  }
}

function withCopies(provider: Provider, original: Provider["runWithConfig"], tree: Tree): Provider["runWithConfig"] {
  const prototype = Object.getPrototypeOf(tree) as object;
  return (config, callback, avoidCreatingRootRunTree) => {
    const storage = provider.getInstance();
    const before = storage.getStore();
    if (avoidCreatingRootRunTree || before?.tracingEnabled || isTraced(config)) {
      return original.call(provider, config, callback, avoidCreatingRootRunTree) as ReturnType<typeof callback>;
    }
    const copy = Object.assign(Object.create(prototype), tree) as Tree & Record<PropertyKey, unknown>;
    copy.extra = { ...tree.extra, [childConfig]: config };
    const variables = (before as Record<PropertyKey, unknown> | undefined)?.[contextVariables];
    if (variables !== undefined) copy[contextVariables] = variables;
    return storage.run(copy, callback);
  };
}

function isTraced(config: Config | undefined): boolean {
  const callbacks = config?.callbacks;
  const handlers = Array.isArray(callbacks) ? callbacks : (callbacks as { handlers?: readonly Handler[] })?.handlers;
  return handlers?.some((handler: Handler) => handler?.name === "langchain_tracer") ?? false;
}

function carriesConfig(provider: Provider): boolean {
  const config = {};
  return provider.runWithConfig(config, () => provider.getRunnableConfig() === config);
}
