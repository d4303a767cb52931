// The plugin as the gateway loads it: it puts the parts together and registers what there is.

import { randomUUID } from "node:crypto";
import { join } from "node:path";

import { PLUGIN_ID } from "./src/keys.js";
import { MAPPING } from "./src/mapping.js";
import { EXPORT, LIST, METHODS, ROUTE, enriched } from "./src/methods.js";
import { download } from "./src/download.js";
import { TOOL, artifactsTool } from "./src/tool.js";
import { Kept } from "./src/kept.js";
import { Sessions } from "./src/sessions.js";
import { Sidecar } from "./src/sidecar.js";
import { Watch } from "./src/watch.js";
import { asRefusal } from "./src/refusal.js";
import { hear, onSessionStart } from "./src/hooks.js";
import { object } from "./src/read.js";
import { program } from "./src/program.js";

const VERSION = "0.1.0";
const SHARED = Symbol.for(`${PLUGIN_ID}/${VERSION}`);

/** @typedef {import("./src/methods.js").Parts & { api: import("./src/host.js").Api, sidecar: Sidecar }} Shared */

/**
 * What all registrations in this process share: the gateway registers a plugin several times, and
 * calls hooks on another registration than methods.
 * @param {import("./src/host.js").Api} api
 * @returns {Shared}
 */
function shared(api) {
  const kept = /** @type {any} */ (globalThis)[SHARED];
  if (kept) {
    // Of an interface that was retired nothing can be asked any more.
    if (api.registrationMode === "full") {
      kept.api = api;
      kept.watch.interrupted();
    }
    return kept;
  }
  const config = () => object(parts.api.pluginConfig);
  const runtime = () => parts.api.runtime;
  // The gateway may run a copy of these files; what lies beside them is in the folder it was given.
  const root = () => parts.api.rootDir ?? import.meta.dirname;
  const launch = () => program({ config: config(), root: root(), stateDir: runtime().state.resolveStateDir(), env: process.env });
  const log = {
    info: (/** @type {string} */ message) => parts.api.logger.info(message),
    warn: (/** @type {string} */ message) => parts.api.logger.warn(message),
    error: (/** @type {string} */ message) => parts.api.logger.error(message),
  };
  /** @type {Shared} */
  const parts = {
    api,
    runtime,
    log,
    sessions: new Sessions(runtime, new Kept(() => join(runtime().state.resolveStateDir(), PLUGIN_ID, "sessions"), log)),
    watch: new Watch((sessionKey) => parts.sessions.workspace(sessionKey)),
    sidecar: new Sidecar(launch, log),
    about: async () => {
      const { version, name } = await parts.sidecar.call("initialize", {});
      const { args } = launch();
      const logFile = object(object(runtime().config.current()).logging).file;
      return { id: PLUGIN_ID, version: VERSION, openclaw: runtime().version, sidecar: { name, version, args }, logFile };
    },
    boot: randomUUID(),
    bootedAt: Date.now(),
    files: (method, params, signal) => {
      const { maxFiles, maxInlineBytes } = config();
      const own = method === EXPORT || method === LIST ? { maxFiles, maxInlineBytes } : {};
      return parts.sidecar.call(method, { ...own, ...enriched(parts, method, params) }, signal);
    },
  };
  return (/** @type {any} */ (globalThis)[SHARED] = parts);
}

/** @type {{ id: string, name: string, description: string, register(api: import("./src/host.js").Api): void }} */
export default {
  id: PLUGIN_ID,
  name: "Threadline",
  description: "Maps app threads to sessions, gives each run a folder of its own, and tells truthfully how runs ended.",
  register(api) {
    const parts = shared(api);
    for (const { name, scope, answer } of METHODS) {
      api.registerGatewayMethod(name, async ({ params, signal, context, client, respond }) => {
        try {
          respond(true, await answer(parts, object(params), { signal, context, client }));
        } catch (why) {
          respond(false, undefined, asRefusal(why).toJSON());
        }
      }, { scope });
    }
    api.registerHttpRoute?.({
      path: ROUTE,
      // By the file's reference: a bridge that was paired has no token that the gateway takes over HTTP.
      auth: "plugin",
      match: "exact",
      handler: async (request, response) => {
        await download(parts.files, request, response);
        return true;
      },
    });
    api.session?.state?.registerSessionExtension?.({
      namespace: MAPPING,
      description: "Which app thread the session belongs to.",
      project: ({ state }) => state,
    });
    api.agent?.events?.registerAgentEventSubscription?.({
      id: "runs",
      description: "How runs begin and end, and which files they name.",
      streams: ["lifecycle", "tool"],
      handle: (event) => hear(parts, event),
    });
    api.on("session_start", (event, context) => onSessionStart(parts, event, context));
    api.on("gateway_start", () => parts.sessions.mend());
    api.on("gateway_stop", () => parts.sidecar.stop());
    if (object(api.pluginConfig).agentTool === true) {
      api.registerTool?.((context) => artifactsTool(parts, context), { name: TOOL, optional: true });
    }
    if (api.registrationMode === "full") api.lifecycle?.onDispose?.(() => parts.sidecar.stop());
  },
};
