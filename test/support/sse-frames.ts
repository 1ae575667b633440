/** A frame as it stood on the wire: its fields as text, and comments. */
export interface WireFrame {
  readonly event?: string;
  readonly data?: string;
  readonly id?: string;
  readonly comment?: string;
}

/** Reads an event stream as curl would see it. Every line must be a field or a comment, and `data` stands on one line. */
export async function* wireFrames(response: Response): AsyncGenerator<WireFrame> {
  const decoder = new TextDecoder();
  let pieces: string[] = [];
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    const text = decoder.decode(bytes, { stream: true });
    pieces.push(text);
    const last = pieces.at(-2)?.slice(-1) ?? "";
    if (!(last + text).includes("\n\n")) continue;
    const blocks = pieces.join("").split("\n\n");
    pieces = [blocks.pop() as string];
    for (const block of blocks) yield parse(block);
  }
  const rest = pieces.join("");
  if (rest !== "") throw new TypeError(`The stream ended inside a frame: ${rest.slice(0, 200)}`);
}

/** All event frames until the connection closes. */
export async function eventFrames(response: Response): Promise<Required<Omit<WireFrame, "comment">>[]> {
  const frames: Required<Omit<WireFrame, "comment">>[] = [];
  for await (const { event, data, id } of wireFrames(response)) {
    if (event === undefined && data === undefined && id === undefined) continue;
    if (event === undefined || data === undefined || id === undefined || id === "")
      throw new TypeError(`An incomplete frame: ${JSON.stringify({ event, data: data?.slice(0, 100), id })}`);
    frames.push({ event, data, id });
  }
  return frames;
}

function parse(block: string): WireFrame {
  const frame: Record<string, string> = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    const name = at === 0 ? "comment" : line.slice(0, at);
    if (at < 0 || !["event", "data", "id", "comment"].includes(name) || name in frame)
      throw new TypeError(`Not a line of an event stream, or a second one of its kind: ${line.slice(0, 200)}`);
    frame[name] = line.slice(at + 1).replace(/^ /, "");
  }
  return frame;
}
