// The program behind the plugin: started, kept at work, ended.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Sidecar } from "../src/sidecar.js";
import { lines } from "../src/lines.js";
import { program } from "../src/program.js";

const log = { info() {}, warn() {}, error() {} };
const stand = join(import.meta.dirname, "..", "testing", "sidecar.js");
const at = (binary = stand) => new Sidecar(() => ({ binary, args: [], env: { PATH: process.env.PATH }, cwd: import.meta.dirname }), log);
const folder = mkdtempSync(join(tmpdir(), "sidecar-"));

test("it is started when it is needed, once", async () => {
  const sidecar = at();
  assert.deepEqual(sidecar.state, { pid: undefined, starts: 0, busy: 0 });
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => sidecar.call("echo", { n })));
  assert.deepEqual(answers.map(({ params }) => params.n), Array.from({ length: 50 }, (_, n) => n));
  assert.equal(new Set(answers.map(({ pid }) => pid)).size, 1);
  assert.equal(sidecar.state.starts, 1);
  await sidecar.close();
  assert.equal(sidecar.state.pid, undefined);
  assert.throws(() => process.kill(answers[0].pid, 0), { code: "ESRCH" });
});

test("what it took with it is asked again", async () => {
  const sidecar = at();
  await sidecar.call("echo", {});
  const answers = await Promise.all([1, 2, 3].map((n) => sidecar.call("echo", { n, runId: `die-once:${join(folder, "one")}` })));
  assert.deepEqual(answers.map(({ params }) => params.n), [1, 2, 3]);
  assert.equal(sidecar.state.starts, 2);
  await sidecar.close();
});

test("one that always dies is given up, and says why", async () => {
  const sidecar = at();
  await assert.rejects(sidecar.call("echo", { runId: "die" }), { code: "UNAVAILABLE", message: /ended with code 3/, more: { retryable: true, details: { code: "SIDECAR_LOST" } } });
  assert.equal((await sidecar.call("echo", { n: 1 })).params.n, 1);
  await sidecar.close();
});

test("one that is not there is said to be missing, with what to do", async () => {
  const sidecar = at("/nowhere/threadline");
  await assert.rejects(sidecar.call("echo", {}), { code: "UNAVAILABLE", message: /threadline openclaw install/, more: { details: { code: "SIDECAR_MISSING" } } });
  await sidecar.close();
});

test("a refusal keeps its code", async () => {
  const sidecar = at();
  await assert.rejects(sidecar.call("xworkmate.artifacts.list", { runId: "refused" }), { code: "PREPARE_FAILED", message: "no" });
  assert.equal(sidecar.state.starts, 1);
  await sidecar.close();
});

test("a caller who goes away waits for nothing", async () => {
  const sidecar = at();
  const gone = new AbortController();
  const call = sidecar.call("echo", { runId: "hang" }, gone.signal);
  setTimeout(() => gone.abort(), 50);
  await assert.rejects(call, { code: "REQUEST_CANCELLED" });
  assert.equal(sidecar.state.busy, 0);
  await sidecar.close();
});

test("lines come whole, however they are cut", () => {
  const text = "one\n\ntwo ü😀\nrest";
  const bytes = Buffer.from(`${text}\n`);
  for (let size = 1; size <= bytes.length; size++) {
    /** @type {string[]} */
    const heard = [];
    const feed = lines((line) => heard.push(line));
    for (let from = 0; from < bytes.length; from += size) feed(bytes.subarray(from, from + size));
    assert.deepEqual(heard, text.split("\n"));
  }
});

test("the program gets the gateway's places, and none of its secrets", () => {
  const env = { HOME: "/h", PATH: "/p", ANTHROPIC_API_KEY: "sk-x", OPENCLAW_GATEWAY_TOKEN: "t", OPENCLAW_STATE_DIR: "/s" };
  const usual = program({ config: {}, root: "/nowhere", stateDir: "/s", env });
  assert.deepEqual(usual, { binary: "threadline", args: ["openclaw-sidecar", "--media", "/s/media"], env: { HOME: "/h", PATH: "/p", OPENCLAW_STATE_DIR: "/s" }, cwd: "/nowhere" });
  const set = program({ config: { binary: "/b", workspaceDir: "/w", openClawMediaDir: "/m", openClawTmpDir: "/t", dataDir: "/d", artifactRefSigningSecret: "k" }, root: "/nowhere", stateDir: "/s", env: {} });
  assert.deepEqual([set.binary, ...set.args], ["/b", "openclaw-sidecar", "--workspace", "/w", "--media", "/m", "--tmp", "/t", "--data", "/d"]);
  assert.equal(set.env.XWORKMATE_ARTIFACT_REF_SIGNING_SECRET, "k");
});
