// The bans of this house that no stock rule expresses. oxlint loads this file as a plugin; which files a rule is for stands in .oxlintrc.json.
// Every message names the replacement. test/lint.test.ts plants a violation of each.

/** @param {any} node @param {string} name */
const isCalled = (node, name) => node.type === "Identifier" && node.name === name;

/** @param {any} node @param {string} object @param {string} property */
function isMember(node, object, property) {
  if (node.type !== "MemberExpression" || !isCalled(node.object, object)) return false;
  return node.computed ? node.property.value === property : node.property.name === property;
}

/** @param {any} node */
const isText = (node) =>
  (node.type === "Literal" && typeof node.value === "string") ||
  (node.type === "TemplateLiteral" && node.expressions.length === 0);

/** A rule that reports every node for which `matches` holds. @param {string[]} kinds @param {(node: any) => boolean} matches @param {string} message */
function ban(kinds, matches, message) {
  return {
    /** @param {any} context */
    create(context) {
      const visit = (/** @type {any} */ node) => {
        if (matches(node)) context.report({ node, message });
      };
      return Object.fromEntries(kinds.map((kind) => [kind, visit]));
    },
  };
}

const ERRORS = ["Error", "TypeError", "RangeError", "AggregateError"];

export default {
  meta: { name: "fairlead" },
  rules: {
    clock: ban(
      ["NewExpression", "CallExpression"],
      (node) =>
        (isCalled(node.callee, "Date") && node.arguments.length === 0) ||
        (node.type === "CallExpression" && isMember(node.callee, "Date", "now")),
      "Take a Clock (src/platform/clock.ts) and ask it, so that a test can say what time it is.",
    ),
    environment: ban(
      ["MemberExpression", "VariableDeclarator", "ImportSpecifier"],
      (node) =>
        isMember(node, "process", "env") ||
        (node.type === "VariableDeclarator" &&
          node.init !== null &&
          isCalled(node.init, "process") &&
          node.id.type === "ObjectPattern" &&
          node.id.properties.some((/** @type {any} */ property) => property.key?.name === "env")) ||
        (node.type === "ImportSpecifier" &&
          node.imported.name === "env" &&
          /^(node:)?process$/.test(node.parent?.source?.value ?? "")),
      "Read the environment in src/platform/config.ts, and pass on the value.",
    ),
    random: ban(
      ["MemberExpression"],
      (node) => isMember(node, "Math", "random"),
      "Take a Random (src/platform/random.ts), so that a test can repeat a run from its seed.",
    ),
    errors: ban(
      ["NewExpression", "CallExpression"],
      (node) => ERRORS.some((name) => isCalled(node.callee, name)),
      "Throw a DomainError with a code of the table (src/domain/errors.ts), or use invariant for what cannot happen.",
    ),
    enums: ban(
      ["TSEnumDeclaration"],
      () => true,
      "Use a table `as const` and a type derived from it: an enum does not survive the removal of types.",
    ),
    "visible-imports": ban(
      ["TSImportType", "ImportExpression"],
      (node) => node.type === "TSImportType" || !isText(node.source),
      "Write an import with a fixed name at the top of the file: the rules on who may import whom cannot see this one.",
    ),
    sleeps: ban(
      ["NewExpression", "ImportDeclaration"],
      (node) => isSleep(node),
      "Wait for a condition with a deadline or for a signal (test/support), never for time to pass.",
    ),
  },
};

/** `new Promise((resolve) => setTimeout(resolve, …))`, in any spelling, or the ready-made one. A timeout that rejects is a deadline and welcome. @param {any} node */
function isSleep(node) {
  if (node.type === "ImportDeclaration") return /^(node:)?timers\/promises$/.test(node.source.value);
  if (!isCalled(node.callee, "Promise")) return false;
  const executor = node.arguments[0];
  const resolve = executor?.params?.[0];
  if (resolve?.type !== "Identifier") return false;
  return callsOf(executor.body).some(
    (call) =>
      isCalled(call.callee, "setTimeout") &&
      call.arguments[0] !== undefined &&
      settlesBy(call.arguments[0], resolve.name),
  );
}

/** @param {any} callback @param {string} resolve */
function settlesBy(callback, resolve) {
  if (isCalled(callback, resolve)) return true;
  return /Function/.test(callback.type) && callsOf(callback.body).some((call) => isCalled(call.callee, resolve));
}

/** The calls that are made directly in a function's body: its statements and its expression, not what it nests deeper. @param {any} body @returns {any[]} */
function callsOf(body) {
  const statements = body?.type === "BlockStatement" ? body.body : [body];
  return statements
    .map((/** @type {any} */ statement) =>
      statement?.type === "ExpressionStatement" ? statement.expression : statement,
    )
    .map((/** @type {any} */ expression) => (expression?.type === "AwaitExpression" ? expression.argument : expression))
    .map((/** @type {any} */ expression) => (expression?.type === "UnaryExpression" ? expression.argument : expression))
    .filter((/** @type {any} */ expression) => expression?.type === "CallExpression");
}
