// Makes a checkout runnable: dependencies installed, sources built. It imports nothing outside node:, because before it ran there is nothing.
// Each half leaves a stamp that says what it was made from, inside the folder that it made, so that deleting the folder deletes the claim.
// When both stamps are current nothing is written and no lock is taken: a prepared checkout may be read-only.

import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build, isBuilt } from "./build-sources.mjs";
import { tryLock } from "./checkout-lock.mjs";
import { install, isInstalled } from "./install-dependencies.mjs";
import { Refusal, say } from "./say.mjs";

export const root = fileURLToPath(new URL("..", import.meta.url)).replace(/[/\\]$/, "");

/** @param {string} [checkout] @param {{ checkTypes: boolean }} [options] checkTypes: build in any case, and refuse sources whose types are wrong. */
export async function prepare(checkout = root, { checkTypes } = { checkTypes: false }) {
  if (!checkTypes && isInstalled(checkout) && isBuilt(checkout)) return;
  const lock = await lockCheckout(checkout);
  try {
    if (!isInstalled(checkout)) await install(checkout, lock.addHolder);
    if (checkTypes || !isBuilt(checkout)) await build(checkout, lock.addHolder, { checkTypes });
  } finally {
    lock.release();
  }
}

/** @param {string} checkout */
async function lockCheckout(checkout) {
  const folder = writableFolder(checkout);
  let saidAt = 0;
  for (;;) {
    const attempt = tryLock(join(folder, "prepare.lock"));
    if ("lock" in attempt) return attempt.lock;
    if (attempt.heldBy !== 0 && Date.now() - saidAt > REMIND_AFTER_MS) {
      saidAt = Date.now();
      say(`Waiting: process ${attempt.heldBy} is installing or building in this checkout …`);
    }
    await pause(ASK_AGAIN_AFTER_MS);
  }
}

const ASK_AGAIN_AFTER_MS = 200;
const REMIND_AFTER_MS = 30_000;

/** The one folder of the checkout that git ignores and neither half deletes. @param {string} checkout */
function writableFolder(checkout) {
  const folder = join(checkout, ".fairlead");
  try {
    accessSync(checkout, constants.W_OK);
    for (const made of ["node_modules", "dist"]) {
      if (existsSync(join(checkout, made))) accessSync(join(checkout, made), constants.W_OK);
    }
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return folder;
  } catch (error) {
    const { code, path } = /** @type {NodeJS.ErrnoException} */ (error);
    throw new Refusal(
      `Fairlead has to install and build in ${checkout}, and this user may not write to ${path ?? checkout} (${code}): ` +
        "run the command as the owner of the checkout, or clone it into a directory of your own.",
    );
  }
}
