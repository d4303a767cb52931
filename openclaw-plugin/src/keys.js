// The names of sessions, as the gateway writes them.

import { invalid } from "./refusal.js";

/** The plugin's id: the name under which its settings and its share of a session entry are kept. */
export const PLUGIN_ID = "openclaw-multi-session-plugins";

const MAX_KEY = 512;
const RESERVED = new Set(["acp", "cron", "subagent"]);

/**
 * The gateway lower-cases keys and puts bare ones under its first agent. Two spellings of one session
 * must not look like two.
 * @param {string} key
 */
export function normalKey(key) {
  const lower = key.trim().toLowerCase();
  return lower.startsWith("agent:") ? lower : `agent:main:${lower}`;
}

/**
 * Which agent a session belongs to.
 * @param {string} key in normal form
 */
export function agentOf(key) {
  return key.split(":")[1] || "main";
}

/**
 * A session key that may be mapped, in normal form.
 * @param {string} key
 */
export function mappableKey(key) {
  if (key.length > MAX_KEY) throw invalid(`\`openclawSessionKey\` has more than ${MAX_KEY} characters.`);
  const normal = normalKey(key);
  const reserved = normal.split(":").slice(2, -1).find((part) => RESERVED.has(part));
  if (reserved) throw invalid(`\`openclawSessionKey\` has the part \`${reserved}:\`, which the gateway keeps for itself.`);
  return normal;
}

/**
 * The app's name for a thread. It is only ever compared and stored, so anything printable will do.
 * @param {string} key
 */
export function appKey(key) {
  if (key.length > MAX_KEY) throw invalid(`\`appThreadKey\` has more than ${MAX_KEY} characters.`);
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(key)) throw invalid("`appThreadKey` has control characters.");
  return key;
}
