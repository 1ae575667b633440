// Loaded into the plane before anything else: says on standard error when JSON is read or written that holds the word.
const word = "canary-of-an-event-body";
const { parse, stringify } = JSON;

/** @param {unknown} text @param {string} how */
function tell(text, how) {
  if (typeof text === "string" && text.includes(word))
    process.stderr.write(`the word was ${how}: ${new Error().stack}\n`);
}

JSON.parse = (text, reviver) => {
  tell(text, "parsed");
  return parse(text, reviver);
};
JSON.stringify = /** @type {typeof JSON.stringify} */ (
  (/** @type {unknown} */ value, /** @type {never} */ replacer, /** @type {never} */ space) => {
    const text = stringify(value, replacer, space);
    tell(text, "written");
    return text;
  }
);
