import { invalidInput } from "../domain/errors.js";
import { builder } from "./builder.js";

builder.scalarType("BigInt", {
  description: "A whole number of any size, as a string of digits: no digit is lost on the way through a client.",
  serialize: (value) => value.toString(),
  parseValue: (value) => {
    if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
    if (typeof value === "string" && /^-?\d{1,40}$/.test(value)) return BigInt(value);
    throw invalidInput("BigInt", "a whole number, or a string of its digits");
  },
});

builder.scalarType("DateTime", {
  description: "A moment in UTC, ISO 8601: 2026-01-31T12:00:00.000Z.",
  serialize: (value) => value.toISOString(),
  parseValue: (value) => {
    const date = typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) ? new Date(value) : null;
    if (!date || Number.isNaN(date.getTime()) || date.getUTCFullYear() > 9999)
      throw invalidInput("DateTime", "an ISO 8601 time such as 2026-01-31T12:00:00Z");
    return date;
  },
});

builder.scalarType("JSON", {
  description: "Any JSON value. Numbers beyond 2^53 lose digits here; the Agent Protocol forwards them as received.",
  serialize: (value) => value,
  parseValue: (value) => value,
});
