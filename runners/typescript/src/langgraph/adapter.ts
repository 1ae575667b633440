import type { Agent } from "../agent.js";
import type { AgentOptions } from "../agent-options.js";
export async function langgraphAgent(_graphId: string, _graph: unknown, _options: AgentOptions): Promise<Agent> {
  throw new Error("soon");
}
