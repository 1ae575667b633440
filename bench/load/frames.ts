export interface Frame {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

/** Splits an SSE body into frames, wherever the chunks were cut. */
export function frameReader(onFrame: (frame: Frame) => void): (chunk: Buffer) => void {
  let rest = "";
  const decoder = new TextDecoder();
  return (chunk) => {
    rest += decoder.decode(chunk, { stream: true }).replaceAll("\r", "");
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const frame = { event: "", id: "", data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        const name = line.slice(0, colon);
        if (name === "event" || name === "id" || name === "data") frame[name] = line.slice(colon + 1).trimStart();
      }
      rest = rest.slice(end + 2);
      if (frame.event !== "") onFrame(frame);
    }
  };
}
