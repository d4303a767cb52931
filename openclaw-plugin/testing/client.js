// A client of a real gateway, for tests: one connection, requests by their ids, events as they come.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Where the gateway is; tests that need one are skipped without it. */
export const GATEWAY = process.env.THREADLINE_TEST_GATEWAY
  ? JSON.parse(readFileSync(process.env.THREADLINE_TEST_GATEWAY, "utf8"))
  : undefined;
export const skip = GATEWAY ? false : "THREADLINE_TEST_GATEWAY names no gateway";

export class Client {
  /** @type {Map<string, (frame: any) => void>} */
  #waiting = new Map();
  /** @type {any[]} */
  #events = [];
  /** @type {Set<(event: any) => void>} */
  #listeners = new Set();
  #next = 1;

  /** @param {WebSocket} socket */
  constructor(socket) {
    this.socket = socket;
  }

  /** @param {string[]} [scopes] */
  static async connect(scopes = ["operator.read", "operator.write"]) {
    const client = new Client(new WebSocket(GATEWAY.url));
    const challenged = new Promise((resolve, reject) => {
      client.socket.addEventListener("error", reject);
      client.socket.addEventListener("message", ({ data }) => {
        const frame = JSON.parse(data);
        if (frame.event === "connect.challenge") resolve(undefined);
        client.#hear(frame);
      });
    });
    await challenged;
    await client.call("connect", {
      minProtocol: 4, maxProtocol: 4, role: "operator", scopes, caps: [], auth: { token: GATEWAY.token },
      client: { id: "gateway-client", version: "0", platform: "linux", mode: "backend", displayName: "tests" },
    });
    return client;
  }

  /** @param {any} frame */
  #hear(frame) {
    if (frame.type === "event") {
      this.#events.push(frame);
      for (const listener of this.#listeners) listener(frame);
    }
    this.#waiting.get(frame.id)?.(frame);
  }

  /**
   * The payload, or the error as it came.
   * @param {string} method
   * @param {Record<string, unknown>} params
   * @returns {Promise<{ payload?: any, error?: any }>}
   */
  ask(method, params) {
    const id = String(this.#next++);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method} was not answered`)), 90_000);
      this.#waiting.set(id, (frame) => {
        this.#waiting.delete(id);
        clearTimeout(timer);
        resolve(frame.ok ? { payload: frame.payload } : { error: frame.error });
      });
      this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  /**
   * @param {string} method
   * @param {Record<string, unknown>} params
   */
  async call(method, params) {
    const { payload, error } = await this.ask(method, params);
    if (error) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return payload;
  }

  /**
   * Waits for the gateway's own word that a run ended.
   * @param {string} runId
   * @returns {Promise<string>} final, error or aborted
   */
  end(runId) {
    const ends = (/** @type {any} */ { event, payload }) =>
      event === "chat" && payload?.runId === runId && ["final", "error", "aborted"].includes(payload.state);
    return new Promise((resolve) => {
      const before = this.#events.find(ends);
      if (before) return resolve(before.payload.state);
      const listener = (/** @type {any} */ event) => {
        if (!ends(event)) return;
        this.#listeners.delete(listener);
        resolve(event.payload.state);
      };
      this.#listeners.add(listener);
    });
  }

  close() {
    this.socket.close();
  }
}

let threads = 0;
const tag = process.env.THREADLINE_TEST_TAG ?? `${Date.now().toString(36)}${process.pid}`;

/** A thread of its own: keys that no other test has. */
export class Thread {
  #runs = 0;

  /**
   * @param {Client} client
   * @param {{ agent?: string, name?: string, dirs?: string[] }} [of]
   */
  constructor(client, { agent = "main", name = `t${++threads}`, dirs = [] } = {}) {
    this.client = client;
    this.dirs = dirs;
    this.appThreadKey = `test:${tag}-${name}`;
    this.openclawSessionKey = `agent:${agent}:${this.appThreadKey}`;
    this.tag = `${tag}-${name}`;
  }

  /** @param {Record<string, unknown>} [other] */
  async prepare(other = {}) {
    const runId = `run-${this.tag}-${++this.#runs}`;
    return this.client.call("xworkmate.session.prepare", {
      schemaVersion: 1, appThreadKey: this.appThreadKey, openclawSessionKey: this.openclawSessionKey, runId,
      expectedArtifactDirs: this.dirs, ...other,
    });
  }

  /**
   * @param {string} runId
   * @param {string} message
   */
  send(runId, message) {
    return this.client.call("chat.send", { sessionKey: this.openclawSessionKey, message, idempotencyKey: runId });
  }

  /**
   * Prepares, sends and waits.
   * @param {string | ((prepared: any) => string)} message
   */
  async run(message) {
    const prepared = await this.prepare();
    await this.send(prepared.runId, typeof message === "string" ? message : message(prepared));
    return { ...prepared, state: await this.client.end(prepared.runId) };
  }

  /**
   * @param {string} runId
   * @param {Record<string, unknown>} [other]
   */
  get(runId, other = {}) {
    return this.client.call("xworkmate.tasks.get", { appThreadKey: this.appThreadKey, runId, ...other });
  }

  /**
   * @param {string} runId
   * @param {Record<string, unknown>} [other]
   */
  collect(runId, other = {}) {
    return this.client.call("xworkmate.artifacts.collect-and-snapshot", { openclawSessionKey: this.openclawSessionKey, runId, ...other });
  }
}

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * What matters of an answer to `tasks.get`.
 * @param {any} task
 */
export const told = ({ status, success, terminal, output, error }) => ({ status, success, terminal, output, error });

/** @param {any} task */
export const names = (task) => task.artifacts.map((/** @type {any} */ artifact) => artifact.relativePath).sort();

/** What the model was asked. */
export const prompts = async () => (await (await fetch(GATEWAY.model.replace(/v1$/, "seen"))).json()).prompts;

/** The sidecars of this gateway: no other's. */
export function sidecars() {
  const media = join(GATEWAY.folder, "state", "media");
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter((pid) => {
    try {
      const said = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      return said[1] === "openclaw-sidecar" && said.includes(media);
    } catch {
      return false;
    }
  });
}
