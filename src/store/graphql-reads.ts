import { PrismaPg } from "@prisma/adapter-pg";
import { DomainError } from "../domain/errors.js";
import type { Scope } from "../domain/scope.js";
import { type Prisma, PrismaClient } from "../generated/prisma/client.js";
import type { Log } from "../platform/log.js";

// GraphQL reads through Prisma, on a few connections of its own, so that a heavy query cannot starve the path of a run. An operation that reads opens
// one read-only transaction at its first query, with the tenant set; one that does not read opens none. The database refuses every write in it.

const connections = 4;
const waitMs = 3_000;
const operationMs = 20_000;
const statementMs = 10_000;

/** The part of a client that reads need: delegates of models, as in an open transaction. */
export type ReadClient = Prisma.TransactionClient & { $connect(): Promise<void> };

export interface OperationReads {
  /** Looks like a client; its first call opens the transaction. */
  readonly client: ReadClient;
  /** Rows of a statement of the store's. */
  query<Row>(sql: string, values: readonly unknown[]): Promise<Row[]>;
  /** Ends the transaction; the next read sees what was committed meanwhile. */
  close(): Promise<void>;
}

export interface GraphqlReads {
  open(scope: Scope): OperationReads;
  close(): Promise<void>;
}

interface OpenTransaction {
  readonly handle: Promise<Prisma.TransactionClient>;
  finish(): Promise<void>;
}

export function openGraphqlReads(databaseUrl: string, log: Log, max = connections): GraphqlReads {
  const adapter = new PrismaPg(
    {
      connectionString: databaseUrl,
      max,
      application_name: "fairlead graphql",
      connectionTimeoutMillis: 5_000,
      idleTimeoutMillis: 60_000,
      statement_timeout: statementMs,
      keepAlive: true,
    },
    { onPoolError: (error) => log.warn({ err: error.message, pool: "graphql" }, "database connection lost") },
  );
  const prisma = new PrismaClient({ adapter, errorFormat: "minimal" });
  return { open: (scope) => openOperation(prisma, scope), close: () => prisma.$disconnect() };
}

function openOperation(prisma: PrismaClient, scope: Scope): OperationReads {
  let current: OpenTransaction | undefined;
  // Resolvers run side by side, but a transaction is one connection: one question after the other.
  let tail: Promise<unknown> = Promise.resolve();

  const ask = <Result>(question: (tx: Prisma.TransactionClient) => Promise<Result>): Promise<Result> => {
    const answer = tail.then(async () => {
      current ??= begin(prisma, scope);
      try {
        return await question(await current.handle);
      } catch (error) {
        throw explained(error);
      }
    });
    tail = answer.catch(() => {});
    return answer;
  };

  return {
    client: lazyClient(ask),
    query: <Row>(sql: string, values: readonly unknown[]) => ask((tx) => tx.$queryRawUnsafe<Row[]>(sql, ...values)),
    close: async () => {
      await tail;
      const ending = current;
      current = undefined;
      await ending?.finish();
    },
  };
}

function begin(prisma: PrismaClient, scope: Scope): OpenTransaction {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let whole: Promise<void> = Promise.resolve();
  const handle = new Promise<Prisma.TransactionClient>((resolve, reject) => {
    whole = prisma
      .$transaction(
        async (tx) => {
          await tx.$executeRawUnsafe("set transaction isolation level repeatable read, read only");
          // Local to the transaction, so that nothing of it is left on the connection.
          await tx.$queryRawUnsafe("select set_config('app.tenants', $1, true)", `{${scope.tenantId}}`);
          resolve(tx);
          await released;
        },
        { maxWait: waitMs, timeout: operationMs },
      )
      .catch(reject);
  });
  handle.catch(() => {});
  return {
    handle,
    finish: () => {
      release();
      return whole;
    },
  };
}

/** A method that does not exist throws, as it would on the client itself. What the schema's library wants to throw for a node that is not there, Relay
 *  wants to be null, like a row of somebody else's. */
function call(tx: Prisma.TransactionClient, model: string, method: string, args: unknown): Promise<unknown> {
  const models = tx as unknown as Record<string, Record<string, (args: unknown) => Promise<unknown>>>;
  const found = models[model]?.[method === "findUniqueOrThrow" ? "findUnique" : method];
  return found ? found(args) : Promise.reject(new DomainError("INTERNAL", `There is no ${model}.${method}.`));
}

type Ask = <Result>(question: (tx: Prisma.TransactionClient) => Promise<Result>) => Promise<Result>;

function lazyClient(ask: Ask): ReadClient {
  const delegate = (model: string): unknown =>
    new Proxy(
      {},
      {
        get: (_target, method) =>
          typeof method === "symbol" ? undefined : (args: unknown) => ask((tx) => call(tx, model, method, args)),
      },
    );
  const delegates = new Map<string, unknown>();
  return new Proxy({} as ReadClient, {
    has: (_target, name) => typeof name === "string",
    get: (_target, name) => {
      if (typeof name === "symbol" || name === "then") return undefined;
      if (name === "$connect") return () => Promise.resolve();
      let known = delegates.get(name);
      if (!known) {
        known = delegate(name);
        delegates.set(name, known);
      }
      return known;
    },
  });
}

/** A store that cannot be reached, or that has no connection free, is a reason to try again; everything else is a fault of ours. */
function explained(error: unknown): unknown {
  const { name, code } = error as { name?: string; code?: string };
  const isAway =
    name === "PrismaClientInitializationError" ||
    ["P1001", "P1002", "P1008", "P1017", "P2024", "P2028", "P2037"].includes(code ?? "") ||
    ["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"].includes(code ?? "");
  return isAway ? new DomainError("UNAVAILABLE", undefined, {}, error) : error;
}
