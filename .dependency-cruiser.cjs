// Who may import whom. The path of a run is the reading order of the tree: a facade parses, a verb decides, the store writes, and the domain
// knows none of them. CONTRIBUTING.md says how to read a violation; test/rules.test.ts plants one of each.

const ban = (name, comment, from, to) => ({ name, comment, severity: "error", from, to });

/** A folder of src may import itself, the targets, and packages. */
const may = (folder, ...targets) =>
  ban(
    `${folder}-imports`,
    `src/${folder} may import only itself, ${targets.map((target) => `src/${target}`).join(", ")} and packages. Move what both need further in, or let src/compose.ts pass it.`,
    { path: `^src/${folder}/` },
    { path: "^src/", pathNot: [`${folder}/`, ...targets].map((target) => `^src/${target}`) },
  );

/** A package that only its owners may import. */
const ownedPackage = (name, packages, owners) =>
  ban(
    name,
    `Only ${owners.join(", ")} may import ${packages.join(", ")}: call what they export.`,
    { path: "^src/", pathNot: owners.map((owner) => `^src/${owner}`) },
    { path: packages.map((pack) => `node_modules/${pack}/`) },
  );

const facades = ["schema", "agent-protocol", "runner-bridge", "sign-in", "workers"];
// Files that start, wire or operate the whole: they may import everything.
const edges = "^src/(main|compose|http)[.]ts$|^src/(cli|dev)/";

module.exports = {
  forbidden: [
    ban(
      "domain-is-pure",
      "src/domain imports nothing but itself, not even node: pass in what it needs.",
      { path: "^src/domain/" },
      { pathNot: "^src/domain/" },
    ),
    may("platform", "domain/"),
    may("store", "domain/", "platform/", "generated/prisma/"),
    may("governance", "domain/", "platform/", "store/"),
    may("catalog", "domain/", "platform/", "store/", "governance/"),
    may("runs", "domain/", "platform/", "store/", "governance/"),
    ...facades.map((facade) =>
      may(facade, "domain/", "platform/", "store/", "governance/", "catalog/", "runs/", "generated/(pothos|proto)"),
    ),
    ban(
      "facades-never-write",
      "A facade parses, calls one verb and maps the answer. Put the transaction into a verb of runs/, catalog/ or governance/.",
      { path: `^src/(${facades.join("|")})/` },
      { path: "^src/store/tx[.]ts$" },
    ),
    ban(
      "one-door-to-postgres",
      "Only src/store speaks SQL: give the store a function for it.",
      { path: "^src/", pathNot: "^src/(store|generated)/" },
      { path: ["^src/generated/prisma/", "node_modules/(@prisma|pg|pg-[a-z-]+)/"] },
    ),
    ownedPackage("one-door-to-redis", ["bullmq", "ioredis"], ["platform/", "store/queue-schema[.]ts$"]),
    ownedPackage("one-door-to-providers", ["openid-client"], ["platform/oidc[.]ts$"]),
    ownedPackage("one-door-to-runners", ["@grpc/grpc-js"], ["runner-bridge/", "generated/"]),
    ban(
      "cross-tenant-reads-are-rare",
      "src/store/system.ts reads across tenants: only workers, the operator's commands and authenticate.ts may.",
      { path: "^src/", pathNot: ["^src/(store|workers|cli|dev)/", "^src/governance/authenticate[.]ts$"] },
      { path: "^src/store/system[.]ts$" },
    ),
    ban(
      "wiring-in-one-place",
      "Only what starts the plane imports src/compose.ts: take what you need as a parameter.",
      { path: "^src/", pathNot: edges },
      { path: "^src/compose[.]ts$" },
    ),
    ban(
      "edges-are-not-imported",
      "Nothing inside imports what starts or operates the plane.",
      { path: "^src/", pathNot: edges },
      { path: "^src/(main|http)[.]ts$|^src/(cli|dev)/" },
    ),
    ban(
      "no-cycles",
      "Two files that need each other hold a third one: find it.",
      { pathNot: "^src/generated/" },
      { circular: true },
    ),
    ban(
      "no-barrels",
      "Import from the file that defines it.",
      {},
      { path: "^(src|test)/.*/index[.]ts$", pathNot: "^src/(schema/index[.]ts$|generated/)" },
    ),
    ban(
      "no-drawers",
      "Name the file after what it holds.",
      {},
      { path: "/(util|utils|helper|helpers|common|shared|misc)(/|[.]ts$)", pathNot: "node_modules" },
    ),
    ban(
      "src-stands-alone",
      "What runs in production imports nothing of the tests, benchmarks, scripts and runners.",
      { path: "^src/" },
      { path: "^(test|bench|scripts|runners|dashboard)/" },
    ),
    ban(
      "islands",
      "runners/, bench/ and dashboard/ know the plane by its public surfaces only.",
      { path: "^(runners|bench|dashboard)/" },
      { path: "^(src|prisma|test|scripts)/" },
    ),
    ban(
      "production-dependencies",
      "src runs without devDependencies: list the package under dependencies.",
      { path: "^src/" },
      { dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"], dependencyTypesNot: ["type-only"] },
    ),
    ban("resolvable", "The import leads nowhere.", {}, { couldNotResolve: true }),
    ban(
      "no-orphans",
      "Nothing imports this file and it imports nothing: delete it or use it.",
      { orphan: true, path: "^src/", pathNot: "^src/(main[.]ts$|generated/)" },
      {},
    ),
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^(dist|runners/typescript/dist)/" },
    // TypeScript 7 has no JavaScript API, without which dependency-cruiser would find no module and be content.
    parser: "swc",
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "node", "default", "types"] },
  },
};
