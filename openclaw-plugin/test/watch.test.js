// What is heard of runs while they go on.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
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

/**
 * @param {Watch} watch
 * @param {string} runId
 */
function written(watch, runId) {
  const live = watch.run(runId);
  return live ? watch.evidence(live).written : [];
}

test("which files a run's tools name", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  call(watch, "a", "write", { path: "reports/a.md", content: "/not/a/name" });
  call(watch, "a", "read", { path: "secret.txt" });
  call(watch, "a", "apply_patch", { input: "*** Begin Patch\n*** Add File: src/new.js\n+x\n*** End Patch" });
  call(watch, "a", "image_generate", {}, { result: { details: { media: ["/state/media/x.png"], note: "no path" } } });
  assert.deepEqual(written(watch, "a"), ["reports/a.md", "src/new.js", "/state/media/x.png"]);
  hear(watch, "z", { phase: "start", name: "write", args: { path: "c.md" } }, "tool");
  assert.equal(watch.run("z"), undefined);
});

test("a call that failed, or has no result, is no evidence", () => {
  const watch = new Watch();
  hear(watch, "a", { phase: "start" });
  call(watch, "a", "edit", { path: "theirs.txt" }, { isError: true });
  hear(watch, "a", { phase: "start", name: "write", toolCallId: "open", args: { path: "open.txt" } }, "tool");
  const ended = hear(watch, "a", { phase: "end" });
  assert.deepEqual(ended && watch.evidence(ended), { written: [], failed: ["theirs.txt"], doubtful: [], commandSpans: [], othersFiles: [], maybeOthersFiles: [] });
});

/** A folder that runs share, and a clock that has gone on since. */
function shared() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "watch-")));
  const watch = new Watch(() => folder);
  const file = (/** @type {string} */ name) => join(folder, name);
  const put = (/** @type {string} */ name) => () => writeFileSync(resolve(folder, name), "x");
  const begin = (/** @type {string[]} */ ...runIds) => runIds.forEach((runId) => hear(watch, runId, { phase: "start" }));
  const tool = (/** @type {string} */ runId, /** @type {string} */ name, /** @type {Record<string, unknown>} */ args, /** @type {() => void} */ work, /** @type {Record<string, unknown>} */ result = {}) => {
    const data = { name, toolCallId: `call-${++calls}`, args };
    hear(watch, runId, { ...data, phase: "start" }, "tool");
    work();
    hear(watch, runId, { ...data, phase: "result", ...result }, "tool");
  };
  const write = (/** @type {string} */ runId, /** @type {string} */ path, /** @type {() => void} */ work = put(path)) => tool(runId, "write", { path }, work);
  const shell = (/** @type {string} */ runId, /** @type {string} */ command, /** @type {() => void} */ work, details = {}) =>
    tool(runId, "exec", { command }, work, { result: { details: { status: "completed", cwd: folder, ...details } } });
  const others = (/** @type {string} */ runId) => {
    const live = watch.run(runId);
    const evidence = live && watch.evidence(live);
    const names = (/** @type {string[]} */ paths) => paths.map((path) => relative(folder, path)).sort();
    return { sure: names(evidence?.othersFiles ?? []), maybe: names(evidence?.maybeOthersFiles ?? []) };
  };
  return { watch, file, put, begin, write, shell, others };
}

/** Longer than the clock that stamps files is behind. */
const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30);

test("a file that a command names and that changed meanwhile", () => {
  const { watch, file, put, begin, write, shell } = shared();
  put("old.txt")();
  pause();
  begin("a");
  shell("a", "cat old.txt missing.txt >absolute.md; echo x > 'with space.md'; ls .", () => ["absolute.md", "with space.md", "silent.md"].forEach((name) => put(name)()));
  assert.deepEqual(written(watch, "a").sort(), [file("absolute.md"), file("with space.md")]);

  begin("b");
  shell("b", "make later.md &", () => {}, { status: "running" });
  put("later.md")();
  hear(watch, "b", { phase: "end" });
  assert.deepEqual(written(watch, "b"), [file("later.md")]);
  write("a", "mine.md");
  shell("a", "cat mine.md", () => {});
  assert.deepEqual(written(watch, "a").filter((name) => name.endsWith("mine.md")), ["mine.md"], "a look is no deed");
});

test("a file that two runs wrote is the last one's", () => {
  const { watch, file, put, begin, write, shell } = shared();
  begin("a", "b");
  const same = file("same.md");
  const whose = () => ({ a: written(watch, "a"), b: written(watch, "b") });
  write("a", "same.md");
  assert.deepEqual(whose(), { a: ["same.md"], b: [] });
  pause();
  write("b", same);
  assert.deepEqual(whose(), { a: [], b: [same] });
  pause();
  shell("a", "echo x > same.md", put("same.md"));
  assert.deepEqual(whose(), { a: [same], b: [] });
  pause();
  shell("b", "cat same.md", () => {});
  assert.deepEqual(whose(), { a: [same], b: [] }, "a look is no deed");
  const a = watch.run("a");
  const b = watch.run("b");
  assert.deepEqual([a && watch.evidence(a).doubtful, b && watch.evidence(b).doubtful], [[], [same]]);
});

test("of two runs that were at a file at once, a tool's word is more than a command's, and of two alike nobody knows", () => {
  const { watch, put, begin, write, shell } = shared();
  begin("a", "b");
  const whose = (/** @type {string} */ name) => ["a", "b"].filter((runId) => written(watch, runId).some((path) => path.endsWith(name)));
  shell("a", "sort -o one.md one.md", () => write("b", "one.md"));
  assert.deepEqual(whose("one.md"), ["b"]);
  write("a", "two.md", () => shell("b", "wc two.md", put("two.md")));
  assert.deepEqual(whose("two.md"), ["a"]);
  shell("a", "touch three.md", () => shell("b", "touch three.md", put("three.md")));
  assert.deepEqual(whose("three.md"), []);
  write("a", "four.md", () => write("b", "four.md"));
  assert.deepEqual(whose("four.md"), []);
  // One that has not come back yet may have written it already.
  shell("a", "touch five.md", put("five.md"));
  pause();
  shell("b", "make five.md &", put("five.md"), { status: "running" });
  assert.deepEqual(whose("five.md"), []);
  write("a", "six.md");
  pause();
  put("six.md")();
  assert.deepEqual(whose("six.md"), ["a"], "nobody else names it");
});

test("a file that another run puts into a run's folder, or writes over there, is that other run's", () => {
  const { file, put, begin, write, shell, others } = shared();
  mkdirSync(file("of-a"));
  begin("a", "b");
  write("a", "of-a/mine.md");
  write("a", "of-a/overwritten.md");
  put("of-a/unnamed.md")();
  pause();
  write("b", "of-a/planted.md");
  shell("b", "echo x > of-a/overwritten.md; cat of-a/unnamed.md", put("of-a/overwritten.md"));
  shell("b", "touch -d yesterday of-a/older.md", () => {
    put("of-a/older.md")();
    utimesSync(file("of-a/older.md"), 1, 1);
  });
  symlinkSync(file("of-a"), file("way"));
  write("b", "way/by-link.md");
  assert.deepEqual(others("a").sure, ["of-a/by-link.md", "of-a/older.md", "of-a/overwritten.md", "of-a/planted.md"]);
  assert.deepEqual(others("b").sure, ["of-a/mine.md"]);
  // Other rights make it nobody else's.
  shell("b", "chmod 600 of-a/mine.md", () => chmodSync(file("of-a/mine.md"), 0o600));
  assert.deepEqual(others("a").sure.includes("of-a/mine.md"), false);
  // The run wrote it anew.
  pause();
  write("a", "of-a/planted.md");
  assert.deepEqual(others("a").sure.includes("of-a/planted.md"), false);
});

test("what a run that is over left running may write where its command says", () => {
  const { watch, file, put, begin, write, shell, others } = shared();
  begin("a");
  shell("a", "(sleep 9; echo late > late.md) & cat seen.md", () => {});
  shell("a", "cat after.md && echo 2>&1", () => {});
  hear(watch, "a", { phase: "end" });
  pause();
  begin("b");
  ["late.md", "after.md"].forEach((name) => put(name)());
  assert.deepEqual(others("b"), { sure: [], maybe: ["late.md"] });
  write("b", "late.md");
  assert.deepEqual([others("b").maybe, written(watch, "b")], [[], ["late.md"]], "a tool's own word");
  shell("b", "echo > seen.md", put("seen.md"));
  assert.deepEqual(written(watch, "b"), ["late.md", file("seen.md")], "who names it has more to say than who may have written it");
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
