// What is heard of runs while they go on.

import assert from "node:assert/strict";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Watch } from "../src/watch.js";

/**
 * @param {Watch} watch
 * @param {string} runId
 * @param {Record<string, unknown>} data
 * @param {string} [stream]
 */
const hear = (watch, runId, data, stream = "lifecycle") => watch.hear({ runId, stream, sessionKey: `agent:main:${runId[0]}`, data });

test("an end is told once", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start", startedAt: 5 });
  assert.equal(watch.active("agent:main:A")?.runId, "a");
  assert.equal(hear(watch, "a", { phase: "end", aborted: true, stopReason: "rpc" })?.verdict.status, "cancelled");
  assert.equal(hear(watch, "a", { phase: "error", aborted: true, executionSettled: true }), undefined);
  assert.equal(watch.run("a")?.verdict.status, "cancelled");
  assert.equal(watch.underWay, 0);
});

test("attempts are not ends, and their errors are hints", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  hear(watch, "a", { phase: "finishing", error: "500 api_key=sk-secret-value" });
  const { status, provisional, error } = /** @type {any} */ (watch.run("a")).verdict;
  assert.deepEqual([status, provisional], ["running", true]);
  assert.doesNotMatch(error, /secret-value/);
  hear(watch, "a", { phase: "start" });
  assert.equal(watch.run("a")?.verdict.provisional, undefined);
  assert.equal(hear(watch, "a", { phase: "end", stopReason: "stop", terminalReply: { text: "x" } })?.verdict.output, "x");
});

test("a run that is called off before it began has ended", () => {
  const watch = new Watch();
  watch.expect("a", "agent:main:a");
  assert.equal(watch.run("a")?.verdict.status, "prepared");
  assert.equal(hear(watch, "a", { phase: "end", aborted: true })?.verdict.status, "cancelled");
});

test("two sessions at once cast doubt on each other, two runs of one session do not", () => {
  const watch = new Watch();
  const overlapped = (/** @type {string} */ runId) => watch.run(runId)?.overlapped;
  hear(watch, "a1", { phase: "start" });
  hear(watch, "a1", { phase: "end" });
  hear(watch, "a2", { phase: "start" });
  assert.deepEqual(["a1", "a2"].map(overlapped), [false, false]);
  hear(watch, "b1", { phase: "start" });
  assert.deepEqual(["a1", "a2", "b1"].map(overlapped), [false, true, true]);
});

test("one that waits is doubted, and casts no doubt", () => {
  const watch = new Watch();
  watch.expect("a", "agent:main:a");
  hear(watch, "b", { phase: "start" });
  hear(watch, "b", { phase: "end" });
  hear(watch, "a", { phase: "start" });
  assert.deepEqual([watch.run("a")?.overlapped, watch.run("b")?.overlapped], [true, false]);
});

/**
 * A call of a tool, and what came of it.
 * @param {Watch} watch
 * @param {string} runId
 * @param {string} name
 * @param {Record<string, unknown>} args
 * @param {Record<string, unknown>} [result]
 */
function call(watch, runId, name, args, result = {}) {
  const toolCallId = `call-${++calls}`;
  hear(watch, runId, { phase: "start", name, toolCallId, args }, "tool");
  hear(watch, runId, { phase: "result", name, toolCallId, ...result }, "tool");
}
let calls = 0;

test("which files a run's tools name", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  call(watch, "a", "write", { path: "reports/a.md", content: "/not/a/name" });
  call(watch, "a", "read", { path: "secret.txt" });
  call(watch, "a", "apply_patch", { input: "*** Begin Patch\n*** Add File: src/new.js\n+x\n*** End Patch" });
  call(watch, "a", "image_generate", {}, { result: { details: { media: ["/state/media/x.png"], note: "no path" } } });
  assert.deepEqual([...(watch.run("a")?.written ?? [])], ["reports/a.md", "src/new.js", "/state/media/x.png"]);
  hear(watch, "z", { phase: "start", name: "write", args: { path: "c.md" } }, "tool");
  assert.equal(watch.run("z"), undefined);
});

test("a call that failed, or has no result, is no evidence", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  call(watch, "a", "edit", { path: "theirs.txt" }, { isError: true });
  hear(watch, "a", { phase: "start", name: "write", toolCallId: "open", args: { path: "open.txt" } }, "tool");
  const ended = hear(watch, "a", { phase: "end" });
  assert.deepEqual([[...(ended?.written ?? [])], [...(ended?.failed ?? [])]], [[], ["theirs.txt"]]);
});

test("a file that a command names and that changed meanwhile", () => {
  const folder = mkdtempSync(join(tmpdir(), "watch-"));
  const file = (/** @type {string} */ name) => join(folder, name);
  const watch = new Watch(() => folder);
  const touched = (/** @type {string} */ runId) => [...(watch.run(runId)?.touched ?? [])];
  const shell = (/** @type {string} */ runId, /** @type {string} */ command, /** @type {() => void} */ run, /** @type {Record<string, unknown>} */ details = {}) => {
    const data = { name: "exec", toolCallId: command, args: { command } };
    hear(watch, runId, { ...data, phase: "start" }, "tool");
    run();
    hear(watch, runId, { ...data, phase: "result", result: { details: { status: "completed", cwd: folder, ...details } } }, "tool");
  };
  writeFileSync(file("old.txt"), "x");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30);
  hear(watch, "a", { phase: "start" });
  shell("a", `cat old.txt missing.txt >absolute.md; echo x > 'with space.md'; ls ${folder}`, () => ["absolute.md", "with space.md", "silent.md"].forEach((name) => writeFileSync(file(name), "x")));
  assert.deepEqual(touched("a").sort(), [file("absolute.md"), file("with space.md")]);

  hear(watch, "b", { phase: "start" });
  call(watch, "b", "write", { path: "absolute.md" });
  assert.deepEqual(touched("a"), [file("with space.md")], "a tool's word is more");
  shell("a", "cat absolute.md", () => writeFileSync(file("absolute.md"), "of b"));
  assert.deepEqual(touched("a"), [file("with space.md")]);

  shell("b", "make later.md &", () => {}, { status: "running" });
  writeFileSync(file("later.md"), "x");
  hear(watch, "b", { phase: "end" });
  assert.deepEqual(touched("b"), [file("later.md")]);

  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30);
  hear(watch, "c", { phase: "start" });
  shell("c", "sort -o absolute.md absolute.md", () => writeFileSync(file("absolute.md"), "sorted"));
  assert.deepEqual(touched("c"), [file("absolute.md")], "who wrote it first is gone");
});

test("old runs are forgotten, those under way never", () => {
  const watch = new Watch();
  hear(watch, "first", { phase: "start" });
  for (let n = 0; n < 1000; n++) {
    hear(watch, `r${n}`, { phase: "start" });
    hear(watch, `r${n}`, { phase: "end" });
  }
  assert.equal(watch.run("first")?.verdict.status, "running");
  assert.equal(watch.run("r1"), undefined);
  assert.equal(hear(watch, "r1", { phase: "model" }), undefined);
  assert.equal(watch.underWay, 1, "a late word does not bring a run back");
});
