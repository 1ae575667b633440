import { demand, type Permission } from "../domain/permissions.js";
import type { Scope } from "../domain/scope.js";
import type { AuditSigner } from "../governance/audit/sign-heads.js";
import type { CredentialOffice } from "../governance/change-credentials.js";
import type { Keyring } from "../governance/secrets/envelope.js";
import type { Site } from "../governance/session-cookie.js";
import type { Plane } from "../runs/plane.js";
import type { GraphqlReads, OperationReads } from "../store/graphql-reads.js";
import type { CredentialWatch } from "./watch-credentials.js";

/** What the facade works with. Made by compose, once. */
export interface GraphqlDeps {
  readonly plane: Plane;
  readonly office: CredentialOffice;
  readonly signer: AuditSigner;
  readonly keyring: Keyring;
  readonly reads: GraphqlReads;
  readonly watch: CredentialWatch;
  readonly site: Site;
}

/** What the resolvers of one operation work with. */
export interface GraphqlContext extends GraphqlDeps {
  readonly scope: Scope;
  /** The caller's key or session, to look at it again while a subscription is open. */
  readonly credential: string;
  /** The operation's transaction: shadows the pool it is made from. */
  readonly operation: OperationReads;
}

/** Throws FORBIDDEN when the caller may not. */
export function need(context: GraphqlContext, permission: Permission): void {
  demand(context.scope, permission);
}
