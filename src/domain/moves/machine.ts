/** A state machine as data: who may make a move, from where, to where. */
export interface Move<State extends string, By extends string> {
  readonly by: By;
  readonly from: readonly State[];
  readonly to: State;
}

export type Moves<State extends string, By extends string> = Readonly<Record<string, Move<State, By>>>;

export function canMove<State extends string, By extends string>(
  moves: Moves<State, By>,
  name: string,
  from: State,
): boolean {
  return moves[name]?.from.includes(from) ?? false;
}

/** States that no move leaves. */
export function finalStates<State extends string, By extends string>(
  states: readonly State[],
  moves: Moves<State, By>,
): State[] {
  return states.filter((state) => !Object.values(moves).some((move) => move.from.includes(state)));
}

export function reachable<State extends string, By extends string>(start: State, moves: Moves<State, By>): Set<State> {
  const seen = new Set<State>([start]);
  for (const state of seen) {
    for (const move of Object.values(moves)) if (move.from.includes(state)) seen.add(move.to);
  }
  return seen;
}
