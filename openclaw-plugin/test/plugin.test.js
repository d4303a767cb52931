// The plugin as a whole, in a gateway that is only memory.

import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";

import { Host } from "../testing/host.js";
import { PLUGIN_ID } from "../src/keys.js";
import { rangeOf } from "../src/download.js";

const host = new Host();
after(() => host.stop());
const PREPARE = "xworkmate.session.prepare";
const TASK = "xworkmate.tasks.get";

let count = 0;
/** @param {Record<string, unknown>} [other] */
async function prepared(other = {}) {
  const name = `t${++count}`;
  const params = { schemaVersion: 1, appThreadKey: name, openclawSessionKey: `agent:main:${name}`, runId: `run-${name}`, expectedArtifactDirs: ["reports/"], ...other };
  return { ...params, answer: await host.ask(PREPARE, params) };
}

test("a run's folder lies in the workspace of its agent", async () => {
  const { answer } = await prepared({ openclawSessionKey: "agent:other:w" });
  assert.match(answer.agentWorkspaceDir, /\/other$/);
});

test("a folder that cannot be made leaves no mapping", async () => {
  for (const runId of ["refused", "refused-late"]) {
    const { answer, openclawSessionKey } = await prepared({ runId });
    assert.equal(answer.error.code, "PREPARE_FAILED");
    assert.deepEqual(host.held(openclawSessionKey) ?? {}, {});
  }
});

test("a folder that cannot be made leaves the mapping as it was", async () => {
  const first = await prepared();
  const before = structuredClone(host.held(first.openclawSessionKey));
  const second = await host.ask(PREPARE, { ...first, answer: undefined, runId: "refused-late", expectedArtifactDirs: ["other/"] });
  assert.equal(second.error.code, "PREPARE_FAILED");
  assert.deepEqual(host.held(first.openclawSessionKey), before);
});

test("a mapping that is there already is not written again", async () => {
  const { answer, openclawSessionKey, ...first } = await prepared();
  const before = host.writes;
  const next = { ...first, openclawSessionKey, runId: "another" };
  assert.deepEqual((await host.ask(PREPARE, next)).mapping, answer.mapping);
  assert.equal(host.writes, before);
  assert.equal((await host.ask(TASK, { openclawSessionKey, runId: "another" })).prepared, true);
  assert.equal((await host.ask(PREPARE, { ...next, runId: "refused" })).error.code, "PREPARE_FAILED");
  assert.equal((await host.ask(PREPARE, { ...next, appThreadKey: "thief" })).error.code, "CONFLICT");
  assert.deepEqual((await host.ask(PREPARE, { ...next, expectedArtifactDirs: ["other/"] })).mapping.expectedArtifactDirs, ["other/"]);
  assert.equal(host.writes, before + 1);
});

test("asking whether it could be done writes nothing", async () => {
  const { answer, openclawSessionKey } = await prepared({ checkOnly: true });
  assert.deepEqual([answer.plugin.id, answer.plugin.openclaw], [PLUGIN_ID, "test"]);
  assert.equal(host.entries.has(openclawSessionKey), false);
});

test("what other plugins keep is untouched", async () => {
  host.entries.set("agent:main:shared", { sessionId: "s", pluginExtensions: { other: { kept: true } } });
  await prepared({ openclawSessionKey: "agent:main:shared" });
  assert.deepEqual(host.entries.get("agent:main:shared").pluginExtensions.other, { kept: true });
});

test("what the gateway takes out of an entry when it stops is given back, unless the session was reset", async () => {
  const { appThreadKey, openclawSessionKey, runId, answer: { mapping } } = await prepared();
  const wipe = (/** @type {Record<string, unknown>} */ other = {}) => {
    const { pluginExtensions: _, ...rest } = host.entries.get(openclawSessionKey);
    host.entries.set(openclawSessionKey, { ...rest, ...other });
  };
  wipe();
  assert.deepEqual((await host.ask(TASK, { appThreadKey, runId })).mapping, mapping);
  const stolen = await host.ask(PREPARE, { appThreadKey: "thief", openclawSessionKey, runId: "r" });
  assert.equal(stolen.error?.code, "CONFLICT");
  await host.hooks.get("gateway_start")?.({}, {});
  assert.deepEqual(host.held(openclawSessionKey)["xworkmate.sessionMapping"], mapping);
  wipe({ lifecycleRevision: "of a reset" });
  await host.hooks.get("gateway_start")?.({}, {});
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).code, "mapping_not_found");
});

test("the task registry is believed", async () => {
  const { appThreadKey, openclawSessionKey, runId } = await prepared();
  host.tasks.set(runId, { id: "task-1", runId, status: "succeeded" });
  const task = await host.ask(TASK, { appThreadKey, runId, includeArtifacts: false });
  assert.deepEqual([task.status, task.success, task.terminal, task.openclawSessionKey, task.expectedArtifactDirs, task.taskId], ["completed", true, true, openclawSessionKey, ["reports/"], "task-1"]);
  host.tasks.set(runId, { id: "task-1", runId, status: "failed" });
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).status, "completed", "the first end stands");
});

test("a failed task is no success", async () => {
  for (const status of ["failed", "timed_out", "lost", "cancelled"]) {
    const { appThreadKey, runId } = await prepared();
    host.tasks.set(runId, { runId, status });
    const task = await host.ask(TASK, { appThreadKey, runId });
    assert.deepEqual([task.status, task.success], [status === "cancelled" ? "cancelled" : "failed", false]);
  }
});

test("a run of another session is no run of this one", async () => {
  const own = await prepared();
  const other = await prepared();
  for (const phase of ["start", "end"]) {
    await host.tell({ runId: other.runId, stream: "lifecycle", sessionKey: other.openclawSessionKey, data: { phase, terminalReply: { text: "theirs" } } });
  }
  const before = structuredClone(host.held(own.openclawSessionKey));
  for (const asked of [{ appThreadKey: own.appThreadKey }, { openclawSessionKey: "agent:main:nobody" }]) {
    const task = await host.ask(TASK, { ...asked, runId: other.runId });
    assert.deepEqual([task.ok, task.code, task.output], [false, "no_native_task_record", undefined]);
  }
  const { answer: _, ...asked } = own;
  assert.equal((await host.ask(PREPARE, { ...asked, runId: other.runId })).error?.code, "CONFLICT");
  assert.deepEqual(host.held(own.openclawSessionKey), before, "nothing was written");
  assert.equal((await host.ask(TASK, { appThreadKey: other.appThreadKey, runId: other.runId })).output, "theirs");
});

test("what `agent.wait` tells counts for the session of the run", async () => {
  const { appThreadKey, openclawSessionKey, runId } = await prepared();
  const mine = host.entries.get(openclawSessionKey).sessionId;
  host.wait = { status: "ok", terminalReceipt: { sessionId: "another" }, terminalReply: { text: "theirs" } };
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).code, "no_native_task_record");
  host.wait = { status: "error", error: "theirs" };
  assert.equal((await host.ask(TASK, { appThreadKey, runId: "of nobody" })).code, "no_native_task_record");
  host.wait = { status: "ok", terminalReceipt: { sessionId: mine }, terminalReply: { text: "mine" } };
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).output, "mine");
  host.wait = { status: "timeout" };
});

test("an agent that the gateway does not have is refused before anything is written", async () => {
  const { answer, openclawSessionKey } = await prepared({ openclawSessionKey: "agent:ghost:x" });
  assert.deepEqual([answer.error?.code, answer.error?.message], ["INVALID_REQUEST", "The gateway has no agent `ghost`. It has: main, other."]);
  assert.equal(host.entries.has(openclawSessionKey), false);
  assert.equal(existsSync(join(host.home, "ghost")), false);
});

test("files alone prove nothing", async () => {
  const { appThreadKey, runId } = await prepared({ runId: "files-1" });
  const task = await host.ask(TASK, { appThreadKey, runId });
  assert.deepEqual([task.ok, task.code, task.evidence, task.mapping.appThreadKey], [false, "no_native_task_record", { artifactCount: 1 }, appThreadKey]);
});

test("a registry that breaks is one that says nothing", async () => {
  const { appThreadKey, openclawSessionKey, runId } = await prepared();
  host.broken = true;
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).code, "no_native_task_record");
  assert.match(host.warnings.at(-1) ?? "", /registry is broken/);
  await host.tell({ runId, stream: "lifecycle", sessionKey: openclawSessionKey, data: { phase: "start" } });
  await host.tell({ runId, stream: "lifecycle", sessionKey: openclawSessionKey, data: { phase: "end", terminalReply: { text: "heard" } } });
  assert.equal((await host.ask(TASK, { appThreadKey, runId })).output, "heard");
  host.broken = false;
});

test("what was heard goes along with the question for files", async () => {
  const { appThreadKey, openclawSessionKey, runId } = await prepared();
  const tell = (/** @type {string} */ stream, /** @type {Record<string, unknown>} */ data) => host.tell({ runId, stream, sessionKey: openclawSessionKey, data });
  await tell("lifecycle", { phase: "start", startedAt: 1000 });
  for (const [call, isError] of Object.entries({ "reports/x.md": false, "reports/failed.md": true })) {
    await tell("tool", { phase: "start", name: "write", toolCallId: call, args: { path: call } });
    await tell("tool", { phase: "result", name: "write", toolCallId: call, isError });
  }
  await tell("tool", { phase: "start", name: "exec", toolCallId: "run", args: { command: "make" } });
  const other = await prepared();
  const theirs = join(host.home, "main", "theirs.md");
  const plant = (/** @type {string} */ phase) => host.tell({ runId: other.runId, stream: "tool", sessionKey: other.openclawSessionKey, data: { phase, name: "write", toolCallId: "w", args: { path: theirs } } });
  await host.tell({ runId: other.runId, stream: "lifecycle", sessionKey: other.openclawSessionKey, data: { phase: "start" } });
  await plant("start");
  writeFileSync(theirs, "x");
  await plant("result");
  await tell("tool", { phase: "result", name: "exec", toolCallId: "run" });
  await tell("lifecycle", { phase: "end", endedAt: 2000 });
  const { asked } = await host.ask("xworkmate.artifacts.collect-and-snapshot", { openclawSessionKey: openclawSessionKey.toUpperCase(), runId, writtenFiles: ["y.md", join(host.home, "main/reports/failed.md")] });
  const { sinceUnixMs, untilUnixMs, writtenFiles, commandSpans, othersFiles } = asked;
  assert.deepEqual({ sinceUnixMs, untilUnixMs, writtenFiles, key: asked.openclawSessionKey, othersFiles, spans: commandSpans.length }, { sinceUnixMs: 1000, untilUnixMs: 2000, writtenFiles: ["y.md", "reports/x.md"], key: openclawSessionKey, othersFiles: [theirs], spans: 1 });
  const { commandSpans: keptSpans, othersFiles: keptFiles } = host.held(openclawSessionKey)["xworkmate.taskRuns"].runs[runId];
  assert.deepEqual([keptSpans, keptFiles], [commandSpans, othersFiles], "also after a restart");
  const listed = await host.ask(TASK, { appThreadKey, runId });
  assert.equal(listed.asked.sinceUnixMs, undefined, "in a list it would be a filter");
  const forged = { sinceUnixMs: 5, commandSpans: [{ sinceUnixMs: 1, untilUnixMs: 9e14 }], othersFiles: [] };
  const again = await host.ask("xworkmate.artifacts.collect-and-snapshot", { openclawSessionKey, runId, ...forged });
  assert.deepEqual([again.asked.sinceUnixMs, again.asked.commandSpans, again.asked.othersFiles], [1000, commandSpans, othersFiles], "nobody else knows better");
});

test("who may only read cannot say whose files are whose", async () => {
  const { appThreadKey, openclawSessionKey, runId } = await prepared();
  const tell = (/** @type {string} */ phase) => host.tell({ runId, stream: "lifecycle", sessionKey: openclawSessionKey, data: { phase, startedAt: 1000, endedAt: 2000 } });
  const forged = { appThreadKey, openclawSessionKey, runId, writtenFiles: ["theirs.md"], sinceUnixMs: 1, untilUnixMs: 9e14, expectedArtifactDirs: ["reports", "private"] };
  const asked = async (/** @type {string} */ method, /** @type {string[]} */ scopes) => {
    const { sinceUnixMs, untilUnixMs, writtenFiles, expectedArtifactDirs } = (await host.ask(method, forged, scopes)).asked;
    return { sinceUnixMs, untilUnixMs, writtenFiles, expectedArtifactDirs };
  };
  await tell("start");
  assert.deepEqual((await asked("xworkmate.artifacts.list", ["operator.read"])).expectedArtifactDirs, [], "it goes on");
  await tell("end");
  const own = { sinceUnixMs: 1000, untilUnixMs: 2000, writtenFiles: [] };
  for (const method of ["xworkmate.artifacts.list", "xworkmate.artifacts.export"]) {
    assert.deepEqual(await asked(method, ["operator.read"]), { ...own, expectedArtifactDirs: ["reports"] });
    assert.deepEqual((await asked(method, ["operator.write"])).writtenFiles, ["theirs.md"]);
  }
  assert.deepEqual(await asked(TASK, []), { ...own, expectedArtifactDirs: ["reports/"] });
});

test("what a run left is collected and listed at once", async () => {
  const { openclawSessionKey, runId } = await prepared();
  const tell = (/** @type {string} */ phase) => host.tell({ runId, stream: "lifecycle", sessionKey: openclawSessionKey, data: { phase, endedAt: 2000 } });
  const gather = (/** @type {Record<string, unknown>} */ other = {}) =>
    host.ask("xworkmate.artifacts.gather", { openclawSessionKey, runId, maxFiles: 7, untilUnixMs: 2500, writtenFiles: ["y.md"], ...other });
  await tell("start");
  assert.equal((await gather()).watched, false, "it goes on");
  await tell("end");
  const all = await gather();
  assert.deepEqual([all.asked.maxFiles, all.asked.untilUnixMs, all.asked.writtenFiles, all.watched], [7, 2500, ["y.md"], true]);
  assert.deepEqual(all.collected, { omitted: { maxFiles: null }, warnings: [] }, "without the length of a page");
  assert.equal((await gather({ collect: false })).collected, undefined);
});

test("of a run during which the plugin was loaded anew not everything was heard", async () => {
  const { openclawSessionKey, runId } = await prepared();
  const tell = (/** @type {string} */ phase) => host.tell({ runId, stream: "lifecycle", sessionKey: openclawSessionKey, data: { phase } });
  await tell("start");
  host.register();
  await tell("end");
  assert.equal((await host.ask("xworkmate.artifacts.gather", { openclawSessionKey, runId })).watched, false);
});

test("a session that starts with its mapping has it; others have none", async () => {
  await host.hooks.get("session_start")?.({ sessionKey: "agent:main:legacy", appThreadKey: "legacy", runId: "r" }, {});
  assert.equal(host.entries.has("agent:main:legacy"), false);
  await host.hooks.get("session_start")?.({ openclawSessionKey: "agent:main:started", appThreadKey: "started", runId: "r" }, {});
  assert.equal(host.held("agent:main:started")["xworkmate.sessionMapping"].source, "session_start");
  await host.hooks.get("session_start")?.({ openclawSessionKey: "agent:main:started", appThreadKey: "another", runId: "r" }, {});
  assert.equal(host.held("agent:main:started")["xworkmate.sessionMapping"].appThreadKey, "started");
});

test("ranges of a file", () => {
  const cases = /** @type {[string | undefined, unknown][]} */ ([
    [undefined, undefined], ["bytes=0-", { from: 0, to: 10 }], ["bytes=2-4", { from: 2, to: 5 }], ["bytes=-3", { from: 7, to: 10 }],
    ["bytes=-30", { from: 0, to: 10 }], ["bytes=8-99", { from: 8, to: 10 }], ["bytes=10-", "none"], ["bytes=5-4", "none"], ["bytes=-0", "none"],
    ["bytes=0-1,3-4", undefined], ["lines=1-2", undefined], ["bytes=-", undefined],
  ]);
  for (const [header, range] of cases) assert.deepEqual(rangeOf(header, 10), range, header);
});
