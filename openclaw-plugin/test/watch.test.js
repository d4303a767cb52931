// What is heard of runs while they go on.

import assert from "node:assert/strict";
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

test("which files a run's tools name", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  const tool = (/** @type {Record<string, unknown>} */ data) => hear(watch, "a", data, "tool");
  tool({ phase: "start", name: "write", args: { path: "reports/a.md", content: "/not/a/name" } });
  tool({ phase: "start", name: "read", args: { path: "secret.txt" } });
  tool({ phase: "start", name: "exec", args: { command: "cat > x" } });
  tool({ phase: "result", name: "exec", result: { details: { cwd: "/somewhere" } } });
  tool({ phase: "start", name: "apply_patch", args: { input: "*** Begin Patch\n*** Add File: src/new.js\n+x\n*** End Patch" } });
  tool({ phase: "result", name: "image_generate", result: { details: { media: ["/state/media/x.png"], note: "no path" } } });
  assert.deepEqual([...(watch.run("a")?.written ?? [])], ["reports/a.md", "src/new.js", "/state/media/x.png"]);
  tool({ phase: "start", name: "write", args: { path: "b.md" } });
  hear(watch, "z", { phase: "start", name: "write", args: { path: "c.md" } }, "tool");
  assert.equal(watch.run("z"), undefined);
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
