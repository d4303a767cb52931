// The six methods of the gateway that this plugin answers.

import { agentOf, appKey, mappableKey, normalKey } from "./keys.js";
import { MAPPING, decide, held, mappingOf } from "./mapping.js";
import { RUNS, noted, runsOf, stored } from "./runs.js";
import { getTask } from "./tasks.js";
import { conflict, invalid } from "./refusal.js";
import { object, text, texts } from "./read.js";

export const PREPARE = "xworkmate.session.prepare";
export const COLLECT = "xworkmate.artifacts.collect-and-snapshot";
export const EXPORT = "xworkmate.artifacts.export";
export const LIST = "xworkmate.artifacts.list";
export const READ = "xworkmate.artifacts.read";
export const TASK = "xworkmate.tasks.get";
/** Where whole files are handed over by HTTP. */
export const ROUTE = "/plugins/openclaw-multi-session-plugins/artifact";

/**
 * What the methods work with.
 * @typedef {object} Parts
 * @property {() => import("./host.js").Runtime} runtime
 * @property {import("./host.js").Logger} log
 * @property {import("./sessions.js").Sessions} sessions
 * @property {import("./watch.js").Watch} watch
 * @property {(method: string, params: Record<string, unknown>, signal?: AbortSignal) => Promise<any>} files asks the sidecar
 * @property {() => Promise<Record<string, unknown>>} about what somebody who looks after the gateway wants to know
 * @property {string} boot this process of the gateway
 * @property {number} bootedAt
 */

/**
 * @typedef {(parts: Parts, params: Record<string, unknown>, request: { signal?: AbortSignal, context?: unknown }) => Promise<unknown>} Method
 * @type {{ name: string, scope: "operator.read" | "operator.write", answer: Method }[]}
 */
export const METHODS = [
  { name: PREPARE, scope: "operator.write", answer: (parts, params, { signal }) => prepare(parts, params, "bridge_prepare", signal) },
  { name: COLLECT, scope: "operator.write", answer: (parts, params, { signal }) => parts.files(COLLECT, params, signal) },
  { name: EXPORT, scope: "operator.read", answer: (parts, params, { signal }) => parts.files(EXPORT, params, signal) },
  { name: LIST, scope: "operator.read", answer: (parts, params, { signal }) => parts.files(LIST, params, signal) },
  { name: READ, scope: "operator.read", answer: async (parts, params, { signal }) => ({ ...(await parts.files(READ, params, signal)), downloadPath: ROUTE }) },
  { name: TASK, scope: "operator.read", answer: (parts, params, { context }) => getTask(parts, params, context) },
];

/**
 * Maps the thread to the session and makes the run's folder. Whatever cannot be done is found out
 * before anything is written, and what fails nevertheless is taken back. With `checkOnly`, nothing is
 * written at all.
 * @param {Parts} parts
 * @param {Record<string, unknown>} given
 * @param {import("./mapping.js").Mapping["source"]} source
 * @param {AbortSignal} [signal]
 */
export async function prepare(parts, given, source, signal) {
  const { sessions } = parts;
  // Older callers wrap what belongs to the mapping.
  const params = { ...object(given.xworkmateMetadata), ...object(given.xworkmate), ...given };
  const appThreadKey = appKey(text(params.appThreadKey) ?? missing("appThreadKey"));
  const openclawSessionKey = mappableKey(text(params.openclawSessionKey) ?? missing("openclawSessionKey"));
  const runId = text(params.runId) ?? missing("runId");
  const asked = { ...params, appThreadKey, openclawSessionKey, runId };
  const agents = sessions.agents();
  if (!agents.includes(agentOf(openclawSessionKey))) {
    throw invalid(`The gateway has no agent \`${agentOf(openclawSessionKey)}\`. It has: ${agents.join(", ")}.`);
  }
  return sessions.alone(async () => {
    const owner = parts.watch.owner(runId) ?? sessions.owner(runId);
    if (owner !== undefined && owner !== openclawSessionKey) {
      throw conflict("The run is another session's already. Nothing was changed.");
    }
    const elsewhere = sessions.find(appThreadKey);
    const wanted = { appThreadKey, openclawSessionKey, expectedArtifactDirs: [], source };
    decide(wanted, mappingOf(sessions.entry(openclawSessionKey)), elsewhere, new Date());
    await sessions.makeWorkspace(openclawSessionKey);
    const checked = await parts.files(PREPARE, { ...asked, checkOnly: true }, signal);
    if (params.checkOnly === true) return { ...checked, plugin: await parts.about() };

    /** @type {Record<string, unknown> | undefined} */
    let before;
    const entry = await sessions.change(openclawSessionKey, (entry) => {
      const now = new Date();
      before = { [MAPPING]: held(entry, MAPPING), [RUNS]: held(entry, RUNS) };
      const mapping = decide({ ...wanted, expectedArtifactDirs: texts(checked.expectedArtifactDirs) }, mappingOf(entry), elsewhere, now);
      const runs = noted(runsOf(entry), { runId, status: "prepared", source: "session_prepare", boot: parts.boot, preparedAt: now.toISOString() }, now);
      return { [MAPPING]: mapping, [RUNS]: stored(runs) };
    }, true);
    try {
      const made = await parts.files(PREPARE, asked, signal);
      sessions.remember(appThreadKey, openclawSessionKey);
      parts.watch.expect(runId, openclawSessionKey);
      return { ...made, mapping: mappingOf(entry ?? undefined) };
    } catch (why) {
      await sessions.change(openclawSessionKey, () => before);
      throw why;
    }
  });
}

/**
 * @param {string} name
 * @returns {never}
 */
function missing(name) {
  throw invalid(`\`${name}\` is required.`);
}

/**
 * A request to the sidecar with what the gateway knows about the run: its agent's workspace, when it
 * was, which files its tools named, and whether other runs were under way.
 * @param {Pick<Parts, "sessions" | "watch">} parts
 * @param {string} method
 * @param {Record<string, unknown>} params
 */
export function enriched({ sessions, watch }, method, params) {
  const given = text(params.openclawSessionKey);
  if (!given) return params;
  const openclawSessionKey = normalKey(given);
  const known = { ...params, openclawSessionKey, agentWorkspaceDir: sessions.workspace(openclawSessionKey) };
  const runId = text(params.runId);
  if (!runId || ![COLLECT, EXPORT, LIST].includes(method)) return known;
  const { since, until, overlapped, written } = testimony(sessions.entry(openclawSessionKey), watch, runId);
  return {
    ...known,
    // In a listing this would be a filter.
    sinceUnixMs: params.sinceUnixMs ?? (method === COLLECT ? since : undefined),
    untilUnixMs: params.untilUnixMs ?? until,
    overlapped: params.overlapped ?? overlapped,
    writtenFiles: [...new Set([...texts(params.writtenFiles), ...written])],
  };
}

/**
 * @param {import("./host.js").SessionEntry | undefined} entry
 * @param {import("./watch.js").Watch} watch
 * @param {string} runId
 * @returns {{ since?: number, until?: number, overlapped?: boolean, written: string[] }}
 */
function testimony(entry, watch, runId) {
  const record = runsOf(entry).get(runId);
  const live = watch.run(runId);
  const time = (/** @type {string | undefined} */ at) => (at ? Date.parse(at) || undefined : undefined);
  const first = live
    ? { since: live.verdict.status === "prepared" ? undefined : live.startedAt, until: live.verdict.endedAt, overlapped: live.overlapped, written: [...live.written] }
    : { since: time(record?.startedAt), until: time(record?.completedAt), overlapped: record?.overlapped, written: texts(record?.writtenFiles) };
  if (!record?.resumedAs || record.resumedAs === runId) return first;
  // A run that a restart broke off: nobody watched it all the time, so nobody can say it was alone.
  const rest = testimony(entry, watch, record.resumedAs);
  return {
    since: first.since,
    until: rest.until ?? first.until,
    overlapped: first.overlapped || rest.overlapped ? true : undefined,
    written: [...first.written, ...rest.written],
  };
}
