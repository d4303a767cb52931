// When a command of one run was running and none of another: what changed on the disk then is that run's,
// whether anybody names it or not.

import { readFileSync } from "node:fs";

import { LAG_MS } from "./deeds.js";
import { object } from "./read.js";

/** Spans of a run that are remembered, the latest of them. */
const MOST_SPANS = 4096;

/**
 * @typedef {object} Span
 * @property {number} sinceUnixMs
 * @property {number} untilUnixMs
 *
 * @typedef {object} Running a command that has not ended
 * @property {string} runId
 * @property {number} [pid] of one that goes on in the background
 * @property {string} [born] tells the process from a later one of the same number
 */

export class Commands {
  /** @type {Map<string, Running>} by run and call */
  #running = new Map();
  /** Runs under way of which not everything was heard: they may run commands that nobody knows of. @type {Set<string>} */
  #missed = new Set();
  /** @type {Map<string, Span[]>} by run */
  #spans = new Map();
  /** When each run was last at work that is not now. @type {Map<string, number>} */
  #left = new Map();
  /** The run that alone has commands, and since when. @type {{ runId: string, since: number } | undefined} */
  #alone;

  /**
   * A call of a tool that executes something, or what came of it.
   * @param {import("./host.js").AgentEvent} event
   * @param {string} id of the call
   * @param {Record<string, unknown>} data
   */
  hear({ runId, ts }, id, data) {
    const at = ts ?? Date.now();
    const key = JSON.stringify([runId, id]);
    if (data.phase === "start") this.#change(at, () => this.#running.set(key, { runId }));
    if (data.phase !== "result") return;
    const details = object(object(data.result).details);
    // It goes on in the background. Where that cannot be seen, it is taken to end with its run.
    if (details.status !== "running") this.#change(at, () => this.#running.delete(key));
    else if (typeof details.pid === "number") this.#running.set(key, { runId, pid: details.pid, born: born(details.pid) });
  }

  /**
   * Part of a run that is under way was not heard.
   * @param {string} runId
   * @param {number} at
   */
  missed(runId, at) {
    this.#change(at, () => this.#missed.add(runId));
  }

  /**
   * A run is over, and its commands with it, but for those in the background.
   * @param {string} runId
   * @param {number} at
   */
  over(runId, at) {
    this.#change(at, () => {
      this.#missed.delete(runId);
      for (const [key, command] of this.#running) if (command.runId === runId && !isAlive(command)) this.#running.delete(key);
    });
  }

  /**
   * Lets go of commands in the background that have ended since.
   * @param {number} at
   */
  reap(at) {
    const dead = [...this.#running].filter(([, command]) => command.pid !== undefined && !isAlive(command));
    if (dead.length) this.#change(at, () => dead.forEach(([key]) => this.#running.delete(key)));
  }

  /**
   * When this run alone had commands, in order.
   * @param {string} runId
   * @param {number} now
   * @returns {Span[]}
   */
  spans(runId, now) {
    this.reap(now);
    const past = this.#spans.get(runId) ?? [];
    return this.#alone?.runId === runId ? [...past, { sinceUnixMs: this.#alone.since, untilUnixMs: now }] : [...past];
  }

  /** @param {string} runId */
  forget(runId) {
    this.#spans.delete(runId);
    this.#left.delete(runId);
  }

  /**
   * Changes what is running, and closes or opens a span where that changes who is alone. A file that was
   * written just after another run's command began may look as if it had been just before; so may one
   * that was written as soon as the own one began. Where both may have written it, it is in neither's span.
   * @param {number} at
   * @param {() => void} work
   */
  #change(at, work) {
    const before = this.#at();
    work();
    const after = this.#at();
    for (const runId of before.all) if (!after.all.has(runId)) this.#left.set(runId, at);
    if (before.alone !== after.alone) {
      if (this.#alone) {
        const { runId, since } = this.#alone;
        const until = after.all.size === 0 ? at : at - LAG_MS;
        const spans = this.#spans.get(runId) ?? [];
        if (until > since) this.#spans.set(runId, [...spans, { sinceUnixMs: since, untilUnixMs: until }].slice(-MOST_SPANS));
      }
      this.#alone = after.alone === undefined ? undefined : { runId: after.alone, since: before.all.size === 0 ? this.#sinceFor(after.alone, at) : at };
    }
    for (const runId of after.all) if (!before.all.has(runId)) this.#cutOthers(runId, at);
  }

  /**
   * Since when what is written may be the work of a run that began when nobody was at work: not before others
   * stopped, and what it did itself until then is in its last span.
   * @param {string} runId
   * @param {number} at
   */
  #sinceFor(runId, at) {
    const others = [...this.#left].filter(([other]) => other !== runId).map(([, left]) => left + 1);
    return Math.max(at - LAG_MS, this.#spans.get(runId)?.at(-1)?.untilUnixMs ?? 0, ...others);
  }

  /**
   * A run began: what looks as if it had been written as long before as the clock lags may be its own.
   * @param {string} runId
   * @param {number} at
   */
  #cutOthers(runId, at) {
    const most = at - LAG_MS;
    for (const [other, spans] of this.#spans) {
      const last = spans.at(-1);
      if (other === runId || !last || last.untilUnixMs <= most) continue;
      const cut = spans.map((span) => ({ ...span, untilUnixMs: Math.min(span.untilUnixMs, most) }));
      this.#spans.set(other, cut.filter((span) => span.untilUnixMs > span.sinceUnixMs));
    }
  }

  /** Who is at work now, or may be, and which run alone has commands. */
  #at() {
    const busy = new Set([...this.#running.values()].map((command) => command.runId));
    const all = new Set([...busy, ...this.#missed]);
    return { all, alone: all.size === 1 ? [...busy][0] : undefined };
  }
}

/** @param {Running} command */
const isAlive = ({ pid, born: before }) => pid !== undefined && before !== undefined && born(pid) === before;

/**
 * When a process was started, in the system's own words.
 * @param {number} pid
 * @returns {string | undefined} nothing if there is none
 */
function born(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name may hold anything; the 20th word behind it is the time.
    const [state, ...words] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? undefined : words[18];
  } catch {
    return isThere(pid) ? "there" : undefined;
  }
}

/**
 * For systems that tell nothing more of a process.
 * @param {number} pid
 */
function isThere(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
}
