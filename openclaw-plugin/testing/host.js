// A gateway that is only memory, for tests of what the plugin does with it.

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import plugin from "../index.js";

export const stand = join(import.meta.dirname, "sidecar.js");

export class Host {
  /** @type {Map<string, any>} */
  entries = new Map();
  /** @type {Map<string, (request: any) => any>} */
  methods = new Map();
  /** @type {Map<string, (event: any, context: any) => any>} */
  hooks = new Map();
  /** @type {Map<string, any>} the gateway's task records */
  tasks = new Map();
  /** @type {any} what `agent.wait` says */
  wait = { status: "timeout" };
  /** @type {unknown[]} */
  messages = [];
  /** @type {(event: any) => any} */
  tell = () => {};
  /** @type {string[]} */
  warnings = [];
  /** How often an entry was written. */
  writes = 0;
  register = () => {};
  home = mkdtempSync(join(tmpdir(), "host-"));

  constructor() {
    const refuse = () => {
      throw new Error("the registry is broken");
    };
    const session = {
      getSessionEntry: (/** @type {any} */ { sessionKey }) => this.entries.get(sessionKey),
      listSessionEntries: (/** @type {any} */ { agentId }) => [...this.entries].filter(([key]) => key.startsWith(`agent:${agentId}:`)).map(([sessionKey, entry]) => ({ sessionKey, entry })),
      patchSessionEntry: async (/** @type {any} */ { sessionKey, update, fallbackEntry }) => {
        const entry = this.entries.get(sessionKey) ?? fallbackEntry;
        if (!entry) return null;
        const changes = update(structuredClone(entry));
        if (changes) this.writes += 1;
        this.entries.set(sessionKey, { ...entry, ...changes });
        return this.entries.get(sessionKey);
      },
    };
    const runs = { resolve: async (/** @type {string} */ id) => (this.broken ? refuse() : this.tasks.get(id)), get: async () => undefined, findLatest: async () => [...this.tasks.values()].at(-1) };
    /** @type {any} */
    const api = {
      id: plugin.id,
      registrationMode: "full",
      pluginConfig: { binary: stand },
      logger: { info() {}, warn: (/** @type {string} */ message) => this.warnings.push(message), error() {} },
      runtime: {
        version: "test",
        agent: { session, resolveAgentWorkspaceDir: (/** @type {unknown} */ _, /** @type {string} */ agent) => join(this.home, agent) },
        config: { current: () => ({ agents: { list: [{ id: "main" }, { id: "other" }] } }) },
        state: { resolveStateDir: () => this.home },
        subagent: { waitForRun: async () => this.wait, getSessionMessages: async () => ({ messages: this.messages }) },
        tasks: { async: { runs: { bindSession: () => runs } } },
      },
      on: (/** @type {string} */ name, /** @type {any} */ handler) => this.hooks.set(name, handler),
      registerGatewayMethod: (/** @type {string} */ name, /** @type {any} */ handler) => this.methods.set(name, handler),
      agent: { events: { registerAgentEventSubscription: (/** @type {any} */ { handle }) => (this.tell = handle) } },
    };
    this.broken = false;
    this.register = () => plugin.register(api);
    this.register();
  }

  /**
   * @param {string} name
   * @param {Record<string, unknown>} params
   * @param {string[]} [scopes]
   * @returns {Promise<any>} the payload, or the error
   */
  ask(name, params, scopes = ["operator.read", "operator.write"]) {
    return new Promise((resolve) => {
      this.methods.get(name)?.({ params, client: { connect: { scopes } }, respond: (/** @type {boolean} */ ok, /** @type {any} */ payload, /** @type {any} */ error) => resolve(ok ? payload : { error }) });
    });
  }

  /** @param {string} key */
  held(key) {
    return this.entries.get(key)?.pluginExtensions?.[plugin.id];
  }

  stop() {
    return this.hooks.get("gateway_stop")?.({}, {});
  }
}
