// The second half of a crash: the gateway is back, and is asked about the runs of before.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, Thread, pause, skip } from "../../testing/client.js";

const now = process.env.THREADLINE_TEST_PHASE === "after" ? skip : "there was no crash";

test("what ended before has ended as it did", { skip: now }, async () => {
  const client = await Client.connect();
  const get = async (/** @type {string} */ name) => new Thread(client, { name }).get(runOf(name));
  const [done, failed, unsent] = [await get("done"), await get("failed"), await get("unsent")];
  assert.deepEqual([done.status, done.output], ["completed", "finished before"]);
  assert.deepEqual([failed.status, failed.output], ["failed", undefined]);
  assert.equal(unsent.code, "no_native_task_record");
  client.close();
});

test("what was broken off is running until the gateway has finished it under another name", { skip: now, timeout: 240_000 }, async () => {
  const client = await Client.connect();
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
  client.close();
});

/** @param {string} name */
const runOf = (name) => `run-${process.env.THREADLINE_TEST_TAG}-${name}-1`;
