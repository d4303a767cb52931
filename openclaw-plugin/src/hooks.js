// What the gateway tells unasked.

import { prepare } from "./methods.js";
import { recordOf } from "./tasks.js";
import { object, text } from "./read.js";

/** @typedef {import("./methods.js").Parts} Parts */

/**
 * Remembers how a run ended, for when this process is gone.
 * @param {Parts} parts
 * @param {import("./host.js").AgentEvent} event
 */
export async function hear(parts, event) {
  const ended = parts.watch.hear(event);
  if (!ended?.sessionKey) return;
  const { written, failed, doubtful, commandSpans, othersFiles, maybeOthersFiles } = parts.watch.evidence(ended);
  await parts.sessions.note(ended.sessionKey, {
    ...recordOf(ended.runId, ended.verdict),
    boot: parts.boot,
    writtenFiles: written,
    ...(failed.length ? { failedFiles: failed } : {}),
    ...(doubtful.length ? { doubtfulFiles: doubtful } : {}),
    ...(commandSpans.length ? { commandSpans } : {}),
    ...(othersFiles.length ? { othersFiles } : {}),
    ...(maybeOthersFiles.length ? { maybeOthersFiles } : {}),
  });
}

/**
 * A session that begins with its mapping. Nothing happens unless both keys and the run are there.
 * @param {Parts} parts
 * @param {unknown} event
 * @param {unknown} context
 */
export async function onSessionStart(parts, event, context) {
  const params = { ...object(context), ...object(event) };
  if (!text(params.appThreadKey) || !text(params.openclawSessionKey) || !text(params.runId)) return;
  try {
    await prepare(parts, params, "session_start");
  } catch (why) {
    parts.log.warn(`session_start: the mapping was not written: ${why instanceof Error ? why.message : String(why)}`);
  }
}
