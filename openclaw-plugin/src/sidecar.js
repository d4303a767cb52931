// The program that does the work on files: `threadline openclaw-sidecar`. It is started when it is
// first needed, started again when it dies, and asked again what it did not answer: every one of its
// methods can be repeated.

import { spawn } from "node:child_process";

import { lines } from "./lines.js";
import { Refusal } from "./refusal.js";
import { object, text } from "./read.js";

/** A large file may have to be hashed first; a folder is made at once, and others wait for that. */
const CALL_MS = 10 * 60_000;
const PREPARE_MS = 25_000;
const TRIES = 3;
/** A process that ends sooner than this has never worked. */
const WORKED_MS = 2_000;
const PAUSES_MS = [0, 250, 1_000, 3_000, 10_000];
const END_MS = 5_000;
const SAID = 20;

/**
 * @typedef {object} Program
 * @property {string} binary
 * @property {string[]} args
 * @property {NodeJS.ProcessEnv} env
 * @property {string} cwd
 */

/** @typedef {{ resolve: (result: any) => void, reject: (why: unknown) => void }} Waiting */

/** One process, as long as it lives. */
class Child {
  /** @type {Map<number, Waiting>} */
  #waiting = new Map();
  #next = 1;
  /** @type {string[]} what it said last on standard error */
  #said = [];
  #begun = Date.now();
  #answered = false;
  /** @type {Refusal | undefined} why it is of no use any more */
  over;

  /**
   * @param {Program} program
   * @param {import("./host.js").Logger} log
   * @param {(child: Child) => void} onOver
   */
  constructor(program, log, onOver) {
    const { binary, args, cwd, env } = program;
    this.process = spawn(binary, args, { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    /** @param {Refusal} why */
    const end = (why) => {
      if (this.over) return;
      this.over = why;
      onOver(this);
      for (const waiting of this.#waiting.values()) waiting.reject(why);
      this.#waiting.clear();
    };
    this.process.on("error", (error) => end(this.process.pid ? broken(error.message) : notStarted(binary, error)));
    // After its last words: `exit` may come before they were read.
    this.process.on("close", (code, signal) => end(this.#died(code, signal)));
    // A write into a process that just died is told by `close`.
    this.process.stdin.on("error", () => {});
    this.process.stdout.on("data", lines((line) => this.#hear(line, log)));
    this.process.stderr.on("data", lines((line) => {
      this.#said = [...this.#said, line].slice(-SAID);
      log.info(`sidecar: ${line}`);
    }));
  }

  /** Whether it ended before it did anything. */
  get useless() {
    return !this.#answered && Date.now() - this.#begun < WORKED_MS;
  }

  /** How many calls are under way. */
  get busy() {
    return this.#waiting.size;
  }

  /**
   * @param {string} method
   * @param {unknown} params
   * @param {AbortSignal | undefined} signal
   * @returns {Promise<any>}
   */
  call(method, params, signal) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      if (this.over) return reject(this.over);
      /** @param {Refusal} why */
      const giveUp = (why) => {
        this.#waiting.delete(id);
        this.#send({ method: "$/cancelRequest", params: { id } });
        done(() => reject(why));
      };
      const timer = setTimeout(() => giveUp(new Refusal("UNAVAILABLE", `The sidecar did not answer \`${method}\` in time.`, { retryable: true })), method === "xworkmate.session.prepare" ? PREPARE_MS : CALL_MS);
      const onAbort = () => giveUp(new Refusal("REQUEST_CANCELLED", "The caller took the request back."));
      /** @param {() => void} settle */
      const done = (settle) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        settle();
      };
      if (signal?.aborted) return done(() => reject(new Refusal("REQUEST_CANCELLED", "The caller took the request back.")));
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(id, {
        resolve: (result) => done(() => resolve(result)),
        reject: (why) => done(() => reject(why)),
      });
      this.#send({ id, method, params });
    });
  }

  /** Lets it finish what it has begun, then sees that it is gone. */
  async stop() {
    if (this.over) return;
    const gone = new Promise((resolve) => this.process.once("close", resolve));
    this.process.stdin.end();
    const later = [
      setTimeout(() => this.process.kill("SIGTERM"), END_MS),
      setTimeout(() => this.process.kill("SIGKILL"), 2 * END_MS),
    ];
    await gone;
    later.forEach(clearTimeout);
  }

  /** @param {Record<string, unknown>} message */
  #send(message) {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  /**
   * @param {string} line
   * @param {import("./host.js").Logger} log
   */
  #hear(line, log) {
    let message;
    try {
      message = object(JSON.parse(line));
    } catch {
      log.warn(`sidecar: a line that is no answer: ${line.slice(0, 200)}`);
      return;
    }
    this.#answered = true;
    const id = typeof message.id === "number" ? message.id : -1;
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (message.error === undefined) return waiting?.resolve(message.result);
    const error = object(message.error);
    const code = text(object(error.data).code) ?? "UNAVAILABLE";
    waiting?.reject(new Refusal(code, text(error.message) ?? "The sidecar refused, and did not say why."));
  }

  /**
   * @param {number | null} code
   * @param {string | null} signal
   */
  #died(code, signal) {
    const how = signal ? `was ended by ${signal}` : `ended with code ${code}`;
    const said = this.#said.at(-1);
    return broken(`The sidecar ${how}${said ? `: ${said}` : "."}`);
  }
}

/** @param {string} message */
const broken = (message) =>
  new Refusal("UNAVAILABLE", message, { retryable: true, details: { code: "SIDECAR_LOST" } });

/**
 * @param {string} binary
 * @param {NodeJS.ErrnoException} error
 */
const notStarted = (binary, error) =>
  new Refusal(
    "UNAVAILABLE",
    `The program ${JSON.stringify(binary)} cannot be started (${error.code ?? error.message}). Run \`threadline openclaw install\` on the gateway's machine, or name the program in the plugin's setting \`binary\`.`,
    { details: { code: "SIDECAR_MISSING" } },
  );

/** Keeps one process at work. */
export class Sidecar {
  /** @type {Child | undefined} */
  #child;
  /** How many processes in a row were of no use. */
  #failures = 0;
  #starts = 0;
  /** @type {Promise<Child> | undefined} */
  #starting;
  #stopped = false;

  /**
   * @param {() => Program} program looked up at every start: a new binary is found without a restart
   * @param {import("./host.js").Logger} log
   */
  constructor(program, log) {
    this.program = program;
    this.log = log;
  }

  /** What a person who looks after it wants to know. */
  get state() {
    return { pid: this.#child?.process.pid, starts: this.#starts, busy: this.#child?.busy ?? 0 };
  }

  /**
   * @param {string} method
   * @param {unknown} params
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async call(method, params, signal) {
    for (let attempt = 1; ; attempt++) {
      const child = await this.#running();
      try {
        return await child.call(method, params, signal);
      } catch (why) {
        // What it refused stays refused; only what it took with it is asked again.
        if (why !== child.over || child.useless || attempt === TRIES || this.#stopped) throw why;
      }
    }
  }

  /** Ends the process; a later call starts one again. */
  async stop() {
    const child = this.#child;
    this.#child = undefined;
    await child?.stop();
  }

  /** Ends the process for good. */
  async close() {
    this.#stopped = true;
    await this.stop();
  }

  /** @returns {Promise<Child>} */
  #running() {
    if (this.#stopped) throw new Refusal("UNAVAILABLE", "The plugin is being stopped.", { retryable: true });
    if (this.#child && !this.#child.over) return Promise.resolve(this.#child);
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #start() {
    const pause = PAUSES_MS[Math.min(this.#failures, PAUSES_MS.length - 1)] ?? 0;
    if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
    if (this.#starts) this.log.warn("sidecar: starting it again");
    this.#starts += 1;
    this.#child = new Child(this.program(), this.log, (child) => {
      this.#failures = child.useless ? this.#failures + 1 : 0;
      if (this.#child === child) this.#child = undefined;
    });
    return this.#child;
  }
}
