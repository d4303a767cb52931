// Hears how every run of the gateway begins and ends, and which files its tools name. The gateway
// registers a plugin several times in one process, so what was heard is shared by all registrations.

import { lstatSync } from "node:fs";
import { resolve } from "node:path";

import { placesIn } from "./command.js";
import { ended } from "./judge.js";
import { normalKey } from "./keys.js";
import { isTerminal, withoutSecrets } from "./runs.js";
import { object, text } from "./read.js";

/** How many runs that ended stay in memory; the session's entry has them for longer. */
const KEPT = 500;
/** Tools that make files, and the arguments in which they are named. */
const MAKES_FILES = /^(write|edit|apply_patch|create|save|download|image|video|audio|music|tts|browser|canvas|pdf)/i;
const NAMES = ["path", "file_path", "filePath", "filename", "outputPath", "output_path"];
const PATCHED = /^\*\*\* (?:Add|Update) File: (.+)$/gm;
const MOST_NAMES = 512;
/** Tools that run a command. What it prints is no evidence; a file that it names and that changed meanwhile is. */
const RUNS_COMMANDS = /^(exec|bash|shell)$/i;
const MAX_COMMAND = 64 * 1024;
const MOST_CALLS = 256;
/** The clock that stamps files is a little behind. */
const LAG_MS = 10;

/**
 * @typedef {object} Live
 * @property {string} runId
 * @property {string | undefined} sessionKey
 * @property {import("./judge.js").Verdict} verdict
 * @property {number} startedAt
 * @property {boolean} overlapped
 * @property {Set<string>} written what its tools wrote, as they name it
 * @property {Set<string>} touched what its commands name and changed: less than the word of a tool that writes
 * @property {Set<string>} failed what its tools were to write and did not
 * @property {Map<string, Call>} calls those without a result
 * @property {boolean} whole nothing of it was missed
 */

/**
 * @typedef {object} Call
 * @property {number} at
 * @property {string[]} names
 * @property {string} [command]
 * @property {string} [workdir] where it was to begin, as the call says
 * @property {string} [folder] where the command begins
 */

export class Watch {
  /** @type {Map<string, Live>} in the order in which they began */
  #runs = new Map();

  /** @param {(sessionKey: string) => string} [workspace] of a session's agent */
  constructor(workspace = () => "/") {
    this.workspace = workspace;
  }

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
   * Whether every tool call of a session's run that is over was heard.
   * @param {string} runId
   * @param {string} sessionKey in normal form
   */
  isWhole(runId, sessionKey) {
    const live = this.#runs.get(runId);
    const over = live?.sessionKey === sessionKey && isTerminal(live.verdict.status);
    return over && live.whole && [live.written, live.touched, live.failed].every((names) => names.size < MOST_NAMES);
  }

  /** The gateway loads the plugin anew, and tells nobody what happens meanwhile. */
  interrupted() {
    for (const live of this.#runs.values()) if (!isTerminal(live.verdict.status)) live.whole = false;
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
    if (event.stream === "tool") this.#called(event, data);
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
    // Commands that went on beside it.
    for (const call of live.calls.values()) if (call.folder) this.#ran(live, call);
    live.calls.clear();
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
    live.whole = data.phase === "start";
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
   * A call of a tool is evidence when its result says that it was done, and not before.
   * @param {import("./host.js").AgentEvent} event
   * @param {Record<string, unknown>} data
   */
  #called(event, data) {
    const live = this.#runs.get(event.runId);
    const name = text(data.name) ?? "";
    const runs = RUNS_COMMANDS.test(name);
    if (!live || !(runs || MAKES_FILES.test(name))) return;
    const id = text(data.toolCallId) ?? name;
    if (data.phase === "start") {
      const args = object(data.args);
      const command = runs ? (text(args.command) ?? text(args.cmd))?.slice(0, MAX_COMMAND) : undefined;
      const call = { at: event.ts ?? Date.now(), names: runs ? [] : inArguments(args), command, workdir: runs ? text(args.workdir) : undefined };
      if (live.calls.size < MOST_CALLS) live.calls.set(id, call);
      else live.whole = false;
      return;
    }
    if (data.phase !== "result") return;
    /** @type {Call} */
    const call = live.calls.get(id) ?? { at: event.ts ?? Date.now(), names: [] };
    const details = object(object(data.result).details);
    if (runs) {
      call.folder = text(details.cwd) ?? resolve(this.#workspace(live), call.workdir ?? "");
      // It goes on in the background.
      if (details.status === "running") return;
      this.#ran(live, call);
    } else if (data.isError === true) {
      for (const path of call.names) add(live.failed, path);
    } else {
      for (const path of [...call.names, ...inResult(details, 3)]) this.#wrote(live, path);
    }
    live.calls.delete(id);
  }

  /**
   * @param {Live} live
   * @param {string} path
   */
  #wrote(live, path) {
    add(live.written, path);
    const place = resolve(this.#workspace(live), path);
    for (const other of this.#others(live)) other.touched.delete(place);
  }

  /**
   * Files that a command names and that changed while it ran, unless a tool of another run wrote them.
   * @param {Live} live
   * @param {Call} call
   */
  #ran(live, { at, command, folder }) {
    if (!command || !folder) return;
    for (const place of placesIn(command, folder)) {
      const changed = changedAt(place);
      if (changed === undefined || changed < at - LAG_MS) continue;
      const beside = this.#others(live).filter(({ verdict }) => !isTerminal(verdict.status) || (verdict.endedAt ?? at) >= at);
      const theirs = beside.some((other) => [...other.written].some((path) => resolve(this.#workspace(other), path) === place));
      if (!theirs) add(live.touched, place);
    }
  }

  /** @param {Live} live */
  #workspace(live) {
    return live.sessionKey === undefined ? "/" : this.workspace(live.sessionKey);
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
  return { runId, sessionKey, startedAt, verdict: { status: "running", source: "lifecycle", startedAt }, overlapped: false, written: new Set(), touched: new Set(), failed: new Set(), calls: new Map(), whole: true };
}

/**
 * @param {Set<string>} names
 * @param {string} path
 */
function add(names, path) {
  if (names.size < MOST_NAMES) names.add(path);
}

/**
 * When a file was written, or its rights changed.
 * @param {string} path
 * @returns {number | undefined} nothing for what is no file
 */
function changedAt(path) {
  try {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    return stat?.isFile() ? stat.ctimeMs : undefined;
  } catch {
    // A word that is no path, or a folder that may not be read.
    return undefined;
  }
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
