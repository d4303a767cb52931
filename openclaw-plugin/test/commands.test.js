// When a run alone had commands.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";

import { Commands } from "../src/commands.js";
import { LAG_MS } from "../src/deeds.js";

/** @param {Commands} commands */
const teller = (commands) => (/** @type {number} */ ts, /** @type {string} */ runId, /** @type {string} */ phase, /** @type {Record<string, unknown>} */ details = {}, id = "c") =>
  commands.hear({ runId, stream: "tool", ts }, id, { phase, result: { details } });
/** @param {[number, number][]} pairs */
const spans = (...pairs) => pairs.map(([sinceUnixMs, untilUnixMs]) => ({ sinceUnixMs, untilUnixMs }));

test("each command of a run that is alone", () => {
  const commands = new Commands();
  const tell = teller(commands);
  tell(1000, "a", "start");
  assert.deepEqual(commands.spans("a", 1500), spans([1000 - LAG_MS, 1500]), "while it runs");
  tell(2000, "a", "result");
  tell(3000, "a", "start", {}, "one");
  tell(3100, "a", "start", {}, "two");
  tell(3200, "a", "result", {}, "one");
  tell(4000, "a", "result", {}, "two");
  assert.deepEqual(commands.spans("a", 9000), spans([1000 - LAG_MS, 2000], [3000 - LAG_MS, 4000]));
  commands.forget("a");
  assert.deepEqual(commands.spans("a", 9000), []);
});

test("what another run's command leaves of it", () => {
  const commands = new Commands();
  const tell = teller(commands);
  tell(1000, "a", "start");
  tell(2000, "b", "start");
  tell(3000, "b", "result");
  tell(4000, "a", "result");
  assert.deepEqual(commands.spans("a", 9000), spans([1000 - LAG_MS, 2000 - LAG_MS], [3000, 4000]));
  assert.deepEqual(commands.spans("b", 9000), []);
  tell(5000, "b", "start");
  commands.over("b", 6000);
  assert.deepEqual(commands.spans("b", 9000), spans([5000 - LAG_MS, 6000]), "with its run ends what has no result");
});

test("a command in the background goes on after its run, until its process is gone", async () => {
  const commands = new Commands();
  const tell = teller(commands);
  const child = spawn("sleep", ["60"]);
  await once(child, "spawn");
  tell(1000, "a", "start");
  tell(2000, "a", "result", { status: "running", pid: child.pid });
  tell(2000, "a", "start", {}, "unseen");
  tell(2100, "a", "result", { status: "running" }, "unseen");
  commands.over("a", 3000);
  tell(4000, "b", "start");
  tell(5000, "b", "result");
  assert.deepEqual(commands.spans("b", 5000), []);
  child.kill();
  await once(child, "exit");
  commands.reap(6000);
  assert.deepEqual(commands.spans("a", 6000), spans([1000 - LAG_MS, 4000 - LAG_MS], [5000, 6000]));
  tell(7000, "b", "start");
  tell(8000, "b", "result");
  assert.deepEqual(commands.spans("b", 9000), spans([7000 - LAG_MS, 8000]));
});

test("a run of which something was missed may be doing anything", () => {
  const commands = new Commands();
  const tell = teller(commands);
  tell(1000, "a", "start");
  commands.missed("b", 2000);
  tell(3000, "a", "result");
  tell(4000, "b", "start");
  tell(5000, "b", "result");
  commands.over("b", 6000);
  tell(7000, "a", "start");
  tell(8000, "a", "result");
  assert.deepEqual(commands.spans("a", 9000), spans([1000 - LAG_MS, 2000 - LAG_MS], [7000 - LAG_MS, 8000]));
  assert.deepEqual(commands.spans("b", 9000), spans([4000, 5000 - LAG_MS]), "its own commands are its own");
});
