// What is remembered of runs and mappings in a session's entry.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PLUGIN_ID, appKey, mappableKey, normalKey } from "../src/keys.js";
import { MAPPING, decide, mappingOf, withHeld } from "../src/mapping.js";
import { RUNS, isConfirmed, noted, runsOf, stored, withoutSecrets } from "../src/runs.js";

const at = (/** @type {number} */ second) => new Date(Date.UTC(2026, 0, 1, 0, 0, second));

test("what others keep in the entry is left alone", () => {
  const entry = { pluginExtensions: { other: { x: 1 }, [PLUGIN_ID]: { own: 2, gone: 3 } } };
  assert.deepEqual(withHeld(entry, { [MAPPING]: { a: 1 }, gone: undefined }), {
    pluginExtensions: { other: { x: 1 }, [PLUGIN_ID]: { own: 2, [MAPPING]: { a: 1 } } },
  });
  assert.deepEqual(entry.pluginExtensions[PLUGIN_ID], { own: 2, gone: 3 });
});

test("a stored mapping of another version, or without keys, is none", () => {
  const read = (/** @type {unknown} */ mapping) => mappingOf({ pluginExtensions: { [PLUGIN_ID]: { [MAPPING]: mapping } } });
  const good = { schemaVersion: 1, appThreadKey: "a", openclawSessionKey: "agent:main:A", source: "whatever" };
  assert.deepEqual([read(good)?.openclawSessionKey, read(good)?.source], ["agent:main:a", "bridge_prepare"]);
  for (const bad of [undefined, null, "x", [], { ...good, schemaVersion: 2 }, { ...good, appThreadKey: " " }, { ...good, openclawSessionKey: "" }]) assert.equal(read(bad), undefined);
});

test("a mapping is one to one", () => {
  const wanted = /** @type {const} */ ({ appThreadKey: "a", openclawSessionKey: "agent:main:k", expectedArtifactDirs: ["x/"], source: "bridge_prepare" });
  const made = decide({ ...wanted, expectedArtifactDirs: ["x/"] }, undefined, undefined, at(1));
  assert.deepEqual([made.createdAt, made.updatedAt], [at(1).toISOString(), at(1).toISOString()]);
  const again = decide({ ...wanted, expectedArtifactDirs: ["y/"], source: "session_start" }, made, "agent:main:k", at(2));
  assert.deepEqual(again, { ...made, expectedArtifactDirs: ["y/"], updatedAt: at(2).toISOString() });
  const refused = (/** @type {() => unknown} */ what) => assert.throws(what, { code: "CONFLICT" });
  refused(() => decide({ ...wanted, expectedArtifactDirs: [], appThreadKey: "b" }, made, undefined, at(3)));
  refused(() => decide({ ...wanted, expectedArtifactDirs: [], openclawSessionKey: "agent:main:l" }, undefined, "agent:main:k", at(3)));
});

test("keys in the gateway's form", () => {
  assert.equal(normalKey(" Agent:Main:Draft:1 "), "agent:main:draft:1");
  assert.equal(normalKey("plain"), "agent:main:plain");
  assert.equal(mappableKey("agent:main:draft:1"), "agent:main:draft:1");
  for (const bad of ["agent:main:subagent:x", "agent:main:acp:x", "agent:main:x:cron:y", `agent:main:${"x".repeat(600)}`]) assert.throws(() => mappableKey(bad), { code: "INVALID_REQUEST" });
  assert.equal(mappableKey("agent:main:cron"), "agent:main:cron", "a name, not a part");
  for (const bad of ["a\u0000b", "a\nb", "x".repeat(600)]) assert.throws(() => appKey(bad), { code: "INVALID_REQUEST" });
});

test("open runs and the newest ended ones are kept", () => {
  /** @type {Map<string, import("../src/runs.js").RunRecord>} */
  let runs = new Map();
  for (let n = 0; n < 40; n++) runs = noted(runs, { runId: `r${n}`, status: n < 3 ? "running" : "completed", source: "lifecycle" }, at(n));
  const kept = Object.keys(stored(runs).runs);
  assert.equal(kept.length, 3 + 32);
  for (const name of ["r0", "r1", "r2", "r39", "r8"]) assert.ok(kept.includes(name), name);
  assert.ok(!kept.includes("r7"));
});

test("the first confirmed end stands, and a hint is none", () => {
  let runs = noted(new Map(), { runId: "r", status: "prepared", source: "session_prepare" }, at(1));
  runs = noted(runs, { runId: "r", status: "running", source: "x" }, at(2));
  assert.equal(noted(runs, { runId: "r", status: "prepared", source: "session_prepare" }, at(3)).get("r")?.status, "running");
  runs = noted(runs, { runId: "r", status: "failed", source: "lifecycle", error: "401 api_key=sk-secret-value" }, at(4));
  assert.ok(isConfirmed(runs.get("r")));
  assert.doesNotMatch(JSON.stringify(stored(runs)), /secret-value/);
  assert.equal(noted(runs, { runId: "r", status: "completed", source: "history" }, at(5)), runs);
});

test("ends that an earlier plugin guessed are not believed", () => {
  const entry = { pluginExtensions: { [PLUGIN_ID]: { [RUNS]: { schemaVersion: 1, runs: { r: { runId: "r", status: "completed", success: true, output: "of another run" } } } } } };
  assert.deepEqual([runsOf(entry).get("r")?.status, runsOf(entry).get("r")?.output], ["running", undefined]);
});

test("names that mean something to the language are only names", () => {
  for (const runId of ["__proto__", "constructor", "toString"]) {
    const runs = noted(new Map(), { runId, status: "completed", source: "lifecycle" }, at(1));
    const entry = withHeld({}, { [RUNS]: stored(runs) });
    assert.equal(runsOf(JSON.parse(JSON.stringify(entry))).get(runId)?.status, "completed");
    assert.equal(/** @type {any} */ ({}).status, undefined);
  }
});

test("secrets are taken out of errors", () => {
  for (const secret of ["sk-abcdefgh12345678", "nvapi-abcdefgh1234", "api_key=topsecret", "Authorization: Bearer abcdefgh12345", "\"token\": \"topsecret\"", "password=topsecret", "https://ai.example/v1?alt=sse&key=topsecret", "AIzaSyA0123456789-abcdefghij", "AKIAIOSFODNN7abcdefgh", "eyJhbGciOiJI.topsecret.x-abcdefgh", "postgres://me:p@topsecret@db.example/x"]) {
    assert.doesNotMatch(withoutSecrets(`401 ${secret} refused`), /topsecret|abcdefgh/, secret);
  }
  assert.equal(withoutSecrets("LLM request failed: no such model"), "LLM request failed: no such model");
});
