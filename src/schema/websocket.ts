import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type ExecutionArgs, GraphQLError } from "graphql";
import { useServer } from "graphql-ws/use/ws";
import { WebSocketServer } from "ws";
import type { Log } from "../platform/log.js";
import { toPublicError } from "./errors.js";
import { graphqlLimits } from "./limits.js";
import type { Caller, GraphqlYoga } from "./yoga.js";

// graphql-ws on the listener of everything else. Pings find dead peers; a connection holds a bounded number of operations.

const operationsPerConnection = 100;
const pingEveryMs = 12_000;

type Enveloped = ReturnType<GraphqlYoga["getEnveloped"]>;

export interface GraphqlWebSockets {
  stop(): Promise<void>;
}

export function serveWebSockets(server: Server, yoga: GraphqlYoga, log: Log): GraphqlWebSockets {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: graphqlLimits.bodyBytes });
  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if ((request.url ?? "").split("?")[0] !== "/graphql") {
      socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
      return;
    }
    socket.on("error", () => socket.destroy());
    sockets.handleUpgrade(request, socket, head, (client) => sockets.emit("connection", client, request));
  };
  server.on("upgrade", onUpgrade);

  const callerOf = (context: { extra: { request: IncomingMessage }; connectionParams?: object }): Caller => ({
    headers: context.extra.request.headers,
    apiKey: (context.connectionParams as { apiKey?: unknown } | undefined)?.apiKey,
    transport: "websocket",
  });
  const { dispose } = useServer(
    {
      // A refused key ends the connection with 4403 before anything is asked.
      onConnect: async (context) => {
        try {
          await yoga.getEnveloped({ caller: callerOf(context as never) } as never).contextFactory();
          return true;
        } catch {
          return false;
        }
      },
      execute: (args) => (args as unknown as { rootValue: Enveloped }).rootValue.execute(args as never),
      subscribe: (args) => (args as unknown as { rootValue: Enveloped }).rootValue.subscribe(args as never),
      onSubscribe: async (context, _id, params) => {
        if (Object.keys(context.subscriptions).length > operationsPerConnection)
          return [
            new GraphQLError(`A connection holds at most ${operationsPerConnection} operations; open another one.`),
          ];
        const enveloped = yoga.getEnveloped({ caller: callerOf(context as never), params } as never);
        try {
          const document = enveloped.parse(params.query);
          const contextValue = await enveloped.contextFactory();
          const errors = enveloped.validate(enveloped.schema, document);
          if (errors.length > 0) return errors.map((error: unknown) => toPublicError(error, log));
          const args: ExecutionArgs = {
            schema: enveloped.schema,
            document,
            operationName: params.operationName ?? null,
            variableValues: params.variables ?? {},
            contextValue,
            rootValue: enveloped,
          };
          return args;
        } catch (error) {
          return [toPublicError(error, log)];
        }
      },
    },
    sockets,
    pingEveryMs,
  );
  return {
    stop: async () => {
      server.off("upgrade", onUpgrade);
      await dispose();
    },
  };
}
