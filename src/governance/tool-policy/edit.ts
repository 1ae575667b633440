import { canonicalJson } from "../../domain/canonical-json.js";
import { DomainError, invalidInput } from "../../domain/errors.js";
import { type AgentId, isUuid } from "../../domain/ids.js";
import type { Scope } from "../../domain/scope.js";
import { type ToolPolicyContent, toolNamePattern } from "../../domain/tool-rules.js";
import { uuidv7 } from "../../platform/random.js";
import {
  agentExists,
  findVersion,
  insertDraft,
  insertTool,
  lockPolicyNumber,
  lockTool,
  type PolicyVersion,
  writePublished,
  writeToolDigest,
} from "../../store/tool-policies.js";
import { type TenantTx, withTenantTx } from "../../store/tx.js";
import { madeBefore, type OnceKey } from "../create-once.js";
import { recordAuditIn } from "../record-audit.js";
import type { ToolGate } from "./ask.js";
import { checkPolicy, digestOf } from "./decide.js";

// Versions are never changed: a draft is a version without a number, publishing gives it the next one, and what comes back comes back as a new version.

export interface DraftInput {
  readonly name: string;
  readonly content: ToolPolicyContent;
}

export async function draftToolPolicy(
  { stores, clock }: ToolGate,
  scope: Scope,
  { name, content }: DraftInput,
  once: OnceKey | null,
): Promise<string> {
  if (name.trim() === "" || name.length > 200) throw invalidInput("name", "1 to 200 characters");
  checkPolicy(content, clock.now());
  const id = uuidv7();
  return withTenantTx(stores, scope, async (tx) => {
    const before = await madeBefore(tx, "toolPolicyDraftCreate", once, id);
    if (before) return before;
    const digest = digestOf(content);
    await insertDraft(tx, { id, name, content: canonicalJson(content), digest });
    await note(tx, "tool_policy.draft", id, { name, digest: digest.toString("hex") });
    return id;
  });
}

export interface PublishInput {
  readonly id: string;
  /** The number of the version in force that the caller has seen; 0 for none. */
  readonly expectedVersion: number;
  /** Everything is checked and nothing is changed. */
  readonly dryRun?: boolean;
}

/** Puts a draft into force: it holds for every ask that comes after the commit, at every plane. Answers the number that it has or would have. */
export async function publishToolPolicy(gate: ToolGate, scope: Scope, input: PublishInput): Promise<number> {
  return withTenantTx(gate.stores, scope, async (tx) => {
    const number = await nextNumber(tx, input.expectedVersion);
    const draft = await requireVersion(tx, input.id);
    if (draft.number !== null)
      throw invalidInput("id", `version ${draft.number} is published already; restore it to put it back into force`);
    checkPolicy(draft.content, gate.clock.now());
    if (input.dryRun) return number;
    if (!(await writePublished(tx, draft.id, number, null)))
      throw new DomainError("VERSION_CONFLICT", "id: somebody published it meanwhile; read it again.", { field: "id" });
    const detail = { from: number - 1, to: number, name: draft.name, digest: draft.digest.toString("hex") };
    await note(tx, "tool_policy.publish", draft.id, detail);
    return number;
  });
}

/** Puts the content of an older version back into force, as a new version. Answers its id. */
export async function restoreToolPolicy(gate: ToolGate, scope: Scope, input: PublishInput): Promise<string> {
  return withTenantTx(gate.stores, scope, async (tx) => {
    const number = await nextNumber(tx, input.expectedVersion);
    const older = await requireVersion(tx, input.id);
    if (older.number === null) throw invalidInput("id", "a draft was never in force; publish it instead");
    checkPolicy(older.content, gate.clock.now());
    if (input.dryRun) return older.id;
    const id = uuidv7();
    const { name, content, digest } = older;
    await insertDraft(tx, { id, name, content: canonicalJson(content), digest });
    await writePublished(tx, id, number, older.number);
    const detail = { from: number - 1, to: number, restores: older.number, digest: digest.toString("hex") };
    await note(tx, "tool_policy.restore", id, detail);
    return id;
  });
}

export interface ToolInput {
  readonly agentId: string;
  readonly server: string;
  readonly name: string;
  /** SHA-256 of the tool's JSON Schema, in hex. */
  readonly schemaDigest: string;
}

/** Makes a tool known, or accepts that its schema changed. */
export async function registerTool({ stores }: ToolGate, scope: Scope, input: ToolInput): Promise<string> {
  const { server, name } = input;
  if (!toolNamePattern.test(name)) throw invalidInput("name", "1 to 128 characters of A-Z a-z 0-9 _ . : / -");
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(server)) throw invalidInput("server", "1 to 64 characters of A-Z a-z 0-9 _ . -");
  if (!/^[0-9a-f]{64}$/.test(input.schemaDigest)) throw invalidInput("schemaDigest", "64 digits of 0-9 a-f");
  const schemaDigest = Buffer.from(input.schemaDigest, "hex");
  const agentId = input.agentId as AgentId;
  return withTenantTx(stores, scope, async (tx) => {
    if (!isUuid(agentId) || !(await agentExists(tx, agentId)))
      throw new DomainError("NOT_FOUND", "agentId: there is no such agent.", { field: "agentId" });
    const known = await lockTool(tx, agentId, server, name);
    if (known?.schemaDigest.equals(schemaDigest)) return known.id;
    const id = known?.id ?? uuidv7();
    if (known) await writeToolDigest(tx, id, schemaDigest);
    else if (!(await insertTool(tx, { id, agentId, server, name, schemaDigest })))
      throw invalidInput(
        "name",
        "the agent has a tool whose name differs by case only; people would take one for the other",
      );
    await recordAuditIn(tx, {
      ...{ action: known ? "tool.accept_change" : "tool.register", targetKind: "tool", targetId: id },
      detail: { server, name, schemaDigest: input.schemaDigest, agentId },
    });
    return id;
  });
}

async function nextNumber(tx: TenantTx, expected: number): Promise<number> {
  const number = await lockPolicyNumber(tx);
  if (number === expected) return number + 1;
  throw new DomainError(
    "VERSION_CONFLICT",
    `expectedVersion: version ${number} is in force now; look at it and publish again.`,
    { field: "expectedVersion" },
  );
}

async function requireVersion(tx: TenantTx, id: string): Promise<PolicyVersion> {
  const version = isUuid(id) ? await findVersion(tx, id.toLowerCase()) : null;
  if (!version) throw new DomainError("NOT_FOUND", "id: there is no such version of the tool policy.", { field: "id" });
  return version;
}

function note(
  tx: TenantTx,
  action: string,
  targetId: string,
  detail: Readonly<Record<string, unknown>>,
): Promise<void> {
  return recordAuditIn(tx, { action, targetKind: "tool_policy_version", targetId, detail });
}
