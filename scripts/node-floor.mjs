// Parsed by whatever Node a newcomer has, so this file uses nothing that came after Node 12 and imports nothing.

const FLOOR = [20, 19];

/** Why this Node is refused, or undefined when it will do. */
export function refusalOf(version) {
  const parts = version.split(".").map(Number);
  const enough = parts[0] > FLOOR[0] || (parts[0] === FLOOR[0] && parts[1] >= FLOOR[1]);
  if (enough) return undefined;
  return (
    "Fairlead needs Node " +
    FLOOR.join(".") +
    " or newer and this is Node " +
    version +
    ": install Node 24, then run the same command again."
  );
}

/** Ends the process with one line when its Node is too old. */
export function requireNode() {
  const refusal = refusalOf(process.versions.node);
  if (refusal === undefined) return;
  console.error(refusal);
  process.exit(1);
}
