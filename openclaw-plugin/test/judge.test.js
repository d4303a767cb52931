// How runs stand, decided from what the gateway says.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ended, judge, readPast, tasked, waited } from "../src/judge.js";

/** @param {Partial<import("../src/judge.js").Evidence>} evidence */
const status = (evidence) => judge({ active: false, ...evidence })?.status;

test("the words of the task registry", () => {
  for (const [word, means] of [["succeeded", "completed"], ["completed", "completed"], ["failed", "failed"], ["timed_out", "failed"], ["lost", "failed"], ["cancelled", "cancelled"], ["canceled", "cancelled"], ["running", "running"], ["queued", "running"], ["", "running"], ["something new", "running"]]) {
    assert.equal(tasked({ status: word })?.status, means, word);
  }
});

test("no evidence is no record", () => {
  assert.equal(judge({ active: false }), undefined);
  assert.equal(judge({ active: false, wait: { status: "timeout" }, past: { asked: false } }), undefined);
});

test("`agent.wait`: a timeout says nothing, unless the run itself ran out of time", () => {
  assert.equal(waited({ status: "timeout" }), undefined);
  assert.equal(waited({ status: "timeout", timeoutPhase: "gateway_draining", endedAt: 5 }), undefined);
  assert.equal(waited({ status: "timeout", timeoutPhase: "provider", endedAt: 5 })?.status, "failed");
  assert.equal(waited({ status: "pending", timeoutPhase: "queue" })?.status, "running");
  assert.deepEqual(waited({ status: "ok", endedAt: 7, terminalReply: { text: "hi" } }), { status: "completed", source: "agent_wait", output: "hi", startedAt: undefined, endedAt: 7 });
  assert.equal(waited({ status: "error", error: "aborted", stopReason: "rpc" })?.status, "cancelled");
  assert.equal(waited({ status: "error", error: "boom" })?.status, "failed");
});

test("which lifecycle events end a run", () => {
  const means = (/** @type {Record<string, unknown>} */ data) => ended(data)?.status;
  assert.equal(means({ phase: "start" }), undefined);
  assert.equal(means({ phase: "finishing", error: "500" }), undefined);
  assert.equal(means({ phase: "fallback_step" }), undefined);
  assert.equal(means({ phase: "error", error: "500" }), undefined, "not settled: it may be tried again");
  assert.equal(means({ phase: "error", error: "500", executionSettled: true }), "failed");
  assert.equal(means({ phase: "error", error: "500", fallbackExhaustedFailure: true }), "failed");
  assert.equal(means({ phase: "end", stopReason: "stop" }), "completed");
  assert.equal(means({ phase: "end", stopReason: "stop", livenessState: "blocked" }), "failed");
  assert.equal(means({ phase: "end", aborted: true, stopReason: "rpc", status: "cancelled" }), "cancelled");
  assert.equal(means({ phase: "error", aborted: true, stopReason: "aborted", executionSettled: true }), "cancelled");
  assert.equal(means({ phase: "end", aborted: true, stopReason: "timeout" }), "failed");
  assert.equal(means({ phase: "end", aborted: true, stopReason: "restart" }), undefined, "it goes on after the restart");
});

test("the first confirmed end stands", () => {
  const record = /** @type {const} */ ({ schemaVersion: 1, runId: "r", status: "completed", source: "lifecycle", output: "done" });
  assert.equal(status({ record, native: { status: "failed" }, live: { status: "running", source: "lifecycle" } }), "completed");
  const hearsay = { ...record, source: "agent_end" };
  assert.equal(status({ record: hearsay }), undefined, "nobody who can know has said so");
});

test("a run that is heard is as it is heard", () => {
  assert.equal(status({ live: { status: "running", source: "lifecycle" }, past: { asked: true, failure: "500" }, active: true }), "running");
  assert.equal(status({ live: { status: "cancelled", source: "lifecycle" }, native: { status: "succeeded" } }), "cancelled");
});

test("after a restart", () => {
  const record = /** @type {const} */ ({ schemaVersion: 1, runId: "r", status: "running", source: "session_prepare" });
  assert.equal(status({ past: { asked: true }, active: true }), "running", "it will be taken up again");
  const gone = judge({ past: { asked: true }, active: false });
  assert.deepEqual([gone?.status, gone?.code], ["failed", "RUN_LOST"]);
  assert.equal(judge({ record, active: false })?.code, "RUN_LOST");
  assert.equal(status({ record, active: false, sameBoot: true }), "running", "there was no restart");
  assert.equal(judge({ past: { asked: true, resumedAs: "s" }, active: true })?.resumedAs, "s");
  assert.equal(status({ native: { status: "cancelled" }, past: { asked: true }, active: true }), "running", "the task ended, and the run goes on");
  assert.equal(judge({ native: { status: "cancelled" }, past: { asked: true, resumedAs: "s" }, active: true })?.resumedAs, "s");
  assert.equal(status({ past: { asked: true, stop: "stop", answer: "ok" } }), "completed");
  assert.equal(status({ past: { asked: true, failure: "400" } }), "failed");
  assert.equal(status({ past: { asked: true, stop: "aborted" } }), "cancelled");
});

/** @param {string} runId */
const asks = (runId) => ({ role: "user", content: "do", idempotencyKey: `${runId}:user` });
/**
 * @param {string} runId
 * @param {string} text
 * @param {string} [stopReason]
 */
const says = (runId, text, stopReason = "stop") => ({ role: "assistant", content: [{ type: "text", text }], stopReason, __openclaw: { runId } });
/** @param {string} runId */
const resumes = (runId) => ({ role: "user", content: "[System] …", idempotencyKey: `${runId}:user`, provenance: { sourceTool: "main_session_restart_recovery" } });

test("a transcript is read for one run", () => {
  const messages = [asks("a"), says("a", "words of a"), asks("b"), says("b", "", "toolUse"), says("b", "words of b"), asks("c")];
  assert.deepEqual(readPast(messages, "a"), { asked: true, answer: "words of a", stop: "stop" });
  assert.deepEqual(readPast(messages, "b"), { asked: true, answer: "words of b", stop: "stop" });
  assert.deepEqual(readPast(messages, "c"), { asked: true });
  assert.deepEqual(readPast(messages, "d"), { asked: false });
});

test("a transcript tells who took a run up again", () => {
  assert.equal(readPast([asks("a"), says("a", "", "toolUse"), resumes("a2"), says("a2", "done")], "a").resumedAs, "a2");
  assert.equal(readPast([asks("a"), says("a", "done"), asks("b"), resumes("b2")], "a").resumedAs, undefined, "it was done before");
  assert.equal(readPast([asks("a"), asks("b"), resumes("b2")], "a").resumedAs, undefined, "another turn's");
  assert.equal(readPast([asks("a"), { role: "user", content: "[System] sorry", idempotencyKey: "x:user" }], "a").resumedAs, undefined, "words alone prove nothing");
});

test("a transcript tells of failures", () => {
  const failed = { role: "assistant", content: "the gateway's words", idempotencyKey: "a:terminal-error" };
  assert.equal(readPast([asks("a"), failed], "a").failure, "the gateway's words");
  assert.equal(readPast([asks("a"), { ...says("a", "", "error"), errorMessage: "400" }], "a").failure, "400");
});
