// Parsed by whatever Node a newcomer has, so this file uses nothing that came after Node 12 and imports nothing.

const FLOOR = { major: 20, minor: 19 };

/** Why this Node is refused, or undefined when it will do. @param {string} version @returns {string | undefined} */
export function refusalOf(version) {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > FLOOR.major || (major === FLOOR.major && minor >= FLOOR.minor)) return undefined;
  return `Fairlead needs Node ${FLOOR.major}.${FLOOR.minor} or newer and this is Node ${version}: install Node 24, then run the same command again.`;
}

/** Ends the process with one line when its Node is too old. */
export function requireNode() {
  const refusal = refusalOf(process.versions.node);
  if (refusal === undefined) return;
  console.error(refusal);
  process.exit(1);
}
