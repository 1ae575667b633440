/** News between processes: best effort, unordered, at most once. Nothing may depend on its arrival. */
export interface Live {
  /** Channels are a few fixed words. A carrier with a size limit drops what is larger: see `maxBytes`. */
  publish(channel: LiveChannel, payload: Buffer): void;
  on(channel: LiveChannel, listener: (payload: Buffer) => void): void;
  /** Payloads up to this size arrive. */
  readonly maxBytes: number;
  stop(): Promise<void>;
}

export const liveChannels = ["run", "work", "stop", "credential", "presence"] as const;
export type LiveChannel = (typeof liveChannels)[number];

/** One process alone: there is nobody to tell. */
export function noLive(): Live {
  return { publish: () => {}, on: () => {}, maxBytes: 0, stop: () => Promise.resolve() };
}
