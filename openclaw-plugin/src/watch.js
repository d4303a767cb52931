// Hears how every run of the gateway begins and ends, and which files its tools name. The gateway
// registers a plugin several times in one process, so what was heard is shared by all registrations.

import { ended } from "./judge.js";
import { normalKey } from "./keys.js";
import { isTerminal, withoutSecrets } from "./runs.js";
import { object, text } from "./read.js";

/** How many runs that ended stay in memory; the session's entry has them for longer. */
const KEPT = 500;
/** Tools that make files, and the arguments in which they are named. What a shell prints is no evidence. */
const MAKES_FILES = /^(write|edit|apply_patch|create|save|download|image|video|audio|music|tts|browser|canvas|pdf)/i;
const NAMES = ["path", "file_path", "filePath", "filename", "outputPath", "output_path"];
const PATCHED = /^\*\*\* (?:Add|Update) File: (.+)$/gm;
const MOST_NAMES = 512;

/**
 * @typedef {object} Live
 * @property {string} runId
 * @property {string | undefined} sessionKey
 * @property {import("./judge.js").Verdict} verdict
 * @property {number} startedAt
 * @property {boolean} overlapped
 * @property {Set<string>} written
 */

export class Watch {
  /** @type {Map<string, Live>} in the order in which they began */
  #runs = new Map();

  /** @param {string} runId */
  run(runId) {
    return this.#runs.get(runId);
  }

  /**
   * The session of a run that has begun. What was only prepared is nobody's yet.
   * @param {string} runId
   */
  owner(runId) {
    const live = this.#runs.get(runId);
    return live?.verdict.status === "prepared" ? undefined : live?.sessionKey;
  }

  /**
   * The run that a session works on now.
   * @param {string} sessionKey
   */
  active(sessionKey) {
    const key = normalKey(sessionKey);
    return [...this.#runs.values()].findLast((live) => live.sessionKey === key && live.verdict.status === "running");
  }

  /** Runs of any session that are under way. */
  get underWay() {
    return [...this.#runs.values()].filter((live) => live.verdict.status === "running").length;
  }

  /**
   * A run that is about to be asked for. Files that others write from now on could be taken for its
   * own; whether it will ever begin is not known, so it casts no doubt on theirs.
   * @param {string} runId
   * @param {string} sessionKey
   */
  expect(runId, sessionKey) {
    const before = this.#runs.get(runId);
    if (before && (before.verdict.status !== "prepared" || before.sessionKey === sessionKey)) return;
    const live = { ...begun(runId, sessionKey, Date.now()), verdict: { status: /** @type {const} */ ("prepared"), source: "session_prepare" } };
    live.overlapped = this.#others(live).some((other) => other.verdict.status === "running");
    this.#runs.set(runId, live);
    this.#forget();
  }

  /**
   * @param {import("./host.js").AgentEvent} event
   * @returns {Live | undefined} the run, when it ends with this
   */
  hear(event) {
    const data = object(event.data);
    if (event.stream === "tool") this.#named(event, data);
    if (event.stream !== "lifecycle") return undefined;
    const verdict = ended(data);
    const known = this.#runs.get(event.runId)?.verdict.status;
    // One that is called off before it began has an end and no beginning.
    if (data.phase === "start" || (verdict && (known === undefined || known === "prepared"))) this.#begin(event, data);
    const live = this.#runs.get(event.runId);
    if (!live || isTerminal(live.verdict.status)) return undefined;
    if (!verdict) {
      // An attempt ended; it may be the run's end, or be followed by another one.
      const error = text(data.error);
      if (data.phase === "finishing") live.verdict = { ...live.verdict, provisional: true, error: error && withoutSecrets(error) };
      return undefined;
    }
    live.verdict = { ...verdict, startedAt: live.startedAt, endedAt: verdict.endedAt ?? Date.now() };
    this.#forget();
    return live;
  }

  /**
   * @param {import("./host.js").AgentEvent} event
   * @param {Record<string, unknown>} data
   */
  #begin(event, data) {
    const before = this.#runs.get(event.runId);
    const sessionKey = event.sessionKey ? normalKey(event.sessionKey) : before?.sessionKey;
    if (before && before.verdict.status === "running") {
      // Another attempt of the same run.
      before.sessionKey = sessionKey;
      before.verdict = { status: "running", source: "lifecycle", startedAt: before.startedAt };
      return;
    }
    const startedAt = typeof data.startedAt === "number" ? data.startedAt : (event.ts ?? Date.now());
    const live = begun(event.runId, sessionKey, startedAt);
    live.overlapped = before?.verdict.status === "prepared" && before.overlapped;
    for (const other of this.#others(live)) {
      if (other.verdict.status === "running") live.overlapped = true;
      if (!isTerminal(other.verdict.status)) other.overlapped = true;
    }
    this.#runs.delete(event.runId);
    this.#runs.set(event.runId, live);
  }

  /**
   * Runs whose files could be taken for this one's. Those of one session follow each other; all
   * others share the gateway's output folders, whatever their agent.
   * @param {Live} live
   */
  #others(live) {
    const runs = [...this.#runs.values()].filter((other) => other.runId !== live.runId);
    return runs.filter((other) => live.sessionKey === undefined || live.sessionKey !== other.sessionKey);
  }

  /**
   * @param {import("./host.js").AgentEvent} event
   * @param {Record<string, unknown>} data
   */
  #named(event, data) {
    const live = this.#runs.get(event.runId);
    if (!live || !MAKES_FILES.test(text(data.name) ?? "")) return;
    const named = data.phase === "start" ? inArguments(object(data.args)) : inResult(object(data.result).details, 3);
    for (const path of named) if (live.written.size < MOST_NAMES) live.written.add(path);
  }

  #forget() {
    for (const [runId, live] of this.#runs) {
      if (this.#runs.size <= KEPT) return;
      if (live.verdict.status !== "running") this.#runs.delete(runId);
    }
  }
}

/**
 * @param {string} runId
 * @param {string | undefined} sessionKey
 * @param {number} startedAt
 * @returns {Live}
 */
function begun(runId, sessionKey, startedAt) {
  return { runId, sessionKey, startedAt, verdict: { status: "running", source: "lifecycle", startedAt }, overlapped: false, written: new Set() };
}

/**
 * @param {Record<string, unknown>} args
 * @returns {string[]}
 */
function inArguments(args) {
  const named = NAMES.flatMap((name) => text(args[name]) ?? []);
  const patched = [...(text(args.input) ?? "").matchAll(PATCHED)].flatMap((match) => text(match[1]) ?? []);
  return [...named, ...patched];
}

/**
 * Absolute paths in what a tool gave back.
 * @param {unknown} value
 * @param {number} depth
 * @returns {string[]}
 */
function inResult(value, depth) {
  if (typeof value === "string") return /^\/[^\n]{1,4000}$/.test(value) ? [value] : [];
  if (depth === 0 || value === null || typeof value !== "object") return [];
  return Object.values(value).slice(0, 64).flatMap((item) => inResult(item, depth - 1));
}
