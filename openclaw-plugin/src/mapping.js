// Which app thread belongs to which session: one to one, kept in the session's own entry.

import { PLUGIN_ID, normalKey } from "./keys.js";
import { object, text, texts } from "./read.js";
import { conflict } from "./refusal.js";

export const MAPPING = "xworkmate.sessionMapping";

/**
 * @typedef {object} Mapping
 * @property {1} schemaVersion
 * @property {string} appThreadKey
 * @property {string} openclawSessionKey
 * @property {string[]} expectedArtifactDirs
 * @property {string} createdAt
 * @property {string} updatedAt
 * @property {"session_start" | "bridge_prepare"} source
 */

/**
 * What a session entry holds for this plugin under a name.
 * @param {import("./host.js").SessionEntry | undefined} entry
 * @param {string} name
 */
export function held(entry, name) {
  return object(object(entry?.pluginExtensions)[PLUGIN_ID])[name];
}

/**
 * The entry's extensions with our share changed and everything of others as it was. What is
 * undefined goes.
 * @param {import("./host.js").SessionEntry} entry
 * @param {Record<string, unknown>} changes
 */
export function withHeld(entry, changes) {
  const all = object(entry.pluginExtensions);
  const ours = { ...object(all[PLUGIN_ID]), ...changes };
  const kept = Object.entries(ours).filter(([, value]) => value !== undefined);
  return { pluginExtensions: { ...all, [PLUGIN_ID]: Object.fromEntries(kept) } };
}

/**
 * The mapping of an entry. One of another version, or without its keys, counts as none.
 * @param {import("./host.js").SessionEntry | undefined} entry
 * @returns {Mapping | undefined}
 */
export function mappingOf(entry) {
  const raw = object(held(entry, MAPPING));
  const appThreadKey = text(raw.appThreadKey);
  const openclawSessionKey = text(raw.openclawSessionKey);
  if (raw.schemaVersion !== 1 || !appThreadKey || !openclawSessionKey) return undefined;
  const createdAt = text(raw.createdAt) ?? new Date(0).toISOString();
  return {
    schemaVersion: 1,
    appThreadKey,
    openclawSessionKey: normalKey(openclawSessionKey),
    expectedArtifactDirs: texts(raw.expectedArtifactDirs),
    createdAt,
    updatedAt: text(raw.updatedAt) ?? createdAt,
    source: raw.source === "session_start" ? "session_start" : "bridge_prepare",
  };
}

/**
 * Whether a mapping says already what a request asks for.
 * @param {Mapping} own
 * @param {{ appThreadKey: string, openclawSessionKey: string, expectedArtifactDirs: string[] }} wanted
 */
export function isSame(own, wanted) {
  const { appThreadKey, openclawSessionKey, expectedArtifactDirs } = own;
  return (
    appThreadKey === wanted.appThreadKey &&
    openclawSessionKey === wanted.openclawSessionKey &&
    expectedArtifactDirs.length === wanted.expectedArtifactDirs.length &&
    expectedArtifactDirs.every((dir, at) => dir === wanted.expectedArtifactDirs[at])
  );
}

/**
 * The mapping that a request asks for, given what there is. Fails when either key is taken.
 * @param {{ appThreadKey: string, openclawSessionKey: string, expectedArtifactDirs: string[], source: Mapping["source"] }} wanted
 * @param {Mapping | undefined} own what the session's entry says now
 * @param {string | undefined} elsewhere the session that the app thread has now
 * @param {Date} now
 * @returns {Mapping}
 */
export function decide(wanted, own, elsewhere, now) {
  const { appThreadKey, openclawSessionKey, expectedArtifactDirs } = wanted;
  if (own && (own.appThreadKey !== appThreadKey || own.openclawSessionKey !== openclawSessionKey)) {
    throw conflict("The session belongs to another app thread already. Nothing was changed.");
  }
  if (elsewhere !== undefined && elsewhere !== openclawSessionKey) {
    throw conflict("The app thread has another session already. Nothing was changed.");
  }
  const at = now.toISOString();
  return {
    schemaVersion: 1,
    appThreadKey,
    openclawSessionKey,
    expectedArtifactDirs,
    createdAt: own?.createdAt ?? at,
    updatedAt: at,
    source: own?.source ?? wanted.source,
  };
}
