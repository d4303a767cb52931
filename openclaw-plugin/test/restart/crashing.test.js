// The first half of a crash: runs are begun, and then the gateway is killed. `crashed.test.js` looks.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, Thread, pause, skip } from "../../testing/client.js";

const now = process.env.THREADLINE_TEST_PHASE === "crashing" ? skip : "no crash is planned";

/** @type {Client} */
let client;
before(async () => {
  if (!now) client = await Client.connect();
});
after(() => client?.close());

test("runs are under way", { skip: now, timeout: 120_000 }, async () => {
  const thread = (/** @type {string} */ name) => new Thread(client, { name });
  await thread("done").run("[[say finished before]]");
  await thread("failed").run("[[fail 400]]");
  const chat = thread("chat");
  const sent = await chat.prepare();
  await chat.send(sent.runId, "[[sleep 20000]][[say chat survived]]");
  const agent = thread("agent");
  const { runId } = await agent.prepare();
  await client.call("agent", { sessionKey: agent.openclawSessionKey, message: "[[sleep 20000]][[say agent survived]]", idempotencyKey: runId, deliver: false });
  await thread("unsent").prepare();
  await pause(5000);
  for (const name of ["chat", "agent"]) assert.equal((await thread(name).get(runOf(name))).status, "running", name);
  // Killed before the model is asked, or hardly after.
  const early = thread("early");
  const last = await early.prepare();
  await early.send(last.runId, "[[say early bird]]");
});

/** @param {string} name */
const runOf = (name) => `run-${process.env.THREADLINE_TEST_TAG}-${name}-1`;
