import { Counter, collectDefaultMetrics, Registry } from "prom-client";

// Names and labels of all metrics. No label holds a tenant, run or thread: their number has no bound.

export const registry = new Registry();
collectDefaultMetrics({ register: registry });

export const dispatchTotal = new Counter({
  name: "fairlead_dispatch_total",
  help: "Runs handed to runners, by what woke them.",
  labelNames: ["path"] as const,
  registers: [registry],
});
