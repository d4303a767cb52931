// A copy of what session entries hold for this plugin. When the gateway stops in an orderly way it takes
// that out of every entry, as if the plugin had been switched off for good; the copy outlives it.

import { createHash, randomUUID } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { PLUGIN_ID } from "./keys.js";
import { MAPPING } from "./mapping.js";
import { object, text } from "./read.js";

/** @typedef {{ version: 1, sessionKey: string, sessionId?: string, lifecycleRevision?: unknown, values: Record<string, unknown> }} Copy */

export class Kept {
  /** @type {Map<string, string> | undefined} app threads, each with the session that has its mapping */
  #sessions;
  /** @type {Promise<void>} one file after the other, so that the newest copy stays */
  #turn = Promise.resolve();

  /**
   * @param {() => string} folder
   * @param {import("./host.js").Logger} log
   */
  constructor(folder, log) {
    this.folder = folder;
    this.log = log;
  }

  /**
   * What an entry held before the gateway took it out. A session that was reset since is another one.
   * @param {string} sessionKey in normal form
   * @param {import("./host.js").SessionEntry} entry
   */
  of(sessionKey, entry) {
    const copy = read(this.#file(sessionKey));
    const same = copy?.sessionKey === sessionKey && copy.sessionId === entry.sessionId && copy.lifecycleRevision === entry.lifecycleRevision;
    return same ? copy.values : undefined;
  }

  /**
   * The session that an app thread had.
   * @param {string} appThreadKey
   */
  session(appThreadKey) {
    return this.#all().get(appThreadKey);
  }

  /** Every session of which there is a copy. */
  sessions() {
    return new Set(this.#all().values());
  }

  /**
   * @param {string} sessionKey in normal form
   * @param {import("./host.js").SessionEntry} entry
   */
  async keep(sessionKey, entry) {
    const values = object(object(entry.pluginExtensions)[PLUGIN_ID]);
    const app = text(object(values[MAPPING]).appThreadKey);
    if (app === undefined) return this.drop(sessionKey);
    this.#all().set(app, sessionKey);
    /** @type {Copy} */
    const copy = { version: 1, sessionKey, sessionId: entry.sessionId, lifecycleRevision: entry.lifecycleRevision, values };
    return this.#next(async () => {
      await mkdir(this.folder(), { recursive: true, mode: 0o700 });
      const fresh = join(this.folder(), `${randomUUID()}.new`);
      await writeFile(fresh, JSON.stringify(copy), { mode: 0o600 });
      await rename(fresh, this.#file(sessionKey));
    });
  }

  /** @param {string} sessionKey in normal form */
  drop(sessionKey) {
    for (const [app, session] of this.#all()) if (session === sessionKey) this.#all().delete(app);
    return this.#next(() => rm(this.#file(sessionKey), { force: true }));
  }

  /**
   * The entry itself is what counts, so a copy that cannot be written is no reason to refuse anything.
   * @param {() => Promise<void>} work
   */
  #next(work) {
    this.#turn = this.#turn.then(work).catch((error) => this.log.warn(`no copy of a session's mapping could be kept: ${error.message}`));
    return this.#turn;
  }

  #all() {
    if (this.#sessions) return this.#sessions;
    this.#sessions = new Map();
    for (const name of names(this.folder())) {
      const copy = read(join(this.folder(), name));
      const app = text(object(copy?.values[MAPPING]).appThreadKey);
      if (copy && app) this.#sessions.set(app, copy.sessionKey);
    }
    return this.#sessions;
  }

  /** @param {string} sessionKey */
  #file(sessionKey) {
    return join(this.folder(), `${createHash("sha256").update(sessionKey).digest("hex")}.json`);
  }
}

/**
 * @param {string} folder
 * @returns {string[]}
 */
function names(folder) {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(".json"));
  } catch {
    // Nothing was kept yet.
    return [];
  }
}

/**
 * @param {string} file
 * @returns {Copy | undefined} nothing when there is none, or it is damaged
 */
function read(file) {
  try {
    const copy = object(JSON.parse(readFileSync(file, "utf8")));
    return copy.version === 1 ? /** @type {Copy} */ ({ ...copy, values: object(copy.values) }) : undefined;
  } catch {
    return undefined;
  }
}
