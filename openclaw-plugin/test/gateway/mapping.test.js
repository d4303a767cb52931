// Which thread has which session, on a real gateway.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Client, Thread, pause, skip } from "../../testing/client.js";

const PLUGIN = "openclaw-multi-session-plugins";

/** @type {Client} */
let client;
before(async () => {
  if (!skip) client = await Client.connect();
});
after(() => client?.close());

/** @param {string} key */
async function row(key) {
  const { session } = await client.call("sessions.describe", { key });
  const held = session?.pluginExtensions?.find((/** @type {any} */ extension) => extension.pluginId === PLUGIN);
  return { session, mapping: held?.value };
}

test("the mapping is kept in the session's own entry", { skip }, async () => {
  const thread = new Thread(client, { dirs: ["reports/", "artifacts"] });
  const prepared = await thread.prepare();
  const { session, mapping } = await row(thread.openclawSessionKey);
  assert.match(session.sessionId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  assert.deepEqual(mapping, prepared.mapping);
  assert.deepEqual({ ...mapping, createdAt: 0, updatedAt: 0 }, {
    schemaVersion: 1, appThreadKey: thread.appThreadKey, openclawSessionKey: thread.openclawSessionKey,
    expectedArtifactDirs: ["reports/", "artifacts/"], createdAt: 0, updatedAt: 0, source: "bridge_prepare",
  });
  assert.equal(mapping.createdAt, mapping.updatedAt);

  await pause(10);
  const again = await thread.prepare({ runId: prepared.runId, expectedArtifactDirs: ["other"] });
  assert.equal(again.mapping.createdAt, mapping.createdAt);
  assert.ok(again.mapping.updatedAt > mapping.updatedAt);
  assert.deepEqual(again.mapping.expectedArtifactDirs, ["other/"]);
  const next = await thread.prepare();
  for (const { artifactDirectory } of [again, next]) assert.ok(existsSync(artifactDirectory));
});

test("a key that is taken is refused both ways, and nothing is written", { skip }, async () => {
  const [one, other] = [new Thread(client), new Thread(client)];
  const { remoteWorkingDirectory } = await one.prepare();
  const { mapping } = await row(one.openclawSessionKey);
  const refused = async (/** @type {Record<string, unknown>} */ params) => (await client.ask("xworkmate.session.prepare", { schemaVersion: 1, runId: "refused", ...params })).error?.code;
  assert.equal(await refused({ appThreadKey: other.appThreadKey, openclawSessionKey: one.openclawSessionKey }), "CONFLICT");
  assert.equal(await refused({ appThreadKey: one.appThreadKey, openclawSessionKey: other.openclawSessionKey }), "CONFLICT");
  assert.equal(await refused({ appThreadKey: one.appThreadKey, openclawSessionKey: "agent:other:x" }), "CONFLICT");
  assert.deepEqual((await row(one.openclawSessionKey)).mapping, mapping);
  assert.equal((await row(other.openclawSessionKey)).session, null);
  const folder = (/** @type {Thread} */ thread) => join(remoteWorkingDirectory, "tasks", thread.openclawSessionKey.replaceAll(":", "-"));
  assert.equal(existsSync(join(folder(one), "refused")), false);
  assert.equal(existsSync(folder(other)), false);
});

test("ten ask for the same thread at once: one gets it", { skip }, async () => {
  const thread = new Thread(client);
  const answers = await Promise.all(Array.from({ length: 10 }, (_, at) => client.ask("xworkmate.session.prepare", {
    schemaVersion: 1, appThreadKey: thread.appThreadKey, openclawSessionKey: `${thread.openclawSessionKey}-${at}`, runId: "r",
  })));
  assert.equal(answers.filter((answer) => answer.payload).length, 1);
  assert.deepEqual(new Set(answers.flatMap((answer) => answer.error?.code ?? [])), new Set(["CONFLICT"]));
});

test("threads that differ only in case do not share a session", { skip }, async () => {
  const thread = new Thread(client);
  await thread.prepare();
  const loud = thread.appThreadKey.toUpperCase();
  const twin = await client.ask("xworkmate.session.prepare", { schemaVersion: 1, appThreadKey: loud, openclawSessionKey: `agent:main:${loud}`, runId: "r" });
  assert.equal(twin.error?.code, "CONFLICT");
  const second = await client.call("xworkmate.session.prepare", { schemaVersion: 1, appThreadKey: loud, openclawSessionKey: `agent:main:${loud}-2`, runId: "r" });
  assert.equal(second.openclawSessionKey, `agent:main:${loud}-2`.toLowerCase());
  assert.equal((await client.call("xworkmate.tasks.get", { appThreadKey: loud, runId: "r" })).mapping.appThreadKey, loud);
});

test("a hostile name is only ever a name", { skip }, async () => {
  const { tag } = new Thread(client);
  const hostile = ["../../../etc/passwd", "__proto__", "constructor", "'; DROP TABLE sessions; --", "<script>", "%2e%2e%2f", "a\u202eb", "名前 😀", "x".repeat(400)];
  for (const [at, name] of hostile.entries()) {
    const appThreadKey = `${name}#${tag}`;
    const openclawSessionKey = `agent:main:hostile-${tag}-${at}`;
    const prepared = await client.call("xworkmate.session.prepare", { schemaVersion: 1, appThreadKey, openclawSessionKey, runId: name.slice(0, 200) });
    assert.ok(prepared.artifactDirectory.startsWith(join(prepared.remoteWorkingDirectory, "tasks/")), prepared.artifactDirectory);
    assert.equal((await client.call("xworkmate.tasks.get", { appThreadKey, runId: "x" })).mapping.appThreadKey, appThreadKey);
  }
  const refused = async (/** @type {Record<string, unknown>} */ params) => (await client.ask("xworkmate.session.prepare", { schemaVersion: 1, runId: "r", appThreadKey: `ok-${tag}`, openclawSessionKey: `agent:main:ok-${tag}`, ...params })).error?.code;
  for (const wrong of [
    { appThreadKey: "a\u0000b" }, { appThreadKey: "x".repeat(600) }, { appThreadKey: " " }, { appThreadKey: undefined },
    { openclawSessionKey: `agent:main:${"y".repeat(600)}` }, { openclawSessionKey: "agent:main:subagent:x" }, { openclawSessionKey: "agent:main:cron:x" },
    { openclawSessionKey: undefined, sessionKey: "agent:main:z" }, { runId: "  " }, { runId: "work" }, { schemaVersion: 2 },
    { expectedArtifactDirs: ["../outside"] }, { expectedArtifactDirs: ["/etc"] }, { workspaceDir: "/nowhere/at/all" },
  ]) {
    assert.equal(await refused(wrong), "INVALID_REQUEST", JSON.stringify(wrong).slice(0, 80));
    assert.equal((await row(`agent:main:ok-${tag}`)).session, null);
  }
});

test("each method asks for the least", { skip }, async () => {
  const reader = await Client.connect(["operator.read"]);
  const thread = new Thread(client);
  const { runId } = await thread.run("[[say ok]]");
  const run = { openclawSessionKey: thread.openclawSessionKey, runId };
  assert.equal((await reader.ask("xworkmate.session.prepare", {})).error.code, "FORBIDDEN");
  assert.equal((await reader.ask("xworkmate.artifacts.collect-and-snapshot", run)).error.code, "FORBIDDEN");
  assert.equal((await reader.call("xworkmate.tasks.get", run)).status, "completed");
  assert.deepEqual((await reader.call("xworkmate.artifacts.list", run)).artifacts, []);
  assert.deepEqual((await reader.call("xworkmate.artifacts.export", run)).artifacts, []);
  reader.close();
});
