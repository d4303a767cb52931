// The methods of the gateway that this plugin answers.

import { resolve } from "node:path";

import { agentOf, appKey, mappableKey, normalKey } from "./keys.js";
import { MAPPING, decide, held, isSame, mappingOf } from "./mapping.js";
import { RUNS, noted, runsOf, stored } from "./runs.js";
import { getTask } from "./tasks.js";
import { conflict, invalid } from "./refusal.js";
import { amount, object, text, texts } from "./read.js";

export const PREPARE = "xworkmate.session.prepare";
export const COLLECT = "xworkmate.artifacts.collect-and-snapshot";
export const EXPORT = "xworkmate.artifacts.export";
export const LIST = "xworkmate.artifacts.list";
export const READ = "xworkmate.artifacts.read";
/** Collects and lists at once: one question after a run instead of two. */
export const GATHER = "xworkmate.artifacts.gather";
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
 * @typedef {object} Asked
 * @property {AbortSignal} [signal]
 * @property {unknown} [context] what the gateway gives to the handler of a request
 * @property {unknown} [client] who asks
 *
 * @typedef {(parts: Parts, params: Record<string, unknown>, request: Asked) => Promise<unknown>} Method
 * @type {{ name: string, scope: "operator.read" | "operator.write", answer: Method }[]}
 */
export const METHODS = [
  { name: PREPARE, scope: "operator.write", answer: (parts, params, { signal }) => prepare(parts, params, "bridge_prepare", signal) },
  { name: COLLECT, scope: "operator.write", answer: (parts, params, { signal }) => parts.files(COLLECT, params, signal) },
  { name: EXPORT, scope: "operator.read", answer: (parts, params, { signal, client }) => parts.files(EXPORT, asAllowed(parts, params, client), signal) },
  { name: LIST, scope: "operator.read", answer: (parts, params, { signal, client }) => parts.files(LIST, asAllowed(parts, params, client), signal) },
  { name: READ, scope: "operator.read", answer: async (parts, params, { signal }) => ({ ...(await parts.files(READ, params, signal)), downloadPath: ROUTE }) },
  { name: GATHER, scope: "operator.write", answer: (parts, params, { signal }) => gather(parts, params, signal) },
  { name: TASK, scope: "operator.read", answer: (parts, params, { context, client }) => getTask(parts, asAllowed(parts, params, client), context) },
];

/**
 * Maps the thread to the session and makes the run's folder. Whatever cannot be done is found out
 * before anything is written, and what fails nevertheless is taken back. A mapping that is there already
 * is not written again: that takes the gateway longer than everything else here. With `checkOnly`,
 * nothing is written at all.
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
    const own = mappingOf(sessions.entry(openclawSessionKey));
    const elsewhere = own?.appThreadKey === appThreadKey ? openclawSessionKey : sessions.find(appThreadKey);
    const wanted = { appThreadKey, openclawSessionKey, expectedArtifactDirs: [], source };
    decide(wanted, own, elsewhere, new Date());
    await sessions.makeWorkspace(openclawSessionKey);
    const made = async () => {
      const made = await parts.files(PREPARE, asked, signal);
      sessions.remember(appThreadKey, openclawSessionKey);
      parts.watch.expect(runId, openclawSessionKey);
      return made;
    };
    if (own && isSame(own, { ...wanted, expectedArtifactDirs: texts(params.expectedArtifactDirs) }) && params.checkOnly !== true) {
      return { ...(await made()), mapping: own };
    }
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
      return { ...(await made()), mapping: mappingOf(entry ?? undefined) };
    } catch (why) {
      await sessions.change(openclawSessionKey, () => before);
      throw why;
    }
  });
}

/**
 * What a run that is over left: collected, unless `collect` is false, and listed. `watched` says that
 * every tool call of the run was heard here, so nobody else need be asked what it wrote.
 * @param {Parts} parts
 * @param {Record<string, unknown>} params
 * @param {AbortSignal} [signal]
 */
async function gather(parts, { collect, ...asked }, signal) {
  // Of a list it is the length of a page.
  const { maxFiles: _, ...proof } = asked;
  const collected = collect === false ? undefined : await parts.files(COLLECT, proof, signal);
  const listed = await parts.files(LIST, asked, signal);
  return {
    ...listed,
    ...(collected ? { collected: { omitted: collected.omitted, warnings: collected.warnings } } : {}),
    watched: parts.watch.isWhole(text(asked.runId) ?? "", normalKey(text(asked.openclawSessionKey) ?? "")),
  };
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
 * was, which files its tools named, when its commands were running, and which files are other runs'.
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
  const { since, until, written, failed, doubtful, commandSpans, othersFiles, maybeOthersFiles } = testimony({ sessions, watch }, openclawSessionKey, runId);
  // In a listing this would be a filter.
  const from = amount(params.sinceUnixMs) ?? (method === COLLECT ? since : undefined);
  const place = (/** @type {string} */ path) => resolve(known.agentWorkspaceDir, path);
  // The gateway's own list has what a tool was called for, also when the tool failed.
  const wrote = new Set(written.map(place));
  const inVain = new Set(failed.map(place).filter((path) => !wrote.has(path)));
  const told = texts(params.writtenFiles).filter((path) => !inVain.has(place(path)));
  return {
    ...known,
    sinceUnixMs: from === undefined ? undefined : Math.max(from, since ?? 0),
    untilUnixMs: params.untilUnixMs ?? until,
    writtenFiles: [...new Set([...told, ...written, ...doubtful])],
    // Nobody else can know.
    commandSpans,
    othersFiles,
    maybeOthersFiles,
  };
}

/**
 * A request as its caller may make it. Whose files are whose is decided on the word of those who may
 * start runs; for all others on what was heard here, and in folders that a run which is over declared.
 * @param {Pick<Parts, "sessions" | "watch">} parts
 * @param {Record<string, unknown>} params
 * @param {unknown} client
 */
function asAllowed({ sessions, watch }, params, client) {
  const scopes = texts(object(object(client).connect).scopes);
  if (scopes.includes("operator.write") || scopes.includes("operator.admin")) return params;
  const { writtenFiles: _, untilUnixMs: __, expectedArtifactDirs, ...rest } = params;
  const sessionKey = normalKey(text(params.openclawSessionKey) ?? "");
  const { since, until } = testimony({ sessions, watch }, sessionKey, text(params.runId) ?? "");
  const over = until !== undefined && (since !== undefined || params.sinceUnixMs === undefined);
  const bare = (/** @type {string} */ dir) => dir.replace(/\/+$/, "");
  const declared = over ? (mappingOf(sessions.entry(sessionKey))?.expectedArtifactDirs.map(bare) ?? []) : [];
  return { ...rest, expectedArtifactDirs: texts(expectedArtifactDirs).filter((dir) => declared.includes(bare(dir))) };
}

/**
 * What is known of a session's run.
 * @param {Pick<Parts, "sessions" | "watch">} parts
 * @param {string} sessionKey in normal form
 * @param {string} runId
 * @returns {import("./watch.js").Testimony & { since?: number, until?: number }}
 */
function testimony(parts, sessionKey, runId) {
  const record = runsOf(parts.sessions.entry(sessionKey)).get(runId);
  const heard = parts.watch.run(runId);
  const live = heard?.sessionKey === sessionKey ? heard : undefined;
  const time = (/** @type {string | undefined} */ at) => (at ? Date.parse(at) || undefined : undefined);
  const first = live
    ? { since: live.verdict.status === "prepared" ? undefined : live.startedAt, until: live.verdict.endedAt, ...parts.watch.evidence(live) }
    : { since: time(record?.startedAt), until: time(record?.completedAt), written: texts(record?.writtenFiles), failed: texts(record?.failedFiles), doubtful: texts(record?.doubtfulFiles), commandSpans: record?.commandSpans ?? [], othersFiles: texts(record?.othersFiles), maybeOthersFiles: texts(record?.maybeOthersFiles) };
  if (!record?.resumedAs || record.resumedAs === runId) return first;
  // A run that a restart broke off.
  const rest = testimony(parts, sessionKey, record.resumedAs);
  return {
    since: first.since,
    until: rest.until ?? first.until,
    written: [...first.written, ...rest.written],
    failed: [...first.failed, ...rest.failed],
    doubtful: [...first.doubtful, ...rest.doubtful],
    commandSpans: [...first.commandSpans, ...rest.commandSpans],
    othersFiles: [...new Set([...first.othersFiles, ...rest.othersFiles])],
    maybeOthersFiles: [...new Set([...first.maybeOthersFiles, ...rest.maybeOthersFiles])],
  };
}
