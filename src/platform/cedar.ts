import cedar from "@cedar-policy/cedar-wasm/nodejs";
import { DomainError } from "../domain/errors.js";

// The Cedar engine, preparsed. What is parsed stays in the engine for ever, so sets live in a fixed number of slots that are used again.

export interface CedarSet {
  readonly slot: string;
}

export interface CedarAnswer {
  readonly allowed: boolean;
  /** The policies that decided. */
  readonly reasons: readonly string[];
  /** Policies that could not be evaluated. */
  readonly errors: readonly string[];
}

const slotsMax = 512;
const schemaName = "fairlead";
const byKey = new Map<string, { slot: string }>();
let slots = 0;
let schemaText = "";

/** Gives the engine the types of requests. It is called before anything else; loading and compiling the engine happens here. */
export function prepareCedar(schema: string): void {
  if (schemaText === schema) return;
  const answer = cedar.preparseSchema(schemaName, schema);
  if (answer.type === "failure")
    throw new DomainError("INTERNAL", answer.errors.map(({ message }) => message).join("; "));
  schemaText = schema;
}

/** What is wrong with policies against the schema, by policy; empty when nothing is. */
export function complaintsOf(
  policies: Readonly<Record<string, string>>,
): { readonly id: string; readonly message: string }[] {
  const answer = cedar.validate({ schema: schemaText, policies: { staticPolicies: { ...policies } } });
  if (answer.type === "failure") return answer.errors.map(({ message }) => ({ id: "", message }));
  return answer.validationErrors.map(({ policyId, error }) => ({ id: policyId, message: error.message }));
}

/** The policies in a text, or what is wrong with it. */
export function partsOf(text: string): { readonly policies: string[] } | { readonly complaint: string } {
  const answer = cedar.policySetTextToParts(text);
  if (answer.type === "failure") return { complaint: answer.errors.map(({ message }) => message).join("; ") };
  if (answer.policy_templates.length > 0) return { complaint: "templates are not supported: write whole policies" };
  return { policies: answer.policies };
}

/** A set under a key that names its content. Throws when it cannot be parsed. */
export function preparedSet(key: string, policies: () => Readonly<Record<string, string>>): CedarSet {
  const known = byKey.get(key);
  if (known) {
    byKey.delete(key);
    byKey.set(key, known);
    return known;
  }
  let slot: string;
  if (slots < slotsMax) slot = `slot-${slots++}`;
  else {
    const [oldest, freed] = byKey.entries().next().value as [string, { slot: string }];
    byKey.delete(oldest);
    slot = freed.slot;
  }
  const made = { slot };
  byKey.set(key, made);
  const answer = cedar.preparsePolicySet(slot, { staticPolicies: { ...policies() } });
  if (answer.type === "failure") {
    byKey.delete(key);
    throw new DomainError("INTERNAL", answer.errors.map(({ message }) => message).join("; "));
  }
  return made;
}

export interface CedarRequest {
  readonly principal: CedarEntity;
  readonly action: string;
  readonly resource: CedarEntity;
  readonly context: Readonly<Record<string, string | number | readonly string[]>>;
}
export interface CedarEntity {
  readonly type: string;
  readonly id: string;
  readonly attrs: Readonly<Record<string, string>>;
}

/** Whatever the engine could not do is an error of the answer, never an exception. */
export function askCedar({ slot }: CedarSet, { principal, action, resource, context }: CedarRequest): CedarAnswer {
  const uid = ({ type, id }: CedarEntity) => ({ type, id });
  try {
    const answer = cedar.statefulIsAuthorized({
      principal: uid(principal),
      action: { type: "Action", id: action },
      resource: uid(resource),
      context: {
        ...context,
        ...(context["holds"] ? { holds: [...(context["holds"] as readonly string[])] } : {}),
      } as Record<string, never>,
      preparsedPolicySetId: slot,
      preparsedSchemaName: schemaName,
      validateRequest: true,
      entities: [principal, resource].map((entity) => ({ uid: uid(entity), attrs: { ...entity.attrs }, parents: [] })),
    });
    if (answer.type === "failure")
      return { allowed: false, reasons: [], errors: answer.errors.map(({ message }) => message) };
    const { decision, diagnostics } = answer.response;
    return {
      allowed: decision === "allow",
      reasons: diagnostics.reason,
      errors: diagnostics.errors.map(({ policyId, error }) => `${policyId}: ${error.message}`),
    };
  } catch (error) {
    return { allowed: false, reasons: [], errors: [String(error)] };
  }
}
