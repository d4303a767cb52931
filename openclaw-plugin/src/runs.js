// What a session's entry remembers of its runs: enough to answer for them after the gateway forgot.

import { held } from "./mapping.js";
import { object, text, texts } from "./read.js";

export const RUNS = "xworkmate.taskRuns";

const KEPT_ENDED = 32;
const KEPT_OPEN = 64;
const MAX_OUTPUT = 16 * 1024;
const MAX_ERROR = 2048;
const MAX_WRITTEN = 512;
const MAX_SPANS = 256;
const FILE_LISTS = /** @type {const} */ (["writtenFiles", "failedFiles", "doubtfulFiles", "othersFiles", "maybeOthersFiles"]);

/**
 * Who said that a run ended. Only these are believed. The hook `agent_end` is not among them: the
 * gateway fires it once for every attempt, and calls failed ones a success.
 */
const CONFIRMING = ["lifecycle", "agent_wait", "native_task", "history", "gateway_restart"];

/** @typedef {"prepared" | "running" | "completed" | "failed" | "cancelled"} Status */

/**
 * @typedef {object} RunRecord
 * @property {1} schemaVersion
 * @property {string} runId
 * @property {Status} status
 * @property {string} source who said so
 * @property {string} [boot] the gateway process under which it was last seen
 * @property {string} [preparedAt]
 * @property {string} [startedAt]
 * @property {string} [updatedAt]
 * @property {string} [completedAt]
 * @property {string} [output]
 * @property {string} [error]
 * @property {string} [code]
 * @property {string} [resumedAs] the run under which the gateway went on after a restart
 * @property {string} [resumes] the run that this one goes on with
 * @property {string[]} [writtenFiles] what the run's own tool calls named and wrote
 * @property {string[]} [failedFiles] what they named and did not write
 * @property {string[]} [doubtfulFiles] what they named and wrote, and another run too
 * @property {import("./commands.js").Span[]} [commandSpans] when a command of it was running, and none of another run
 * @property {string[]} [othersFiles] what other runs named and wrote meanwhile
 * @property {string[]} [maybeOthersFiles] what they may have written meanwhile
 * @property {boolean} [provisional] an attempt ended, and perhaps the run
 */

/** @param {Status} status */
export const isTerminal = (status) => status === "completed" || status === "failed" || status === "cancelled";

/**
 * Whether a record holds an end that the gateway itself told.
 * @param {RunRecord | undefined} record
 */
export const isConfirmed = (record) =>
  record !== undefined && isTerminal(record.status) && CONFIRMING.includes(record.source);

/**
 * The runs of an entry. Ends that an earlier plugin took from `agent_end` are not believed.
 * @param {import("./host.js").SessionEntry | undefined} entry
 * @returns {Map<string, RunRecord>}
 */
export function runsOf(entry) {
  /** @type {Map<string, RunRecord>} */
  const runs = new Map();
  for (const [runId, value] of Object.entries(object(object(held(entry, RUNS)).runs))) {
    const raw = object(value);
    const record = /** @type {RunRecord} */ ({ ...raw, schemaVersion: 1, runId, source: text(raw.source) ?? "unknown" });
    if (!isTerminal(record.status) || isConfirmed(record)) runs.set(runId, record);
    else runs.set(runId, { ...record, status: "running", provisional: true, output: undefined });
  }
  return runs;
}

/**
 * How runs are written into an entry: all that are open, and the newest of the others.
 * @param {Map<string, RunRecord>} runs
 */
export function stored(runs) {
  const newestFirst = [...runs.values()].sort((a, b) => (b.updatedAt ?? "").localeCompare(a.updatedAt ?? ""));
  const ended = newestFirst.filter((run) => isTerminal(run.status)).slice(0, KEPT_ENDED);
  const open = newestFirst.filter((run) => !isTerminal(run.status)).slice(0, KEPT_OPEN);
  const kept = [...open, ...ended].map((run) => [run.runId, run]);
  return { schemaVersion: 1, runs: Object.fromEntries(kept) };
}

/**
 * Puts news into the record of a run. The first confirmed end stands.
 * @param {Map<string, RunRecord>} runs
 * @param {Partial<RunRecord> & { runId: string, status: Status, source: string }} news
 * @param {Date} now
 * @returns {Map<string, RunRecord>} the runs, or the very same map when nothing changed
 */
export function noted(runs, news, now) {
  const before = runs.get(news.runId);
  if (isConfirmed(before)) return runs;
  // A run that goes on is not prepared again, only its folder is.
  const status = news.status === "prepared" && before?.status === "running" ? "running" : news.status;
  /** @type {RunRecord} */
  const after = {
    ...before,
    ...news,
    schemaVersion: 1,
    status,
    updatedAt: now.toISOString(),
    ...(isTerminal(status) ? { completedAt: news.completedAt ?? now.toISOString(), provisional: undefined } : {}),
  };
  if (after.output !== undefined) after.output = after.output.slice(0, MAX_OUTPUT);
  if (after.error !== undefined) after.error = withoutSecrets(after.error).slice(0, MAX_ERROR);
  for (const list of FILE_LISTS) if (after[list] !== undefined) after[list] = texts(after[list]).slice(0, MAX_WRITTEN);
  if (after.commandSpans !== undefined) after.commandSpans = after.commandSpans.slice(-MAX_SPANS);
  return new Map([...runs, [news.runId, after]]);
}

/**
 * An error as it may be stored and shown: providers like to repeat the key they refuse.
 * @param {string} message
 */
export function withoutSecrets(message) {
  return message
    .replace(/\b(sk|nvapi|ghp|gho|xox[a-z]|AIza)[-_][\w-]{6,}/g, "$1-…")
    .replace(/\b(AIza)[\w-]{20,}/g, "$1…")
    .replace(/\b(AKIA|ASIA)[\w-]{12,}/g, "$1…")
    .replace(/\b(eyJ)[\w-]{5,}\.[\w-]{5,}\.[\w-]*/g, "$1…")
    .replace(/(:\/\/[^\s/?#"'<>:@]*:)[^\s/?#"'<>]+(?=@)/g, "$1…")
    .replace(/([?&]key=)[^\s"'&#),]+/gi, "$1…")
    .replace(/\b(bearer)\s+[\w.~+/=-]{8,}/gi, "$1 …")
    .replace(/\b(api[-_ ]?key|access[-_ ]?token|token|secret|password)("?\s*[=:]\s*"?)[^\s"',;&]+/gi, "$1$2…");
}
