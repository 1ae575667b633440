import type { ToolPolicyContent } from "../domain/tool-rules.js";
import type { GraphqlContext } from "./context.js";
import { rowKey, uuidOf } from "./ids.js";

/** The content of a version of the caller's tenant; null when there is none. */
export async function contentOf(context: GraphqlContext, versionId: string): Promise<ToolPolicyContent | null> {
  const version = await context.operation.client.toolPolicyVersion.findUnique({
    where: rowKey(context, uuidOf("ToolPolicyVersion", versionId)),
  });
  return (version?.content as ToolPolicyContent | undefined) ?? null;
}
