/**
 * The same credential with one character near its end changed, whatever that character was.
 * Not the last one: in base64url its low bits can mean nothing, and then two texts are one value.
 */
export function forged(credential: string): string {
  const other = credential.at(-3) === "x" ? "y" : "x";
  return `${credential.slice(0, -3)}${other}${credential.slice(-2)}`;
}
