// The gateway's session entries, and which of them has which app thread.

import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";

import { PLUGIN_ID, agentOf, normalKey } from "./keys.js";
import { mappingOf, withHeld } from "./mapping.js";
import { RUNS, noted, runsOf, stored } from "./runs.js";
import { object, text } from "./read.js";

/** To look at every entry takes long where there are many. */
const LOOK_AGAIN_MS = 60_000;
/** How many runs it is remembered of whose they are. */
const OWNED = 20_000;

export class Sessions {
  /** @type {Map<string, string>} app threads that were seen, each with its session */
  #seen = new Map();
  /** When all entries were looked at. */
  #looked = 0;
  /** @type {Map<string, string>} runs that have begun, each with its session; the oldest go first */
  #owners = new Map();
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();

  /**
   * @param {() => import("./host.js").Runtime} runtime
   * @param {import("./kept.js").Kept} kept
   */
  constructor(runtime, kept) {
    this.runtime = runtime;
    this.kept = kept;
  }

  /**
   * One at a time: who looks whether a key is free and then takes it must not be overtaken.
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  alone(work) {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /**
   * @param {string} sessionKey in normal form
   * @returns {import("./host.js").SessionEntry | undefined}
   */
  entry(sessionKey) {
    const entry = this.runtime().agent.session.getSessionEntry({ sessionKey, agentId: agentOf(sessionKey) });
    return entry && this.#whole(sessionKey, entry);
  }

  /**
   * An entry with what the gateway took out of it when it stopped.
   * @param {string} sessionKey in normal form
   * @param {import("./host.js").SessionEntry} entry
   * @returns {import("./host.js").SessionEntry}
   */
  #whole(sessionKey, entry) {
    const values = object(entry.pluginExtensions)[PLUGIN_ID] === undefined ? this.kept.of(sessionKey, entry) : undefined;
    return values ? { ...entry, ...withHeld(entry, values) } : entry;
  }

  /** Gives back to all entries what the gateway took out of them when it stopped. */
  async mend() {
    for (const sessionKey of this.kept.sessions()) {
      const entry = this.entry(sessionKey);
      if (!mappingOf(entry)) {
        await this.kept.drop(sessionKey);
        continue;
      }
      for (const run of runsOf(entry).values()) if (run.status !== "prepared") this.#own(run.runId, sessionKey);
      await this.change(sessionKey, () => undefined);
    }
  }

  /**
   * The session that a run is known to be of.
   * @param {string} runId
   */
  owner(runId) {
    return this.#owners.get(runId);
  }

  /**
   * @param {string} runId
   * @param {string} sessionKey
   */
  #own(runId, sessionKey) {
    if (this.#owners.has(runId)) return;
    this.#owners.set(runId, sessionKey);
    for (const oldest of this.#owners.keys()) {
      if (this.#owners.size <= OWNED) return;
      this.#owners.delete(oldest);
    }
  }

  /**
   * Changes our share of a session's entry. The entry is made when there is none and `make` is set.
   * @param {string} sessionKey in normal form
   * @param {(entry: import("./host.js").SessionEntry) => Record<string, unknown> | undefined} change
   *   our values under their names, or nothing to leave it as it is
   * @param {boolean} [make]
   */
  async change(sessionKey, change, make = false) {
    let changes = false;
    const entry = await this.runtime().agent.session.patchSessionEntry({
      sessionKey,
      agentId: agentOf(sessionKey),
      preserveActivity: true,
      ...(make ? { fallbackEntry: { sessionId: randomUUID(), updatedAt: Date.now() } } : {}),
      update: (entry) => {
        const whole = this.#whole(sessionKey, entry);
        const wanted = change(whole);
        changes = wanted !== undefined || whole !== entry;
        return changes ? withHeld(whole, wanted ?? {}) : null;
      },
    });
    if (entry && changes) await this.kept.keep(sessionKey, entry);
    return entry;
  }

  /**
   * Remembers something about a run, in sessions that an app thread has.
   * @param {string} sessionKey
   * @param {Parameters<typeof noted>[1]} news
   */
  async note(sessionKey, news) {
    if (!mappingOf(this.entry(sessionKey))) return;
    this.#own(news.runId, sessionKey);
    await this.change(sessionKey, (entry) => {
      const runs = runsOf(entry);
      const after = noted(runs, news, new Date());
      return after === runs ? undefined : { [RUNS]: stored(after) };
    });
  }

  /**
   * The session that an app thread has. What is remembered is held against the entry. What is not is
   * looked for in all of them, but not every time: mappings are made here, and only by hand elsewhere.
   * @param {string} appThreadKey
   * @returns {string | undefined}
   */
  find(appThreadKey) {
    const seen = this.#seen.get(appThreadKey) ?? this.kept.session(appThreadKey);
    if (seen !== undefined && mappingOf(this.entry(seen))?.appThreadKey === appThreadKey) return seen;
    this.#seen.delete(appThreadKey);
    if (Date.now() - this.#looked < LOOK_AGAIN_MS) return undefined;
    this.#looked = Date.now();
    for (const agentId of this.agents()) {
      for (const { sessionKey, entry } of this.runtime().agent.session.listSessionEntries({ agentId, readOnly: true })) {
        const mapping = mappingOf(entry);
        if (mapping) this.#seen.set(mapping.appThreadKey, normalKey(sessionKey));
      }
    }
    return this.#seen.get(appThreadKey);
  }

  /**
   * @param {string} appThreadKey
   * @param {string} sessionKey
   */
  remember(appThreadKey, sessionKey) {
    this.#seen.set(appThreadKey, sessionKey);
  }

  /**
   * The agents that the gateway has: those of its settings, or the one that it has without any.
   * @returns {string[]}
   */
  agents() {
    const { list, entries } = object(object(this.runtime().config.current()).agents);
    const listed = Array.isArray(list) ? list.map((agent) => text(object(agent).id)) : [];
    const named = [...Object.keys(object(entries)), ...listed].flatMap((id) => id?.toLowerCase() ?? []);
    return named.length ? [...new Set(named)] : ["main"];
  }

  /**
   * Makes the agent's workspace, as the gateway does before the agent's first run.
   * @param {string} sessionKey
   */
  async makeWorkspace(sessionKey) {
    await mkdir(this.workspace(sessionKey), { recursive: true });
  }

  /**
   * The workspace in the settings of a session's agent.
   * @param {string} sessionKey
   */
  workspace(sessionKey) {
    const { agent, config } = this.runtime();
    return agent.resolveAgentWorkspaceDir(config.current(), agentOf(sessionKey));
  }
}
