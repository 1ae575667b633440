import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TenantId } from "../../src/domain/ids.js";
import { systemScope } from "../../src/domain/scope.js";
import { manifestFile, readManifestFile, readRecordLine, recordLine } from "../../src/governance/audit/bundle.js";
import { signHead } from "../../src/governance/audit/sign-heads.js";
import { auditKeyFrom, readPublicKeys } from "../../src/governance/audit/signing-key.js";
import { verifyAudit } from "../../src/governance/audit/verify-audit.js";
import { verifyBundle } from "../../src/governance/audit/verify-bundle.js";
import { tenantsToSign } from "../../src/store/audit-chain.js";
import { type AuditWorld, type Bundle, sha256, startAuditWorld } from "../support/audit-world.js";

let world: AuditWorld;
beforeAll(async () => {
  world = await startAuditWorld();
});
afterAll(() => world.stop());

const said = ({ verdict, firstBadSeq }: { verdict: string; firstBadSeq: number | null }): string =>
  `${verdict} ${firstBadSeq ?? ""}`.trim();
const verify = async (tenant: TenantId, keys = world.signer.keys) =>
  said(await verifyAudit(world.stores, systemScope(tenant), keys, { after: 0 }));

const at = "where tenant_id = $1 and seq";
const copy = (seq: string, where: string): string =>
  `insert into audit_event (tenant_id, id, seq, at, actor_kind, action, target_kind, target_id, outcome, detail, prev_hash, hash)
   select tenant_id, gen_random_uuid(), ${seq}, at, actor_kind, 'forged', target_kind, target_id, outcome, detail, prev_hash, hash from audit_event ${at} = ${where}`;
const lower = (seq: number): string =>
  `update audit_head h set seq = ${seq}, hash = coalesce((select e.hash from audit_event e where e.tenant_id = h.tenant_id and e.seq = ${seq}), decode(repeat('00', 32), 'hex')) where h.tenant_id = $1`;

interface Attack {
  readonly statements: readonly string[];
  /** From which record on the hashes are made to fit again. */
  readonly rechain?: number;
  readonly says: string;
}

// The chain has 12 records and is signed at 6 and at 10.
const attacks: Record<string, Attack> = {
  nothing: { statements: [], says: "ok" },
  "a changed detail": { statements: [`update audit_event set detail = '{"at":7}' ${at} = 5`], says: "modified 5" },
  "a changed time": {
    statements: [`update audit_event set at = at + interval '1 microsecond' ${at} = 5`],
    says: "modified 5",
  },
  "a changed actor": { statements: [`update audit_event set actor_id = 'x' ${at} = 1`], says: "modified 1" },
  "a changed outcome of the last": {
    statements: [`update audit_event set outcome = 'denied' ${at} = 12`],
    says: "modified 12",
  },
  "a changed hash": {
    statements: [`update audit_event set hash = decode(repeat('ab', 32), 'hex') ${at} = 5`],
    says: "modified 5",
  },
  "two changed records: the first is named": {
    statements: [`update audit_event set action = 'x' ${at} in (4, 9)`],
    says: "modified 4",
  },
  "a dropped record": { statements: [`delete from audit_event ${at} = 5`], says: "missing 5" },
  "the first record dropped": { statements: [`delete from audit_event ${at} = 1`], says: "missing 1" },
  "a stretch dropped": { statements: [`delete from audit_event ${at} between 3 and 8`], says: "missing 3" },
  "a dropped record, and the others moved up": {
    statements: [`delete from audit_event ${at} = 5`, `update audit_event set seq = seq - 1 ${at} > 5`, lower(11)],
    says: "missing 5",
  },
  "two records that changed places": {
    statements: [`update audit_event set seq = case seq when 3 then 8 else 3 end ${at} in (3, 8)`],
    says: "reordered 3",
  },
  "two neighbours that changed places": {
    statements: [`update audit_event set seq = case seq when 11 then 12 else 11 end ${at} in (11, 12)`],
    says: "reordered 11",
  },
  "a record moved to the end": {
    statements: [
      `update audit_event set seq = 100 ${at} = 4`,
      `update audit_event set seq = seq - 1 ${at} between 5 and 12`,
      `update audit_event set seq = 12 ${at} = 100`,
    ],
    says: "reordered 4",
  },
  "a second record with the same number": { statements: [copy("7", "7")], says: "forked 7" },
  "a record put between two": {
    statements: [
      `update audit_event set seq = seq + 1 ${at} > 6`,
      copy("7", "8"),
      `update audit_head set seq = 13 where tenant_id = $1`,
    ],
    says: "modified 7",
  },
  "a record behind the end": { statements: [copy("13", "12")], says: "forked 13" },
  "a record before the beginning": { statements: [copy("0", "1")], says: "forked 0" },
  "another history from 4 on, every hash made to fit": {
    statements: [`update audit_event set action = 'x' ${at} = 4`],
    rechain: 4,
    says: "forked 6",
  },
  "another history from 8 on, every hash made to fit": {
    statements: [`update audit_event set action = 'x' ${at} = 8`],
    rechain: 8,
    says: "forked 10",
  },
  "the whole log made anew": {
    statements: [`update audit_event set detail = '{}' ${at} > 0`],
    rechain: 1,
    says: "forked 6",
  },
  "a head that names another record": {
    statements: ["update audit_head set hash = decode(repeat('ab', 32), 'hex') where tenant_id = $1"],
    says: "modified 12",
  },
  "a cut end": { statements: [`delete from audit_event ${at} > 7`], says: "truncated 8" },
  "a cut end, and the head moved there": {
    statements: [`delete from audit_event ${at} > 7`, lower(7)],
    says: "truncated 8",
  },
  "everything cut": { statements: [`delete from audit_event ${at} > 0`, lower(0)], says: "truncated 1" },
  "the head taken away": { statements: ["delete from audit_head where tenant_id = $1"], says: "forked 1" },
  "a checkpoint that nobody signed": {
    statements: [`update audit_checkpoint set at = at + interval '1 second' ${at} = 6`],
    says: "bad_signature 6",
  },
  "a checkpoint moved to another number": {
    statements: [`update audit_checkpoint set seq = 7 ${at} = 6`],
    says: "bad_signature 7",
  },
  "a checkpoint of a key that is not known": {
    statements: [`update audit_checkpoint set key_id = '0123' ${at} = 10`],
    says: "unknown_key 10",
  },
  // The limits of what a signature at 10 can say: docs/audit.md tells auditors to look at signedTo.
  "what was never signed, made anew": {
    statements: [`update audit_event set action = 'x' ${at} = 11`],
    rechain: 11,
    says: "ok",
  },
  "what was never signed, cut with its head": {
    statements: [`delete from audit_event ${at} > 10`, lower(10)],
    says: "ok",
  },
};

describe("who holds the database is found out:", () => {
  test.each(Object.entries(attacks))("%s", async (_name, { statements, rechain, says }) => {
    const tenant = await world.chain();
    await world.attack(tenant, ...statements);
    if (rechain !== undefined) await world.rechain(tenant, rechain);
    expect(await verify(tenant)).toBe(says);
  });

  test("a changed record whose own hash was made to fit is named, not the one that follows", async () => {
    const tenant = await world.chain();
    const { records } = await world.exportOf(tenant);
    const fourth = readRecordLine(records[3] as string)?.record.replace('"act-3"', '"act-9"') as string;
    await world.attack(
      tenant,
      `update audit_event set action = 'act-9', hash = decode('${sha256(fourth)}', 'hex') ${at} = 4`,
    );
    expect(await verify(tenant)).toBe("modified 4");
  });

  test("a record put between two, with a hash that fits, is a second one behind the same", async () => {
    const tenant = await world.chain();
    await world.attack(tenant, `update audit_event set seq = seq + 1 ${at} > 6`, copy("7", "8"), lower(13));
    await world.rechain(tenant, 7, 7);
    expect(await verify(tenant)).toBe("forked 7");
  });

  test("a record chained to a record that was signed by another history", async () => {
    const tenant = await world.chain();
    await world.attack(tenant, `update audit_event set prev_hash = decode(repeat('cd', 32), 'hex') ${at} = 7`);
    await world.rechain(tenant, 7);
    expect(await verify(tenant)).toBe("forked 7");
  });
});

test("a walk can go on where it was stopped, and says that it is not complete", async () => {
  const tenant = await world.chain();
  const scope = systemScope(tenant);
  await world.write(tenant, 1_200);
  let pages = 0;
  const first = await verifyAudit(world.stores, scope, world.signer.keys, { after: 0, stop: () => ++pages > 2 });
  expect(first).toMatchObject({ verdict: "ok", complete: false, checkedTo: { seq: 1_000 } });
  const rest = await verifyAudit(world.stores, scope, world.signer.keys, { after: 1_000 });
  expect(rest).toMatchObject({ verdict: "ok", complete: true, checkedTo: { seq: 1_212 } });
  await world.attack(tenant, `delete from audit_event ${at} = 1100`);
  expect(said(await verifyAudit(world.stores, scope, world.signer.keys, { after: 1_000 }))).toBe("missing 1100");
});

describe("signing", () => {
  test("signs a chain that has grown, once, and never one that is broken", async () => {
    const tenant = await world.chain();
    const due = async (records: number, ms: number) =>
      (await tenantsToSign(world.stores.sweep, records, ms, 10_000)).includes(tenant);
    expect([await due(3, 3_600_000), await due(2, 3_600_000), await due(3, 0)]).toEqual([false, true, true]);
    expect(await signHead(world.signer, tenant)).toBeNull();
    expect(await due(1, 0)).toBe(false);
    expect((await verifyAudit(world.stores, systemScope(tenant), world.signer.keys, { after: 0 })).signedTo).toBe(12);
    await world.write(tenant, 3);
    await world.attack(tenant, `update audit_event set action = 'x' ${at} = 14`);
    expect(await signHead(world.signer, tenant)).toMatchObject({ verdict: "modified", firstBadSeq: 14 });
    expect((await verifyAudit(world.stores, systemScope(tenant), world.signer.keys, { after: 0 })).signedTo).toBe(12);
  });

  test("goes on under a new key, and both are trusted when both are named", async () => {
    const tenant = await world.chain();
    const next = auditKeyFrom("another secret of at least 32 characters");
    const both = readPublicKeys(`${world.signer.key.publicKey}\n${next.publicKey}`);
    expect(await signHead({ ...world.signer, key: next, keys: both }, tenant)).toBeNull();
    expect(await verify(tenant, both)).toBe("ok");
    expect(await verify(tenant)).toBe("unknown_key 12");
    expect(next.keyId).not.toBe(world.signer.key.keyId);
    expect(auditKeyFrom("another secret of at least 32 characters").publicKey).toBe(next.publicKey);
  });
});

describe("a bundle", () => {
  async function* each(lines: readonly string[]): AsyncGenerator<string> {
    yield* lines;
  }
  const check = (bundle: Bundle, keys = readPublicKeys(world.signer.key.publicKey)) =>
    verifyBundle({ ...bundle, records: each(bundle.records), checkpoints: each(bundle.checkpoints) }, keys);
  /** A line of a record that was changed, its hash made to fit. */
  const forged = (line: string | undefined, seq: number): string => {
    const record = readRecordLine(line as string)
      ?.record.replace(/"action":"[^"]*"/, '"action":"forged"')
      .replace(/"seq":\d+/, `"seq":${seq}`) as string;
    return recordLine({ record, hash: sha256(record) }).trimEnd();
  };
  const swap = (lines: string[], a: number, b: number): void => {
    [lines[a], lines[b]] = [lines[b] as string, lines[a] as string];
  };

  // Records 1 to 12, signed at 6, 10 and 12.
  const attacks: Record<string, { readonly act: (bundle: Bundle) => void; readonly says: string }> = {
    nothing: { act: () => {}, says: "ok" },
    "a flipped byte": {
      act: ({ records }) => (records[4] = (records[4] as string).replace("act-4", "act-5")),
      says: "modified 5",
    },
    "a flipped byte in a hash": {
      act: ({ records }) =>
        (records[4] = (records[4] as string).replace(
          /"hash":"(.)/,
          (_, digit) => `"hash":"${digit === "0" ? "1" : "0"}`,
        )),
      says: "modified 5",
    },
    "a changed record with a hash that fits": {
      act: ({ records }) => (records[4] = forged(records[4], 5)),
      says: "modified 5",
    },
    "a dropped line": { act: ({ records }) => void records.splice(4, 1), says: "missing 5" },
    "two swapped lines": { act: ({ records }) => swap(records, 3, 8), says: "reordered 4" },
    "two swapped neighbours": { act: ({ records }) => swap(records, 10, 11), says: "reordered 11" },
    "a second record of a number": {
      act: ({ records }) => void records.splice(7, 0, forged(records[6], 7)),
      says: "forked 7",
    },
    "a doubled line": { act: ({ records }) => void records.splice(7, 0, records[6] as string), says: "forked 7" },
    "cut lines": { act: ({ records }) => void records.splice(8), says: "truncated 9" },
    "cut lines, checkpoints and manifest": {
      act: (bundle) => {
        bundle.records.splice(8);
        bundle.checkpoints.splice(1);
        const { manifest, signature } = readManifestFile(bundle.manifest) as NonNullable<
          ReturnType<typeof readManifestFile>
        >;
        const last = readRecordLine(bundle.records[7] as string)?.hash as string;
        bundle.manifest = manifestFile({ ...manifest, last: { seq: 8, hash: last } }, signature);
      },
      says: "bad_signature",
    },
    "a last record that was exchanged": {
      act: ({ records }) => (records[11] = forged(records[11], 12)),
      says: "forked 12",
    },
    "no records at all": { act: ({ records }) => void records.splice(0), says: "truncated 1" },
    "a line that is no record": { act: ({ records }) => (records[4] = "{}"), says: "unreadable 5" },
    "a record of a version to come": {
      act: ({ records }) => (records[4] = (records[4] as string).replace('"v":1}', '"v":2}')),
      says: "unreadable 5",
    },
    "a record of another tenant": {
      act: ({ records }) => (records[4] = (records[4] as string).replace(/"tenant":"./, '"tenant":"f')),
      says: "unreadable 5",
    },
    "a checkpoint that nobody signed": {
      act: ({ checkpoints }) => (checkpoints[1] = (checkpoints[1] as string).replace('"seq":10', '"seq":11')),
      says: "bad_signature 11",
    },
    "a dropped checkpoint": { act: ({ checkpoints }) => void checkpoints.splice(0, 1), says: "modified" },
    "a manifest that is none": { act: (bundle) => (bundle.manifest = "[]"), says: "unreadable" },
    "a manifest that was changed": {
      act: (bundle) => (bundle.manifest = bundle.manifest.replace(/"rows":12/, '"rows":13')),
      says: "bad_signature",
    },
  };
  test.each(Object.entries(attacks))("tells without anything else: %s", async (_name, { act, says }) => {
    const bundle = await world.exportOf(await world.chain());
    expect(bundle.checkpoints).toHaveLength(3);
    act(bundle);
    expect(said(await check(bundle))).toBe(says);
  });

  test("that begins later hangs on the hash that the manifest names", async () => {
    const tenant = await world.chain();
    const bundle = await world.exportOf(tenant, 5, 9);
    expect(bundle.records).toHaveLength(5);
    expect(await check(bundle)).toMatchObject({ verdict: "ok", checkedTo: { seq: 9 }, signedTo: 9 });
    bundle.records.splice(0, 1);
    expect(said(await check(bundle))).toBe("missing 5");
  });

  test("checked with a key that did not sign it is not called tampered with", async () => {
    const bundle = await world.exportOf(await world.chain());
    expect(said(await check(bundle, readPublicKeys(auditKeyFrom("x".repeat(32)).publicKey)))).toBe("unknown_key 6");
  });

  test("of the same range has the same bytes, whatever happened meanwhile", async () => {
    const tenant = await world.chain();
    const first = await world.exportOf(tenant, 1, 12);
    await world.write(tenant, 20);
    await signHead(world.signer, tenant);
    expect(await world.exportOf(tenant, 1, 12)).toEqual(first);
    const whole = await world.exportOf(tenant);
    expect(whole.records.at(-1)).toContain("audit.export");
    expect(said(await check(whole))).toBe("ok");
  });

  test("of more than there is is refused by name", async () => {
    const tenant = await world.chain();
    await expect(world.exportOf(tenant, 1, 13)).rejects.toMatchObject({ facts: { field: "to" } });
    await expect(world.exportOf(tenant, 8, 7)).rejects.toMatchObject({ facts: { field: "from" } });
    expect(await verify(tenant)).toBe("ok");
  });
});
