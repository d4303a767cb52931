// Settings that change while the gateway runs: it registers the plugin again, in the same process.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Client, GATEWAY, Thread, names, pause, sidecars, skip } from "../../testing/client.js";

const ID = "openclaw-multi-session-plugins";

/** @type {Client} */
let client;
before(async () => {
  if (!skip) client = await Client.connect();
});
after(() => client?.close());

/** @param {Record<string, unknown> | undefined} config the plugin's settings */
function set(config) {
  const file = join(GATEWAY.folder, "openclaw.json");
  const all = JSON.parse(readFileSync(file, "utf8"));
  all.plugins.entries[ID].config = config;
  writeFileSync(file, JSON.stringify(all));
}

/**
 * Prepares runs until that is answered in this way; the gateway looks at its settings now and then.
 * @param {(error: any) => boolean} wanted
 */
async function until(wanted) {
  for (;;) {
    const { openclawSessionKey, appThreadKey } = new Thread(client);
    const { error } = await client.ask("xworkmate.session.prepare", { schemaVersion: 1, openclawSessionKey, appThreadKey, runId: "r" });
    if (wanted(error)) return error;
    await pause(200);
  }
}

test("a program that is missing is named, with what to do; once it is there, all goes on", { skip, timeout: 120_000 }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run((prepared) => `[[write ${prepared.relativeArtifactDirectory}/kept.txt = kept]][[say before]]`);
  const settings = JSON.parse(readFileSync(join(GATEWAY.folder, "openclaw.json"), "utf8")).plugins.entries[ID].config;
  set({ ...settings, binary: "/nowhere/threadline" });
  try {
    // While it changes over, the gateway refuses in its own words.
    const { code, message, details } = await until((error) => error?.details !== undefined);
    assert.deepEqual([code, details], ["UNAVAILABLE", { code: "SIDECAR_MISSING" }]);
    assert.match(message, /"\/nowhere\/threadline" cannot be started \(ENOENT\).*threadline openclaw install/);
    assert.deepEqual(sidecars(), []);
  } finally {
    set(settings);
  }
  await until((error) => error === undefined);
  const task = await thread.get(runId);
  assert.deepEqual([task.status, task.output, names(task)], ["completed", "before", ["kept.txt"]]);
  const next = await thread.run("[[say after]]");
  assert.equal((await thread.get(next.runId)).output, "after");
  const run = { openclawSessionKey: thread.openclawSessionKey, runId };
  const [{ artifactRef }] = task.artifacts;
  const { downloadPath } = await client.call("xworkmate.artifacts.read", { ...run, artifactRef });
  const url = `${GATEWAY.url.replace(/^ws/, "http")}${downloadPath}?${new URLSearchParams(run)}`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${Buffer.from(artifactRef).toString("base64url")}` } });
  assert.equal(await answer.text(), "kept");
  assert.equal(sidecars().length, 1);
});
