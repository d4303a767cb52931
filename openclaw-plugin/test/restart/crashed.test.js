// The second half of a crash: the gateway is back, and is asked about the runs of before.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, Thread, pause, prompts, skip } from "../../testing/client.js";

const now = process.env.THREADLINE_TEST_PHASE === "crashed" ? skip : "there was no crash";

/** @type {Client} */
let client;
before(async () => {
  if (!now) client = await Client.connect();
});
after(() => client?.close());

test("what ended before has ended as it did", { skip: now }, async () => {
  const get = async (/** @type {string} */ name) => new Thread(client, { name }).get(runOf(name));
  const [done, failed, unsent] = [await get("done"), await get("failed"), await get("unsent")];
  assert.deepEqual([done.status, done.output], ["completed", "finished before"]);
  assert.deepEqual([failed.status, failed.output], ["failed", undefined]);
  assert.equal(unsent.code, "no_native_task_record");
});

test("what was broken off is running until the gateway has finished it under another name", { skip: now, timeout: 240_000 }, async () => {
  const open = new Set(["chat", "agent"]);
  while (open.size > 0) {
    for (const name of open) {
      const task = await new Thread(client, { name }).get(runOf(name), { includeArtifacts: false });
      if (task.status === "running") continue;
      assert.deepEqual([task.status, task.success, task.terminal], ["completed", true, true], `${name}: ${JSON.stringify(task)}`);
      assert.notEqual(task.resumedAs ?? runOf(name), runOf(name), name);
      open.delete(name);
    }
    await pause(500);
  }
});

test("what the gateway lost is lost, and not running for ever", { skip: now, timeout: 240_000 }, async () => {
  const thread = new Thread(client, { name: "early" });
  let task = await thread.get(runOf("early"));
  while (task.status === "running") {
    await pause(500);
    task = await thread.get(runOf("early"));
  }
  const heard = (await prompts()).some((/** @type {string} */ prompt) => prompt.includes("early bird"));
  if (heard) assert.deepEqual([task.status, task.output], ["completed", "early bird"], JSON.stringify(task));
  // Of what was killed at once not even the message was written down.
  else assert.ok(["RUN_LOST", "no_native_task_record"].includes(task.code) && task.output === undefined, JSON.stringify(task));
});

/** @param {string} name */
const runOf = (name) => `run-${process.env.THREADLINE_TEST_TAG}-${name}-1`;
