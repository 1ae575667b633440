import type { FastifyRequest } from "fastify";
import { DomainError, type ErrorCode, invalidInput } from "../domain/errors.js";
import { isUuid } from "../domain/ids.js";
import { checkText } from "./json-body.js";

// Path and query parameters as the SDKs of all ages send them.

type Query = Record<string, string | string[] | undefined>;

/** An id of the path. What is no UUID cannot exist. */
export function pathId<Id extends string>(request: FastifyRequest, name: string, missing: ErrorCode): Id {
  const value = (request.params as Record<string, string>)[name] ?? "";
  if (!isUuid(value)) throw new DomainError(missing);
  return value.toLowerCase() as Id;
}

/** 0, 1, true or false; the JS SDK sends digits, the Python one words. */
export function queryFlag(request: FastifyRequest, name: string, otherwise: boolean): boolean {
  const value = last((request.query as Query)[name]);
  if (value === undefined || value === "") return otherwise;
  if (value === "1" || value.toLowerCase() === "true") return true;
  if (value === "0" || value.toLowerCase() === "false") return false;
  throw invalidInput(name, "must be 0, 1, true or false");
}

export function queryText(request: FastifyRequest, name: string): string | undefined {
  const value = last((request.query as Query)[name]);
  return value === undefined || value === "" ? undefined : checkText(name, value);
}

/** Repeated keys, one JSON array, or commas. */
export function queryList(request: FastifyRequest, name: string): string[] | undefined {
  return listOf(request, name)?.map((entry) => checkText(name, entry));
}

function listOf(request: FastifyRequest, name: string): string[] | undefined {
  const value = (request.query as Query)[name];
  if (value === undefined || value === "") return undefined;
  if (Array.isArray(value)) return value;
  if (value.startsWith("[")) {
    try {
      const list: unknown = JSON.parse(value);
      if (Array.isArray(list) && list.every((entry) => typeof entry === "string")) return list;
    } catch {
      // Not JSON after all: refused below, and therefore no list.
    }
    throw invalidInput(name, "must be a JSON array of strings, a comma-separated list, or a repeated key");
  }
  return value.split(",").filter((entry) => entry !== "");
}

export function queryNumber(
  request: FastifyRequest,
  name: string,
  otherwise: number,
  min: number,
  max: number,
): number {
  const value = last((request.query as Query)[name]);
  if (value === undefined || value === "") return otherwise;
  const number = Number(value);
  if (!Number.isInteger(number) || number < min || number > max)
    throw invalidInput(name, `must be a whole number from ${min} to ${max}`);
  return number;
}

const last = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.at(-1) : value;
