import { checkpointText } from "../../domain/audit-checkpoint.js";
import type { TenantId } from "../../domain/ids.js";
import { type Scope, systemScope } from "../../domain/scope.js";
import type { Clock } from "../../platform/clock.js";
import { keepCheckpoints, readAuditHead } from "../../store/audit-chain.js";
import type { Stores } from "../../store/client.js";
import { withTenantReads } from "../../store/reads.js";
import { type ChainReport, checkChain } from "./check-chain.js";
import { chainCheckpoints, chainRecords, pointAt } from "./read-chain.js";
import type { AuditKey, AuditPublicKeys } from "./signing-key.js";

export interface AuditSigner {
  readonly stores: Stores;
  readonly key: AuditKey;
  /** The installation's own and earlier ones. */
  readonly keys: AuditPublicKeys;
  readonly clock: Clock;
}

/**
 * Signs where a tenant's chain ends, if it has grown. What came since the newest checkpoint is walked first, and that checkpoint must hold: a chain
 * that is broken is not vouched for. Returns the report of a broken one.
 */
export async function signHead(signer: AuditSigner, tenantId: TenantId): Promise<ChainReport | null> {
  const { stores, key, clock } = signer;
  const scope: Scope = systemScope(tenantId);
  const head = await withTenantReads(stores, scope, readAuditHead);
  if (!head || head.seq <= head.signedSeq) return null;
  // The record of the newest checkpoint is walked too, and so compared with it.
  const before = Math.max(head.signedSeq - 1, 0);
  const report = await checkChain({
    tenantId,
    start: await pointAt(stores, scope, before),
    records: chainRecords(stores, scope, before, head.seq),
    checkpoints: chainCheckpoints(stores, scope, before, head.seq),
    keys: signer.keys,
    head,
  });
  // A key that was changed without naming the old one must not end the signing.
  if (report.verdict !== "ok" && report.verdict !== "unknown_key") return report;
  const at = new Date(clock.now()).toISOString().replace("Z", "000Z");
  const checkpoint = { at, hash: head.hash, keyId: key.keyId, seq: head.seq, tenantId };
  await keepCheckpoints(stores.app, [{ ...checkpoint, signature: key.sign(checkpointText(checkpoint)) }]);
  return null;
}
