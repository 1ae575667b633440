import { type AuditSigner, signHead } from "../governance/audit/sign-heads.js";
import { repeat, type Service } from "../platform/lifecycle.js";
import type { Log } from "../platform/log.js";
import { tenantsToSign } from "../store/audit-chain.js";
import { isAway } from "../store/client.js";

// Signs the heads of the audit chains that have moved: after so many records, or so long after the last time. Any number of workers may do it.

const tenantsATick = 200;
const ticksAnInterval = 6;

export interface AuditSigning {
  readonly records: number;
  readonly everyMs: number;
}

export function startAuditSigning(signer: AuditSigner, log: Log, { records, everyMs }: AuditSigning): Service {
  const tick = async (): Promise<void> => {
    for (const tenantId of await tenantsToSign(signer.stores.sweep, records, everyMs, tenantsATick)) {
      try {
        const broken = await signHead(signer, tenantId);
        if (broken)
          log.error(
            { tenantId, verdict: broken.verdict, seq: broken.firstBadSeq },
            "an audit chain is broken and not signed",
          );
      } catch (error) {
        if (isAway(error)) throw error;
        log.error({ err: error, tenantId }, "an audit chain could not be signed");
      }
    }
  };
  return repeat("audit signing", Math.ceil(everyMs / ticksAnInterval), tick, (error) => {
    log.warn({ err: (error as Error).message }, "the audit signing could not reach the store");
  });
}
