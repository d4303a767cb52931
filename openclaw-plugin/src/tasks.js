// `xworkmate.tasks.get`: how a run stands, by the gateway's own word, and which files it left.

import { isConfirmed, isTerminal, runsOf } from "./runs.js";
import { judge, readPast } from "./judge.js";
import { mappingOf } from "./mapping.js";
import { normalKey } from "./keys.js";
import { object, text } from "./read.js";
import { asRefusal } from "./refusal.js";

const HISTORY = 500;
/** How often a run can have been taken up again under another name. */
const RESUMES = 16;
/** An idle gateway that has not taken a run up again by then will not. */
const GIVES_UP_MS = 3 * 60_000;

/** @typedef {import("./methods.js").Parts} Parts */

/**
 * @param {Parts} parts
 * @param {Record<string, unknown>} params
 * @param {unknown} context what the gateway gives to the handler of a request
 */
export async function getTask(parts, params, context) {
  const { sessions } = parts;
  const appThreadKey = text(params.appThreadKey);
  const asked = text(params.openclawSessionKey);
  if (!appThreadKey && !asked) return miss("invalid_lookup", "Name the run by `appThreadKey` or `openclawSessionKey`, and `runId`.");
  const sessionKey = asked ? normalKey(asked) : sessions.find(appThreadKey ?? "");
  if (!sessionKey) return miss("mapping_not_found", "No session is mapped to this thread.");
  const entry = sessions.entry(sessionKey);
  const mapping = mappingOf(entry);
  if (appThreadKey && mapping && mapping.appThreadKey !== appThreadKey) {
    return miss("conflict", "The session belongs to another app thread.");
  }
  const known = { ...(mapping ? { mapping, expectedArtifactDirs: mapping.expectedArtifactDirs } : {}) };

  const token = text(params.taskId) ?? text(params.runId);
  // The first end that the gateway told stands, so there is nothing to look up any more.
  const found = token && isConfirmed(runsOf(entry).get(token)) ? undefined : await nativeTask(parts, sessionKey, token);
  const runId = token ? (text(found?.runId) ?? token) : latest(entry, found);
  if (!runId) return miss("task_not_found", "This thread has no run yet.", known);
  const native = text(found?.runId) === runId ? found : undefined;
  const standing = await stand(parts, { sessionKey, entry, runId, native, context });

  const over = standing !== undefined && isTerminal(standing.status);
  const dirs = over && mapping ? mapping.expectedArtifactDirs : [];
  const wanted = params.includeArtifacts === false ? undefined : list(parts, params, sessionKey, runId, dirs);
  // Files of a run that goes on can wait; one that ended must not look as if it had none.
  const listed = await (over ? wanted : wanted?.catch(unlisted));
  if (!standing) {
    const isPrepared = runsOf(entry).has(runId) || parts.watch.run(runId)?.sessionKey === sessionKey;
    const prepared = isPrepared ? { prepared: true } : {};
    const evidence = listed ? { evidence: { artifactCount: listed.artifacts.length } } : {};
    return miss("no_native_task_record", "The gateway has no record of this run.", { ...known, runId, openclawSessionKey: sessionKey, ...prepared, ...evidence });
  }
  return snapshot({ standing, native, mapping, sessionKey, appThreadKey, runId, listed });
}

/**
 * How a run stands, followed through restarts of the gateway.
 * @param {Parts} parts
 * @param {{ sessionKey: string, entry: import("./host.js").SessionEntry | undefined, runId: string,
 *   native?: Record<string, unknown> | undefined, context: unknown }} of
 * @returns {Promise<import("./judge.js").Verdict | undefined>}
 */
export async function stand(parts, { sessionKey, entry, runId, native, context }) {
  const records = runsOf(entry);
  const record = records.get(runId);
  let verdict = await judgeOne(parts, { sessionKey, entry, runId, native, context });
  for (let hop = 0; verdict?.resumedAs && !isTerminal(verdict.status) && hop < RESUMES; hop++) {
    const { resumedAs } = verdict;
    const next = await nativeTask(parts, sessionKey, resumedAs);
    const after = await judgeOne(parts, { sessionKey, entry, runId: resumedAs, native: next, context });
    if (!after) break;
    verdict = { ...after, resumedAs: after.resumedAs ?? resumedAs, startedAt: verdict.startedAt ?? after.startedAt };
    if (verdict.resumedAs === resumedAs) break;
  }
  if (verdict && isTerminal(verdict.status) && record?.status !== verdict.status) {
    await parts.sessions.note(sessionKey, recordOf(runId, verdict));
  }
  return verdict;
}

/**
 * @param {string} runId
 * @param {import("./judge.js").Verdict} verdict
 */
export function recordOf(runId, verdict) {
  const { status, source, output, error, code, resumedAs, startedAt, endedAt } = verdict;
  const iso = (/** @type {number | undefined} */ at) => (at === undefined ? undefined : new Date(at).toISOString());
  return {
    runId, status, source,
    ...defined({ output, error, code, resumedAs, startedAt: iso(startedAt), completedAt: iso(endedAt) }),
  };
}

/**
 * @param {Parts} parts
 * @param {{ sessionKey: string, entry: import("./host.js").SessionEntry | undefined, runId: string,
 *   native?: Record<string, unknown> | undefined, context: unknown }} of
 */
async function judgeOne(parts, { sessionKey, entry, runId, native, context }) {
  const owner = parts.watch.owner(runId) ?? parts.sessions.owner(runId);
  if (owner !== undefined && owner !== sessionKey) return undefined;
  const record = runsOf(entry).get(runId);
  const heard = parts.watch.owner(runId) === sessionKey ? parts.watch.run(runId)?.verdict : undefined;
  const active = isActive(parts, context, sessionKey, runId, entry);
  const known = { record, live: heard, native, active, sameBoot: record?.boot === parts.boot };
  // What was heard here, or is remembered, needs no further question.
  if (heard || isConfirmed(record)) return judge(known);
  const wait = await quietly(parts, "agent.wait", () => parts.runtime().subagent.waitForRun({ runId, timeoutMs: 0 }));
  if (running(context, sessionKey, runId)) return judge({ ...known, live: { status: "running", source: "gateway" }, wait });
  const history = await quietly(parts, "history", () => parts.runtime().subagent.getSessionMessages({ sessionKey, limit: HISTORY }));
  const past = history && readPast(history.messages ?? [], runId);
  // `agent.wait` answers for any run of the gateway, whoever's it is.
  const session = text(object(wait?.terminalReceipt).sessionId);
  const expected = record !== undefined || native !== undefined || past?.asked === true || parts.watch.run(runId)?.sessionKey === sessionKey;
  const own = session === undefined ? expected : session === entry?.sessionId;
  return judge({ ...known, wait: own ? wait : undefined, past });
}

/**
 * Whether the gateway works on the session, or still means to. After a restart it takes up, one after
 * the other, the sessions whose entry says `running`.
 * @param {Parts} parts
 * @param {unknown} context
 * @param {string} sessionKey
 * @param {string} runId
 * @param {import("./host.js").SessionEntry | undefined} entry
 */
function isActive(parts, context, sessionKey, runId, entry) {
  if (running(context, sessionKey, runId) || parts.watch.active(sessionKey)) return true;
  if (entry?.status !== "running") return false;
  return parts.watch.underWay > 0 || Date.now() - parts.bootedAt < GIVES_UP_MS;
}

/**
 * Whether the gateway has the run among those of the session that it works on.
 * @param {unknown} context
 * @param {string} sessionKey
 * @param {string} runId
 */
function running(context, sessionKey, runId) {
  const { chatAbortControllers, chatQueuedTurns } = object(context);
  return [chatAbortControllers, chatQueuedTurns].some((map) => {
    const key = map instanceof Map ? text(object(map.get(runId)).sessionKey) : undefined;
    return key !== undefined && normalKey(key) === sessionKey;
  });
}

/**
 * @param {Parts} parts
 * @param {string} sessionKey
 * @param {string | undefined} token
 */
async function nativeTask(parts, sessionKey, token) {
  return quietly(parts, "tasks", async () => {
    const runs = parts.runtime().tasks.async.runs.bindSession({ sessionKey });
    const found = token ? ((await runs.resolve(token)) ?? (await runs.get(token))) : await runs.findLatest();
    return found ?? undefined;
  });
}

/**
 * A source that cannot be asked says nothing; the others still do.
 * @template T
 * @param {Parts} parts
 * @param {string} what
 * @param {() => Promise<T>} ask
 * @returns {Promise<T | undefined>}
 */
async function quietly(parts, what, ask) {
  try {
    return await ask();
  } catch (error) {
    parts.log.warn(`${what} could not be asked: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

/**
 * The run that a session had last. The gateway has task records only for some kinds of runs.
 * @param {import("./host.js").SessionEntry | undefined} entry
 * @param {Record<string, unknown> | undefined} native
 */
function latest(entry, native) {
  const begun = [...runsOf(entry).values()].filter((run) => run.status !== "prepared");
  const noted = begun.sort((a, b) => (a.updatedAt ?? "").localeCompare(b.updatedAt ?? "")).at(-1);
  const begunAt = (/** @type {string | undefined} */ at) => (at ? Date.parse(at) : 0);
  const newer = noted && begunAt(noted.startedAt ?? noted.updatedAt) > Number(native?.createdAt ?? 0);
  return newer ? noted.runId : text(native?.runId);
}

/**
 * Lists the run's folder. Folders that runs share are looked at when the run is over: before, a file
 * there may be half written, or not its own.
 * @param {Parts} parts
 * @param {Record<string, unknown>} params
 * @param {string} sessionKey
 * @param {string} runId
 * @param {string[]} expectedArtifactDirs
 */
async function list(parts, params, sessionKey, runId, expectedArtifactDirs) {
  const { taskId: _, includeArtifacts: __, ...rest } = params;
  const asked = { ...rest, openclawSessionKey: sessionKey, runId, includeContent: params.includeContent === true, expectedArtifactDirs };
  return parts.files("xworkmate.artifacts.export", asked);
}

/** @param {unknown} why */
const unlisted = (why) => ({ artifacts: [], warnings: [`The files cannot be listed now: ${asRefusal(why).message}`] });

/**
 * @param {{ standing: import("./judge.js").Verdict, native: Record<string, unknown> | undefined,
 *   mapping: import("./mapping.js").Mapping | undefined, sessionKey: string, appThreadKey: string | undefined,
 *   runId: string, listed: any }} of
 */
function snapshot({ standing, native, mapping, sessionKey, appThreadKey, runId, listed }) {
  const { status, source, output, error, code, resumedAs, startedAt, endedAt, provisional } = standing;
  const terminal = isTerminal(status);
  const success = terminal ? status === "completed" : true;
  const taskId = text(native?.id) ?? text(native?.taskId) ?? runId;
  const task = native ?? { taskId, runId, status, success, source, startedAt, endedAt };
  return {
    success,
    status,
    taskStatus: text(native?.status) ?? status,
    terminal,
    terminalSource: source,
    mode: "gateway-chat",
    ...defined({ mapping, appThreadKey: mapping?.appThreadKey ?? appThreadKey, output, resultSummary: output, message: output ?? error, error, code, resumedAs, provisional }),
    openclawSessionKey: sessionKey,
    runId,
    taskId,
    task,
    ...(listed ?? {}),
    expectedArtifactDirs: mapping?.expectedArtifactDirs ?? [],
    artifacts: listed?.artifacts ?? [],
    warnings: listed?.warnings ?? [],
    artifactCount: listed?.manifest?.totalCandidates ?? 0,
  };
}

/**
 * A question without an answer is no error of the gateway's.
 * @param {string} code
 * @param {string} message
 * @param {Record<string, unknown>} [known]
 */
const miss = (code, message, known = {}) => ({ ok: false, code, message, ...known });

/** @param {Record<string, unknown>} values */
const defined = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
