// What is said about runs, on a real gateway.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, Thread, names, pause, skip, told } from "../../testing/client.js";

/** @type {Client} */
let client;
before(async () => {
  if (!skip) client = await Client.connect();
});
after(() => client?.close());

/** @type {Thread} a run whose model never recovers: the gateway tries for more than a minute */
let dead;
test("a dead model is asked", { skip }, async () => {
  dead = new Thread(client);
  await dead.run("[[say words of the first run]]");
  const { runId } = await dead.prepare();
  await dead.send(runId, "[[fail 500]]");
});

test("a run that was only prepared has no record", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.prepare();
  const task = await thread.get(runId);
  assert.deepEqual([task.ok, task.code, task.prepared, task.evidence], [false, "no_native_task_record", true, { artifactCount: 0 }]);
});

test("running from the moment it was taken, completed with its own words", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.prepare();
  await thread.send(runId, "[[sleep 1500]][[say first words]]");
  assert.deepEqual(told(await thread.get(runId)), { status: "running", success: true, terminal: false, output: undefined, error: undefined });
  await client.end(runId);
  assert.deepEqual(told(await thread.get(runId)), { status: "completed", success: true, terminal: true, output: "first words", error: undefined });
});

test("a failed model is a failed run, without the words of the run before", { skip }, async () => {
  const thread = new Thread(client);
  await thread.run("[[say words of the first run]]");
  const { runId, state } = await thread.run("[[fail 400]]");
  assert.equal(state, "error");
  const task = await thread.get(runId);
  assert.deepEqual([task.status, task.success, task.terminal, task.output], ["failed", false, true, undefined]);
  assert.match(task.error, /\w/);
});

test("a run that is tried again goes on until it ends", { skip, timeout: 120_000 }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.prepare();
  await thread.send(runId, `[[fail 500 2]][[say ${thread.tag} recovered]]`);
  const ended = client.end(runId);
  let over = false;
  ended.then(() => (over = true));
  while (!over) {
    const task = await thread.get(runId, { includeArtifacts: false });
    if (!over) assert.equal(task.status, "running");
    await pause(300);
  }
  assert.equal(await ended, "final");
  assert.deepEqual(told(await thread.get(runId)), { status: "completed", success: true, terminal: true, output: `${thread.tag} recovered`, error: undefined });
});

test("an aborted run is cancelled, without the words of the run before", { skip }, async () => {
  const thread = new Thread(client);
  await thread.run("[[say words of the first run]]");
  const { runId } = await thread.prepare();
  await thread.send(runId, "[[sleep 30000]][[say never]]");
  await pause(1000);
  await client.call("chat.abort", { sessionKey: thread.openclawSessionKey, runId });
  assert.equal(await client.end(runId), "aborted");
  const task = await thread.get(runId);
  assert.deepEqual([task.status, task.success, task.terminal, task.output], ["cancelled", false, true, undefined]);
});

test("a run with a task record of the gateway", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.prepare();
  await client.call("agent", { sessionKey: thread.openclawSessionKey, message: "[[say by agent]]", idempotencyKey: runId, deliver: false });
  await client.call("agent.wait", { runId, timeoutMs: 60_000 });
  const task = await thread.get(runId);
  assert.deepEqual(told(task), { status: "completed", success: true, terminal: true, output: "by agent", error: undefined });
  const latest = await client.call("xworkmate.tasks.get", { appThreadKey: thread.appThreadKey });
  assert.equal(latest.runId, runId);
});

test("a run is its own session's", { skip }, async () => {
  const [own, other] = [new Thread(client), new Thread(client)];
  await own.run("[[say mine]]");
  const { runId } = await other.run("[[say theirs]]");
  for (const asked of [{ appThreadKey: own.appThreadKey }, { openclawSessionKey: "agent:main:test:nobody" }]) {
    const task = await client.call("xworkmate.tasks.get", { ...asked, runId });
    assert.deepEqual([task.ok, task.code, task.output], [false, "no_native_task_record", undefined]);
  }
  const { error } = await client.ask("xworkmate.session.prepare", { schemaVersion: 1, appThreadKey: own.appThreadKey, openclawSessionKey: own.openclawSessionKey, runId });
  assert.equal(error.code, "CONFLICT");
  assert.equal((await client.call("xworkmate.tasks.get", { appThreadKey: own.appThreadKey })).output, "mine");
});

test("what cannot be looked up is said, not refused", { skip }, async () => {
  const code = async (/** @type {Record<string, unknown>} */ params) => (await client.call("xworkmate.tasks.get", params)).code;
  assert.equal(await code({}), "invalid_lookup");
  assert.equal(await code({ sessionKey: "agent:main:x", runId: "r" }), "invalid_lookup");
  assert.equal(await code({ appThreadKey: "test:nobody", runId: "r" }), "mapping_not_found");
  const thread = new Thread(client);
  await thread.prepare();
  assert.equal(await code({ appThreadKey: thread.appThreadKey }), "task_not_found");
  assert.equal(await code({ appThreadKey: "test:other", openclawSessionKey: thread.openclawSessionKey, runId: "r" }), "conflict");
});

test("five threads at once: each its own words and its own files", { skip, timeout: 120_000 }, async () => {
  const threads = Array.from({ length: 5 }, () => new Thread(client, { dirs: ["reports"] }));
  const runs = await Promise.all(threads.map((thread) => thread.run((prepared) =>
    `[[sleep 500]][[write ${prepared.relativeArtifactDirectory}/${thread.tag}.md = ${thread.tag}]][[write reports/${thread.tag}.txt = x]][[say I am ${thread.tag}]]`)));
  for (const [at, thread] of threads.entries()) {
    const task = await thread.get(/** @type {any} */ (runs[at]).runId);
    assert.equal(task.output, `I am ${thread.tag}`);
    assert.deepEqual(names(task), [`${thread.tag}.md`, `reports/${thread.tag}.txt`]);
  }
});

test("a dead model: running while the gateway tries, then failed", { skip, timeout: 180_000 }, async () => {
  const runId = `run-${dead.tag}-2`;
  const ended = client.end(runId);
  let over = false;
  ended.then(() => (over = true));
  while (!over) {
    const task = await dead.get(runId, { includeArtifacts: false });
    if (!over) assert.deepEqual([task.status, task.terminal, task.output], ["running", false, undefined]);
    await pause(500);
  }
  assert.equal(await ended, "error");
  const task = await dead.get(runId);
  assert.deepEqual([task.status, task.success, task.terminal, task.output], ["failed", false, true, undefined]);
  assert.match(task.error, /\w/);
});
