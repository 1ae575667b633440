import { invalidInput } from "../domain/errors.js";
import { pickMembers } from "../domain/raw-json.js";

/** How the objects of an answer are cut down to the members that the caller selected. */
export function selectMembers(
  selected: readonly string[] | undefined,
  known: readonly string[],
): (text: string) => string {
  if (selected === undefined || selected.length === 0) return (text) => text;
  const unknown = selected.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw invalidInput("select", `does not know ${JSON.stringify(unknown)}; use any of ${known.join(", ")}`);
  const names = new Set(selected);
  return (text) => pickMembers(text, names);
}
