// Hears how every run of the gateway begins and ends, and which files its tools name. The gateway
// registers a plugin several times in one process, so what was heard is shared by all registrations.

import { lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { leavesBehind, placesIn } from "./command.js";
import { Commands } from "./commands.js";
import { isAnothers, LAG_MS } from "./deeds.js";
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
/** Tools that write the files that they are told to write, and no others. */
const WRITES_WHAT_IT_NAMES = /^(write|edit|apply_patch)/i;
const MAX_COMMAND = 64 * 1024;
const MOST_CALLS = 256;

/**
 * @typedef {object} Live
 * @property {string} runId
 * @property {string | undefined} sessionKey
 * @property {import("./judge.js").Verdict} verdict
 * @property {number} startedAt
 * @property {number} knownSince
 * @property {Map<string, import("./deeds.js").Deed>} deeds what it wrote last at each place
 * @property {Map<string, number>} leftBehind places that processes may write to which its commands left running, and since when
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

/**
 * @typedef {object} Testimony
 * @property {string[]} written what its tools named and wrote
 * @property {string[]} failed what they named and did not write
 * @property {string[]} doubtful what they named and wrote, and what another run wrote as it is now: delivered to neither without
 *   proof, and told, because this run speaks of it
 * @property {import("./commands.js").Span[]} commandSpans when a command of it was running, and none of another run
 * @property {string[]} othersFiles what other runs named and wrote since it is known
 * @property {string[]} maybeOthersFiles what they may have written: a call that has not come back, or a process that a command left
 *   running, names it
 */

export class Watch {
  /** @type {Map<string, Live>} in the order in which they began */
  #runs = new Map();
  #commands = new Commands();

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
    return over && live.whole && live.deeds.size < MOST_NAMES && live.failed.size < MOST_NAMES;
  }

  /** The gateway loads the plugin anew, and tells nobody what happens meanwhile. */
  interrupted() {
    for (const live of this.#runs.values()) {
      if (isTerminal(live.verdict.status)) continue;
      live.whole = false;
      if (live.verdict.status === "running") this.#commands.missed(live.runId, Date.now());
    }
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
   * A run that is about to be asked for. Files that others put into its folder from now on could be taken
   * for its own.
   * @param {string} runId
   * @param {string} sessionKey
   */
  expect(runId, sessionKey) {
    const before = this.#runs.get(runId);
    if (before && (before.verdict.status !== "prepared" || before.sessionKey === sessionKey)) return;
    const live = { ...begun(runId, sessionKey, Date.now()), verdict: { status: /** @type {const} */ ("prepared"), source: "session_prepare" } };
    this.#runs.set(runId, live);
    this.#forget();
  }

  /**
   * @param {import("./host.js").AgentEvent} event
   * @returns {Live | undefined} the run, when it ends with this
   */
  hear(event) {
    const data = object(event.data);
    this.#commands.reap(event.ts ?? Date.now());
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
    this.#commands.over(live.runId, event.ts ?? Date.now());
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
    if (before?.verdict.status === "prepared") live.knownSince = Math.min(before.knownSince, startedAt);
    live.whole = data.phase === "start";
    this.#runs.delete(event.runId);
    this.#runs.set(event.runId, live);
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
    if (!runs && !MAKES_FILES.test(name)) return;
    const id = text(data.toolCallId) ?? name;
    // Also of a run whose beginning was missed: what another one writes meanwhile is not surely its own.
    if (!WRITES_WHAT_IT_NAMES.test(name)) this.#commands.hear(event, id, data);
    if (!live) return;
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
      const deed = { from: call.at, until: event.ts ?? Date.now(), sure: true };
      for (const name of [...call.names, ...inResult(details, 3)]) note(live, resolve(this.#workspace(live), name), { ...deed, name });
    }
    live.calls.delete(id);
  }

  /**
   * Files that a command names and that changed while it ran.
   * @param {Live} live
   * @param {Call} call
   */
  #ran(live, { at, command, folder }) {
    if (!command || !folder) return;
    const stays = leavesBehind(command);
    for (const place of placesIn(command, folder)) {
      if (stays && live.leftBehind.size < MOST_NAMES) live.leftBehind.set(place, at);
      const { changed, written } = timesOf(place) ?? {};
      if (changed === undefined || written === undefined || changed < at - LAG_MS) continue;
      const before = live.deeds.get(place);
      // It was there already as the run's own tool wrote it.
      if (before?.sure && written <= before.until + LAG_MS) continue;
      note(live, place, { name: place, from: at, until: Date.now(), sure: false });
    }
  }

  /**
   * What speaks for files being a run's, and what speaks against it: its tools did not write them, or
   * another run was at them later.
   * @param {Live} live
   * @returns {Testimony}
   */
  evidence(live) {
    /** @type {string[]} */
    const written = [];
    const failed = [...live.failed];
    /** @type {string[]} */
    const doubtful = [];
    const others = [...this.#runs.values()].filter((other) => other !== live);
    for (const [place, deed] of live.deeds) {
      (this.#isAnothers(live, others, place) ? doubtful : written).push(deed.name);
    }
    const commandSpans = this.#commands.spans(live.runId, Date.now());
    return { written, failed, doubtful, commandSpans, ...this.#othersFiles(live, others) };
  }

  /**
   * @param {Live} live
   * @param {Live[]} others
   * @param {string} place
   * @param {(other: Live) => import("./deeds.js").Theirs | import("./deeds.js").Theirs[]} [deeds] of another run at the place: all, if not said
   */
  #isAnothers(live, others, place, deeds = (other) => this.#deedsAt(other, place)) {
    const times = timesOf(place);
    return times !== undefined && isAnothers(times, live.deeds.get(place), others.flatMap(deeds));
  }

  /**
   * Files that other runs named since a run is known, and that are theirs, or may be, as they are now.
   * @param {Live} live
   * @param {Live[]} others
   * @returns {Pick<Testimony, "othersFiles" | "maybeOthersFiles">} absolute paths without links
   */
  #othersFiles(live, others) {
    /** @type {Set<string>} */
    const places = new Set();
    for (const other of others) {
      for (const [place, deed] of other.deeds) if (deed.until >= live.knownSince - LAG_MS) places.add(place);
      for (const place of other.leftBehind.keys()) places.add(place);
      for (const call of other.calls.values()) for (const place of this.#placesOf(other, call)) places.add(place);
    }
    const theirs = [...places].filter((place) => this.#isAnothers(live, others, place));
    const isSure = (/** @type {string} */ place) => this.#isAnothers(live, others, place, (other) => other.deeds.get(place) ?? []);
    return { othersFiles: theirs.filter(isSure).map(withoutLinks), maybeOthersFiles: theirs.filter((place) => !isSure(place)).map(withoutLinks) };
  }

  /**
   * What a run did at a place, or may be doing now.
   * @param {Live} live
   * @param {string} place
   * @returns {import("./deeds.js").Theirs[]}
   */
  #deedsAt(live, place) {
    const done = live.deeds.get(place);
    const stays = live.leftBehind.get(place);
    const open = [...live.calls.values()].filter((call) => this.#placesOf(live, call).includes(place));
    return [
      ...(done ? [done] : []),
      ...(stays !== undefined ? [{ from: stays, until: Infinity, sure: false, leftBehind: true }] : []),
      ...open.map(({ at, command }) => ({ from: at, until: Infinity, sure: command === undefined })),
    ];
  }

  /**
   * @param {Live} live
   * @param {Call} call
   */
  #placesOf(live, { names, command, folder, workdir }) {
    const workspace = this.#workspace(live);
    return command === undefined ? names.map((name) => resolve(workspace, name)) : placesIn(command, folder ?? resolve(workspace, workdir ?? ""));
  }

  /** @param {Live} live */
  #workspace(live) {
    return live.sessionKey === undefined ? "/" : this.workspace(live.sessionKey);
  }

  #forget() {
    for (const [runId, live] of this.#runs) {
      if (this.#runs.size <= KEPT) return;
      if (live.verdict.status === "running") continue;
      this.#runs.delete(runId);
      this.#commands.forget(runId);
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
  return { runId, sessionKey, startedAt, verdict: { status: "running", source: "lifecycle", startedAt }, knownSince: startedAt, deeds: new Map(), leftBehind: new Map(), failed: new Set(), calls: new Map(), whole: true };
}

/**
 * @param {Live} live
 * @param {string} place
 * @param {import("./deeds.js").Deed} deed
 */
function note({ deeds }, place, deed) {
  if (deeds.size < MOST_NAMES || deeds.has(place)) deeds.set(place, deed);
}

/**
 * @param {Set<string>} names
 * @param {string} path
 */
function add(names, path) {
  if (names.size < MOST_NAMES) names.add(path);
}

/**
 * When a file was last written to, and when it, its name or its rights changed.
 * @param {string} path
 * @returns {{ written: number, changed: number } | undefined} nothing for what is no file
 */
function timesOf(path) {
  try {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    return stat?.isFile() ? { written: stat.mtimeMs, changed: stat.ctimeMs } : undefined;
  } catch {
    // A word that is no path, or a folder that may not be read.
    return undefined;
  }
}

/**
 * The place itself, where links lead to its folder.
 * @param {string} place
 */
function withoutLinks(place) {
  try {
    return join(realpathSync(dirname(place)), basename(place));
  } catch {
    return place;
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
