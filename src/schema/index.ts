import "./scalars.js";
import "./errors.js";
import "./tenant.js";
import "./agent.js";
import "./thread.js";
import "./run.js";
import "./step.js";
import "./event.js";
import "./run-events.js";
import "./member.js";
import "./service-account.js";
import "./api-key.js";
import "./runner-token.js";
import "./runner.js";
import "./budget.js";
import "./model-price.js";
import "./usage.js";
import "./halt.js";
import "./tool-policy.js";
import "./tool.js";
import "./tool-decision.js";
import "./secret.js";
import "./audit-event.js";
import "./audit-verification.js";
import { builder } from "./builder.js";

/** The whole schema: importing a type's file adds it. */
export const graphqlSchema = builder.toSchema();
