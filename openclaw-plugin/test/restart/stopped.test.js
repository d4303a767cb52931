// The second half of a stop: the gateway let its run finish, ended, and is back.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, Thread, names, pause, skip, told } from "../../testing/client.js";

const now = process.env.THREADLINE_TEST_PHASE === "stopped" ? skip : "nothing was stopped";

/** @type {Client} */
let client;
before(async () => {
  if (!now) client = await Client.connect();
});
after(() => client?.close());

test("a run that ended while the gateway stopped has its end and its files", { skip: now, timeout: 60_000 }, async () => {
  const thread = new Thread(client, { name: "stopping", dirs: ["reports"] });
  const task = await thread.get(`run-${thread.tag}-1`);
  assert.deepEqual(told(task), { status: "completed", success: true, terminal: true, output: "finished while stopping", error: undefined });
  assert.deepEqual(names(task), [`reports/${thread.tag}.md`]);
});

test("mappings outlive an orderly stop, at which the gateway takes them out of its entries", { skip: now, timeout: 60_000 }, async () => {
  const thread = new Thread(client, { name: "ended" });
  const task = await thread.get(`run-${thread.tag}-1`);
  assert.deepEqual([task.status, task.output, task.mapping.appThreadKey], ["completed", "finished before the stop", thread.appThreadKey]);
  // They are back in the entries soon after the start, and answers have them from the first moment.
  let extensions;
  while (!extensions) {
    const { session } = await client.call("sessions.describe", { key: thread.openclawSessionKey });
    extensions = session.pluginExtensions;
    await pause(50);
  }
  const [{ pluginId, value }] = extensions;
  assert.deepEqual([pluginId, value], ["openclaw-multi-session-plugins", task.mapping]);
  const taken = await client.ask("xworkmate.session.prepare", { schemaVersion: 1, appThreadKey: "test:thief", openclawSessionKey: thread.openclawSessionKey, runId: "r" });
  assert.equal(taken.error?.code, "CONFLICT");
});
