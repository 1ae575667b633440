/** Something that serves the Agent Protocol, as processes of this machine. */
export interface System {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Process ids by part, for the accounts of CPU time. */
  readonly groups: Readonly<Record<string, readonly number[]>>;
  /** Runs by status as the store has them, and how many were started more than once; null where nobody can be asked. */
  audit(): Promise<Audit | null>;
  stop(): Promise<void>;
}

export interface Audit {
  readonly total: number;
  readonly success: number;
  readonly notFinal: number;
  readonly repeated: number;
}
