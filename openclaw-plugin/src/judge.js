// How a run stands, decided from what the gateway itself says about it. Nothing here asks anybody.

import { isConfirmed, isTerminal } from "./runs.js";
import { object, text } from "./read.js";

/**
 * @typedef {object} Verdict
 * @property {import("./runs.js").Status} status
 * @property {string} source who says so
 * @property {string} [output]
 * @property {string} [error]
 * @property {string} [code]
 * @property {string} [resumedAs]
 * @property {number} [startedAt]
 * @property {number} [endedAt]
 * @property {boolean} [provisional]
 */

/**
 * @typedef {object} Evidence
 * @property {import("./runs.js").RunRecord} [record] what the session's entry remembers
 * @property {Verdict} [live] what was heard of the run in this process
 * @property {Record<string, unknown>} [wait] the gateway's answer to `agent.wait`
 * @property {Record<string, unknown>} [native] the gateway's task record
 * @property {Past} [past] what the transcript says
 * @property {boolean} [sameBoot] whether the record was last touched by this process of the gateway
 * @property {boolean} active whether the gateway works on the session, or may still take it up again
 */

/** What a word of the gateway's task registry means. */
const NATIVE = new Map([
  ["succeeded", "completed"],
  ["completed", "completed"],
  ["failed", "failed"],
  ["timed_out", "failed"],
  ["lost", "failed"],
  ["cancelled", "cancelled"],
  ["canceled", "cancelled"],
]);

/**
 * How the run stands; nothing when the gateway has no record of it.
 * @param {Evidence} evidence
 * @returns {Verdict | undefined}
 */
export function judge({ record, live, wait, native, past, sameBoot, active }) {
  if (record && isConfirmed(record)) return remembered(record);
  if (live && isTerminal(live.status)) return live;
  const told = waited(wait);
  if (told && isTerminal(told.status)) return told;
  const task = tasked(native);
  if (task?.status === "completed") return task;
  // A task or a run that a restart broke off may go on under another name; only the transcript knows.
  const written = past && fromPast(past, active);
  if (written && (isTerminal(written.status) || past?.resumedAs)) return written;
  if (live) return live;
  // A restart ends the task first and takes the run up again later.
  if (task) return isTerminal(task.status) && active ? { status: "running", source: "native_task", startedAt: task.startedAt } : task;
  if (told) return told;
  if (written) return written;
  if (record?.status === "running") return active || sameBoot ? remembered(record) : lost(record);
  return undefined;
}

/**
 * @param {import("./runs.js").RunRecord} record
 * @returns {Verdict}
 */
function remembered(record) {
  const { status, source, output, error, code, resumedAs, provisional } = record;
  const at = (/** @type {string | undefined} */ when) => (when ? Date.parse(when) || undefined : undefined);
  return { status, source, output, error, code, resumedAs, provisional, startedAt: at(record.startedAt), endedAt: at(record.completedAt) };
}

/**
 * @param {{ startedAt?: string }} run
 * @returns {Verdict}
 */
const lost = (run) => ({
  status: "failed",
  source: "gateway_restart",
  code: "RUN_LOST",
  error: "The gateway was restarted while the run was under way, and did not take it up again.",
  startedAt: run.startedAt ? Date.parse(run.startedAt) || undefined : undefined,
});

/**
 * What `agent.wait` told. Its `timeout` means "not known", never "failed".
 * @param {Record<string, unknown> | undefined} wait
 * @returns {Verdict | undefined}
 */
export function waited(wait) {
  if (!wait) return undefined;
  const times = { startedAt: number(wait.startedAt), endedAt: number(wait.endedAt) };
  if (wait.status === "ok") {
    return { status: "completed", source: "agent_wait", output: text(object(wait.terminalReply).text), ...times };
  }
  if (wait.stopReason === "restart") return undefined;
  if (wait.status === "error") {
    const error = text(wait.error) ?? UNSAID;
    return { status: wasAborted(wait) ? "cancelled" : "failed", source: "agent_wait", error, ...times };
  }
  if (wait.status === "timeout" && times.endedAt !== undefined && ranOutOfTime(wait)) {
    return { status: "failed", source: "agent_wait", error: text(wait.error) ?? "The run took too long.", ...times };
  }
  if (wait.status === "pending") return { status: "running", source: "agent_wait" };
  return undefined;
}

/**
 * What the gateway's own task record says. A word that is not known means that it goes on.
 * @param {Record<string, unknown> | undefined} native
 * @returns {Verdict | undefined}
 */
export function tasked(native) {
  if (!native) return undefined;
  const word = text(native.status) ?? "";
  const status = /** @type {import("./runs.js").Status} */ (NATIVE.get(word) ?? "running");
  const summary = text(native.error) ?? text(native.terminalSummary);
  return {
    status,
    source: "native_task",
    startedAt: number(native.startedAt),
    endedAt: number(native.endedAt),
    ...(status === "failed" || status === "cancelled" ? { error: summary ?? `The gateway's record of the run says \`${word}\`.` } : {}),
    ...(word === "lost" ? { code: "RUN_LOST" } : {}),
  };
}

/** Phases in which a run that took too long is over; in the others it only waits. */
const OUT_OF_TIME = ["preflight", "provider", "post_turn"];
const CANCELLED = ["cancelled", "canceled", "aborted", "superseded"];
const STOPPED = ["rpc", "aborted", "superseded"];

/**
 * How a lifecycle event ends its run.
 * @param {Record<string, unknown>} data
 * @returns {Verdict | undefined} nothing when the run goes on
 */
export function ended(data) {
  if (data.phase !== "end" && data.phase !== "error") return undefined;
  // The gateway takes the run up again when it is back.
  if (data.stopReason === "restart") return undefined;
  const times = { startedAt: number(data.startedAt), endedAt: number(data.endedAt) };
  const error = text(data.error) ?? text(data.errorMessage);
  if (ranOutOfTime(data)) return { status: "failed", source: "lifecycle", error: error ?? "The run took too long.", ...times };
  if (wasAborted(data)) return { status: "cancelled", source: "lifecycle", error: error ?? "aborted", ...times };
  if (data.phase === "error") {
    // One that the gateway has not settled may be followed by another attempt.
    if (data.executionSettled !== true && data.fallbackExhaustedFailure !== true) return undefined;
    return { status: "failed", source: "lifecycle", error: error ?? UNSAID, ...times };
  }
  const stuck = data.livenessState === "blocked" || data.livenessState === "abandoned" || data.stopReason === "error";
  if (stuck) return { status: "failed", source: "lifecycle", error: error ?? UNSAID, ...times };
  return { status: "completed", source: "lifecycle", output: text(object(data.terminalReply).text), ...times };
}

const UNSAID = "The run failed, and the gateway did not say why.";

/** @param {Record<string, unknown>} said */
function wasAborted(said) {
  return said.aborted === true || CANCELLED.includes(String(said.status)) || STOPPED.includes(String(said.stopReason));
}

/** @param {Record<string, unknown>} said */
function ranOutOfTime(said) {
  return said.stopReason === "timeout" || said.status === "timed_out" || OUT_OF_TIME.includes(String(said.timeoutPhase));
}

/**
 * What a transcript says about one run.
 * @typedef {object} Past
 * @property {boolean} asked its message is there
 * @property {string} [answer] the text of its last word
 * @property {string} [stop] why the model stopped there
 * @property {string} [failure]
 * @property {string} [resumedAs] the run that went on with it after a restart
 */

/**
 * Reads a run's part of a transcript.
 * @param {unknown[]} messages oldest first
 * @param {string} runId
 * @returns {Past}
 */
export function readPast(messages, runId) {
  /** @type {Past} */
  const past = { asked: false };
  for (const message of messages.map(object)) {
    const marks = object(message.__openclaw);
    const key = text(message.idempotencyKey) ?? text(marks.idempotencyKey) ?? "";
    const own = marks.runId === runId || message.runId === runId;
    if (key === `${runId}:user`) past.asked = true;
    else if (key === `${runId}:terminal-error`) past.failure = said(message) ?? "The run failed.";
    else if (own && message.role === "assistant") {
      past.answer = said(message);
      past.stop = text(message.stopReason);
      if (past.stop === "error") past.failure = text(message.errorMessage) ?? past.answer ?? "The model failed.";
    } else if (past.asked && !past.resumedAs && isRecovery(message) && !isSettled(past)) {
      past.resumedAs = key.replace(/:user$/, "") || undefined;
    } else if (past.asked && message.role === "user" && key.endsWith(":user") && !past.resumedAs) {
      // Another turn begins: what follows is not about this one.
      break;
    }
  }
  return past;
}

/** @param {Record<string, unknown>} message */
function isRecovery(message) {
  return message.role === "user" && object(message.provenance).sourceTool === "main_session_restart_recovery";
}

/** @param {Past} past */
const isSettled = (past) =>
  past.failure !== undefined || (past.stop !== undefined && past.stop !== "toolUse" && past.stop !== "error");

/**
 * @param {Past} past
 * @param {boolean} active
 * @returns {Verdict | undefined}
 */
function fromPast(past, active) {
  if (past.resumedAs) return { status: "running", source: "history", resumedAs: past.resumedAs };
  if (past.stop === "aborted") return { status: "cancelled", source: "history", error: "aborted" };
  // A failed attempt may be followed by another one while the gateway works on it.
  if (past.failure !== undefined && !active) return { status: "failed", source: "history", error: past.failure };
  if (isSettled(past) && past.failure === undefined && !active) return { status: "completed", source: "history", output: past.answer };
  if (past.asked) return active ? { status: "running", source: "history" } : lost({});
  return undefined;
}

/**
 * The text of a message.
 * @param {Record<string, unknown>} message
 * @returns {string | undefined}
 */
export function said(message) {
  if (typeof message.content === "string") return text(message.content);
  if (!Array.isArray(message.content)) return undefined;
  const parts = message.content.map(object).filter((part) => part.type === "text" || part.type === "output_text");
  return text(parts.map((part) => text(part.text) ?? "").join(""));
}

/**
 * @param {unknown} value
 * @returns {number | undefined}
 */
const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);
