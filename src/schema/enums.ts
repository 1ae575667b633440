import { runStates } from "../domain/moves/run.js";
import { secretVersionStates } from "../domain/moves/secret-version.js";
import { permissions } from "../domain/permissions.js";
import { roles } from "../domain/roles.js";
import { apiScopes } from "../domain/scope.js";
import { conditionOperators, ruleEffects } from "../domain/tool-rules.js";
import { auditVerdicts } from "../governance/audit/check-chain.js";
import { decisionReasons, reaches } from "../governance/tool-policy/decide.js";
import { auditOutcomes } from "../store/audit.js";
import { budgetPeriods, budgetScopes, budgetUnits } from "../store/budgets.js";
import { haltModes, haltScopes } from "../store/halts.js";
import { memberStatuses } from "../store/members.js";
import { usageDimensions } from "../store/usage.js";
import { builder } from "./builder.js";

const upper = (word: string): string => word.toUpperCase().replace(/[^A-Z]/g, "_");
const valuesOf = <Word extends string>(words: readonly Word[]) =>
  Object.fromEntries(words.map((value) => [upper(value), { value }])) as Record<string, { value: Word }>;

export const RunStatusEnum = builder.enumType("RunStatus", {
  description: "WAITING is an end too: the run stopped at a question, and the answer starts a new run.",
  values: valuesOf(runStates),
});
export const ApiScopeEnum = builder.enumType("ApiScope", {
  description: "What a key may do.",
  values: valuesOf(apiScopes),
});
export const ThreadStatusEnum = builder.enumType("ThreadStatus", {
  values: valuesOf(["idle", "busy", "interrupted", "error"] as const),
});
export const StepKindEnum = builder.enumType("StepKind", {
  values: valuesOf(["model", "tool", "agent", "node", "guardrail", "handoff", "function"] as const),
});
export const StepStatusEnum = builder.enumType("StepStatus", {
  values: valuesOf(["running", "success", "error", "interrupted"] as const),
});
export const RunnerStatusEnum = builder.enumType("RunnerStatus", {
  values: valuesOf(["ready", "draining", "gone"] as const),
});
export const CredentialStatusEnum = builder.enumType("CredentialStatus", {
  description: "BLOCKED: its owner was removed.",
  values: valuesOf(["active", "expired", "revoked", "blocked"] as const),
});
export const CancelActionEnum = builder.enumType("CancelAction", {
  description: "ROLLBACK also removes the run and what it saved.",
  values: valuesOf(["interrupt", "rollback"] as const),
});
export const RoleEnum = builder.enumType("Role", {
  description: "What somebody is in a tenant; docs/permissions.md says what each may do.",
  values: valuesOf(roles),
});
export const MemberStatusEnum = builder.enumType("MemberStatus", { values: valuesOf(memberStatuses) });
export const PermissionEnum = builder.enumType("Permission", { values: valuesOf(permissions) });
export const AuditOutcomeEnum = builder.enumType("AuditOutcome", {
  description: "What became of what somebody tried to do.",
  values: valuesOf(auditOutcomes),
});
export const AuditVerdictEnum = builder.enumType("AuditVerdict", {
  description: "What an audit chain is: whole, or what is wrong with it first.",
  values: valuesOf(auditVerdicts),
});
export const HaltScopeEnum = builder.enumType("HaltScope", {
  description: "TENANT: all runs. AGENT: an agent's. KIND: those of agents whose programs are of one kind.",
  values: valuesOf(haltScopes),
});
export const HaltModeEnum = builder.enumType("HaltMode", {
  description: "BLOCK: nothing new starts. CANCEL: what is open ends too.",
  values: valuesOf(haltModes),
});
export const RuleEffectEnum = builder.enumType("ToolRuleEffect", { values: valuesOf(ruleEffects) });
export const ToolConditionOperatorEnum = builder.enumType("ToolConditionOperator", {
  description: "An argument that is missing, or of another type, makes a denial deny and a permission permit nothing.",
  values: valuesOf(conditionOperators),
});
export const ToolDecisionReasonEnum = builder.enumType("ToolDecisionReason", { values: valuesOf(decisionReasons) });
export const ToolReachEnum = builder.enumType("ToolReach", {
  description: "Whether the arguments of a call decide about it.",
  values: valuesOf(reaches),
});
export const BudgetUnitEnum = builder.enumType("BudgetUnit", {
  description: "USD counts nanodollars (1e-9 USD).",
  values: valuesOf(budgetUnits),
});
export const BudgetScopeEnum = builder.enumType("BudgetScope", {
  description: "Whose runs it covers: all, an agent's, or those that were started with a key.",
  values: valuesOf(budgetScopes),
});
export const BudgetPeriodEnum = builder.enumType("BudgetPeriod", { values: valuesOf(budgetPeriods) });
export const UsageDimensionEnum = builder.enumType("UsageDimension", { values: valuesOf(usageDimensions) });
export const SecretVersionStateEnum = builder.enumType("SecretVersionState", {
  description: "STAGED: given, not in use. ACTIVE: in use. DEPRECATED: was in use. DESTROYED: its value is gone.",
  values: valuesOf(secretVersionStates),
});
