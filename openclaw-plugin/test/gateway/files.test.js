// Where a run may leave files, and whose they are, on a real gateway.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Client, GATEWAY, Thread, names, pause, sidecars, skip } from "../../testing/client.js";

const MEDIA = GATEWAY && join(GATEWAY.folder, "state", "media");
// Short names: the gateway takes 40 letters and slashes in a row for a secret, and blots them out of prompts.
const TMP = "/tmp/openclaw";

/** @type {Client} */
let client;
before(async () => {
  if (skip) return;
  mkdirSync(MEDIA, { recursive: true });
  mkdirSync(TMP, { recursive: true });
  client = await Client.connect();
});
after(() => client?.close());

/**
 * What was not taken, and why.
 * @param {any} omitted
 * @returns {[string, string][]}
 */
const paths = (omitted) => omitted.files.map((/** @type {any} */ { path, reason }) => [path, reason]).sort();

test("in the run's own folder", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run((prepared) => `[[write ${prepared.relativeArtifactDirectory}/reports/final.md = # Done]][[say ok]]`);
  const task = await thread.get(runId);
  assert.deepEqual(names(task), ["reports/final.md"]);
  assert.equal(task.artifactScope, `tasks/${thread.openclawSessionKey.replaceAll(":", "-")}/${runId}`);
});

test("in the shared workspace, when the run's own tool call names it", { skip }, async () => {
  const thread = new Thread(client, { dirs: ["reports"] });
  const { runId } = await thread.run(`[[write reports/${thread.tag}.md = mine]][[say ok]]`);
  const task = await thread.get(runId);
  assert.deepEqual(names(task), [`reports/${thread.tag}.md`]);
  const next = await thread.run("[[say nothing new]]");
  assert.deepEqual(names(await thread.get(next.runId)), []);
});

test("another thread's files in an expected folder are never delivered", { skip }, async () => {
  const [theirs, ours] = [new Thread(client, { dirs: ["reports"] }), new Thread(client, { dirs: ["reports"] })];
  const { runId } = await ours.prepare();
  await theirs.run(`[[write reports/${theirs.tag}.md = theirs]][[say ok]]`);
  assert.deepEqual((await ours.get(runId)).evidence, { artifactCount: 0 });
  await ours.send(runId, "[[say nothing of mine]]");
  await client.end(runId);
  await ours.collect(runId);
  assert.deepEqual(names(await ours.get(runId)), []);
});

test("in the media and temporary folders, while a command of the run was running", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run(
    `[[shell mkdir -p ${MEDIA}/b && echo media > ${MEDIA}/b/${thread.tag}.png && echo tmp > ${TMP}/${thread.tag}.txt]][[say ok]]`);
  const collected = await thread.collect(runId);
  assert.deepEqual(collected.copiedFiles.toSorted(), [`artifacts/media/b/${thread.tag}.png`, `artifacts/tmp-openclaw/${thread.tag}.txt`]);
  assert.deepEqual(names(await thread.get(runId)), collected.copiedFiles.toSorted());
  rmSync(`${TMP}/${thread.tag}.txt`);
});

test("what a script writes without naming it is its run's, and nobody's while commands of two runs are running", { skip, timeout: 90_000 }, async () => {
  const [one, other] = [new Thread(client, { dirs: ["reports"] }), new Thread(client, { dirs: ["reports"] })];
  const writes = (/** @type {Thread} */ { tag }, name = "") => `n=${tag}${name} && mkdir -p reports && echo x > reports/$n.md && echo x > ${MEDIA}/$n.png`;
  // The other run is open all the while, and runs no command.
  const [first, second] = await Promise.all([
    one.run(`[[sleep 1500]][[shell ${writes(one)}]][[say one]]`),
    other.run(`[[sleep 4000]][[write reports/${other.tag}.md = other]][[say other]]`),
  ]);
  const files = async (/** @type {Thread} */ thread, /** @type {string} */ runId) => {
    const { omitted } = await thread.collect(runId);
    return { files: names(await thread.get(runId)), omitted: paths(omitted) };
  };
  assert.deepEqual(await files(one, first.runId), { files: [`artifacts/media/${one.tag}.png`, `reports/${one.tag}.md`], omitted: [] });
  assert.deepEqual(await files(other, second.runId), { files: [`reports/${other.tag}.md`], omitted: [] }, "the other run has its script's files");

  const both = (/** @type {Thread} */ thread) => thread.run(`[[shell sleep 3 && ${writes(thread, "-both")} && sleep 3]][[say done]]`);
  const runs = await Promise.all([both(one), both(other)]);
  for (const [thread, { runId }] of /** @type {[Thread, any][]} */ ([[one, runs[0]], [other, runs[1]]])) {
    const collected = await thread.collect(runId);
    assert.deepEqual(paths(collected.omitted), [one, other].map(({ tag }) => [`media/${tag}-both.png`, "ambiguous_owner"]).sort());
    const task = await thread.get(runId);
    assert.deepEqual([names(task), task.omitted.byReason.ambiguous_owner], [[], 2]);
  }
});

test("what a background process of a run that is over, or a person, writes during a run is not that run's", { skip, timeout: 120_000 }, async () => {
  const [before, quiet, busy] = [new Thread(client), new Thread(client, { dirs: ["reports"] }), new Thread(client, { dirs: ["reports"] })];
  const late = `reports/${before.tag}-late.md`;
  const { remoteWorkingDirectory } = await before.run(`[[shell mkdir -p reports; (sleep 6; echo late > ${late}) > /dev/null 2>&1 &]][[say started]]`);
  const person = `reports/${before.tag}-person.md`;
  const [first, second] = await Promise.all([
    quiet.run("[[sleep 9000]][[say nothing of mine]]"),
    busy.run("[[shell sleep 9]][[say nothing of mine either]]"),
    pause(3000).then(() => writeFileSync(join(remoteWorkingDirectory, person), "by hand")),
  ]);
  assert.ok(existsSync(join(remoteWorkingDirectory, late)), "it went on");
  const task = await quiet.get(first.runId);
  const ambiguous = (/** @type {any} */ { omitted }) => paths(omitted).filter(([, reason]) => reason === "ambiguous_owner");
  assert.deepEqual([names(task), ambiguous(task)], [[], [[late, "ambiguous_owner"], [person, "ambiguous_owner"]]]);
  // What nobody names and changed while its command was running is taken for its own; what another run's command names is not.
  const busyTask = await busy.get(second.runId);
  assert.deepEqual([names(busyTask), ambiguous(busyTask)], [[person], [[late, "ambiguous_owner"]]]);
});

test("what another run puts into a run's own folder, or writes over there, is not that run's", { skip, timeout: 90_000 }, async () => {
  const [ours, theirs] = [new Thread(client), new Thread(client)];
  const { runId, relativeArtifactDirectory: folder, remoteWorkingDirectory } = await ours.prepare();
  await ours.send(runId, `[[write ${folder}/mine.md = mine]][[write ${folder}/over.md = mine]][[shell cd ${folder} && n=script && echo x > $n.md]][[sleep 6000]][[say done]]`);
  while (!existsSync(join(remoteWorkingDirectory, folder, "script.md"))) await pause(50);
  const planted = await theirs.run(`[[write ${folder}/planted.md = theirs]][[shell echo theirs > ${folder}/over.md]][[say done]]`);
  await client.end(runId);
  await ours.collect(runId);
  const task = await ours.get(runId);
  assert.deepEqual([names(task), paths(task.omitted)], [["mine.md", "script.md"], [["over.md", "ambiguous_owner"], ["planted.md", "ambiguous_owner"]]]);
  await theirs.collect(planted.runId);
  assert.deepEqual(names(await theirs.get(planted.runId)), []);
});

test("two runs that write the same file: it is the last one's", { skip, timeout: 90_000 }, async () => {
  for (const how of ["write", "shell"]) {
    const [first, last] = [new Thread(client, { dirs: ["reports"] }), new Thread(client, { dirs: ["reports"] })];
    const path = `reports/${first.tag}.md`;
    const { runId } = await first.prepare();
    await first.send(runId, `[[write ${path} = of the first]][[sleep 4000]][[say done]]`);
    const { remoteWorkingDirectory, runId: later } = await last.prepare();
    const file = join(remoteWorkingDirectory, path);
    while (!existsSync(file)) await pause(50);
    await last.send(later, `${how === "write" ? `[[write ${path} = of the last]]` : `[[shell echo of the last > ${path}]]`}[[sleep 6000]][[say done]]`);
    await client.end(runId);
    assert.match(readFileSync(file, "utf8"), /of the last/);
    const collected = await first.collect(runId, { writtenFiles: [path] });
    const task = await first.get(runId);
    assert.deepEqual([collected.copiedFiles, names(task), task.omitted.byReason.ambiguous_owner], [[], [], 1], how);
    await client.end(later);
    assert.deepEqual(names(await last.get(later)), [path], how);
  }
});

test("a call that failed is no evidence: the file is the one's who wrote it", { skip, timeout: 90_000 }, async () => {
  const [wrote, failed] = [new Thread(client, { dirs: ["reports"] }), new Thread(client, { dirs: ["reports"] })];
  const path = `reports/${wrote.tag}.md`;
  const { runId } = await wrote.prepare();
  await wrote.send(runId, `[[write ${path} = mine]][[sleep 4000]][[say done]]`);
  const { remoteWorkingDirectory } = await failed.prepare();
  while (!existsSync(join(remoteWorkingDirectory, path))) await pause(50);
  const tried = await failed.run(`[[call edit {"path":"${path}","edits":[{"oldText":"nope","newText":"x"}]}]][[say done]]`);
  // As the gateway's own list of touched files has it.
  const collected = await failed.collect(tried.runId, { writtenFiles: [path] });
  assert.deepEqual(collected.copiedFiles, []);
  assert.deepEqual(names(await failed.get(tried.runId)), []);
  await client.end(runId);
  assert.deepEqual(names(await wrote.get(runId)), [path]);
});

test("elsewhere in the workspace, when a command names it", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run(({ remoteWorkingDirectory }) => `[[shell echo hi > ${remoteWorkingDirectory}/${thread.tag}-a.md; echo hi > ${thread.tag}-b.md]]` +
    `[[shell mkdir ${thread.tag} && cd ${thread.tag} && echo hi > c.md]][[call exec {"command":"echo hi > d.md","workdir":"${remoteWorkingDirectory}/${thread.tag}"}]][[say ok]]`);
  const collected = await thread.collect(runId);
  assert.deepEqual(collected.copiedFiles.toSorted(), [`${thread.tag}-a.md`, `${thread.tag}-b.md`, `${thread.tag}/c.md`, `${thread.tag}/d.md`]);
});

test("who may only read cannot make others' files a run's", { skip }, async () => {
  const [theirs, thread] = [new Thread(client), new Thread(client, { dirs: ["reports"] })];
  await theirs.run(`[[write reports/${theirs.tag}.md = theirs]][[say ok]]`);
  const { runId } = await thread.run("[[say no files]]");
  const reader = await Client.connect(["operator.read"]);
  const forged = { writtenFiles: [`reports/${theirs.tag}.md`], sinceUnixMs: 1, untilUnixMs: 9e14, overlapped: false, expectedArtifactDirs: ["reports"] };
  for (const method of ["xworkmate.artifacts.list", "xworkmate.artifacts.export", "xworkmate.tasks.get"]) {
    assert.deepEqual(names(await reader.call(method, { openclawSessionKey: thread.openclawSessionKey, runId, ...forged })), [], method);
  }
  assert.deepEqual(names(await thread.get(runId)), []);
  reader.close();
});

test("a run that tidies up its own folder loses nothing by it", { skip }, async () => {
  for (const tidies of ["rm -rf .xworkmate", "echo {} > .xworkmate/scope.json"]) {
    const thread = new Thread(client);
    const { runId } = await thread.run((prepared) => `[[shell cd ${prepared.relativeArtifactDirectory} && echo y > report.txt && ${tidies}]][[say ok]]`);
    await thread.collect(runId);
    assert.deepEqual(names(await thread.get(runId)), ["report.txt"], tidies);
    await thread.prepare();
  }
});

test("the workspace of another agent", { skip }, async () => {
  const thread = new Thread(client, { agent: "other" });
  const { runId, remoteWorkingDirectory, workspaceSource } = await thread.run((prepared) => `[[write ${prepared.artifactDirectory}/mine.txt = x]][[say ok]]`);
  assert.equal(workspaceSource, "agentConfig");
  assert.match(remoteWorkingDirectory, /other-workspace$/);
  assert.deepEqual(names(await thread.get(runId)), ["mine.txt"]);
});

test("over HTTP: whole, in part, and only with the file's own reference", { skip }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run((prepared) => `[[write ${prepared.relativeArtifactDirectory}/zehn ü.txt = 0123456789]][[say ok]]`);
  const { artifacts: [artifact], artifactScope } = await thread.get(runId);
  const run = { openclawSessionKey: thread.openclawSessionKey, runId };
  const { downloadPath } = await client.call("xworkmate.artifacts.read", { ...run, artifactRef: artifact.artifactRef });
  const fetched = async (/** @type {Record<string, string>} */ headers, { method = "GET", query = /** @type {Record<string, string>} */ (run) } = {}) => {
    const url = `${GATEWAY.url.replace(/^ws/, "http")}${downloadPath}?${new URLSearchParams(query)}`;
    const answer = await fetch(url, { method, headers });
    return [answer.status, answer.headers.get("content-range"), await answer.text()];
  };
  const bearer = (/** @type {string} */ token) => ({ authorization: `Bearer ${Buffer.from(token).toString("base64url")}` });
  const opens = bearer(artifact.artifactRef);
  assert.deepEqual(await fetched(opens), [200, null, "0123456789"]);
  assert.deepEqual(await fetched({ ...opens, range: "bytes=2-4" }), [206, "bytes 2-4/10", "234"]);
  assert.deepEqual(await fetched({ ...opens, range: "bytes=-3" }), [206, "bytes 7-9/10", "789"]);
  assert.equal((await fetched({ ...opens, range: "bytes=10-" }))[0], 416);
  assert.deepEqual(await fetched(opens, { method: "HEAD" }), [200, null, ""]);
  assert.equal((await fetched(opens, { method: "POST" }))[0], 405);

  // Neither a path nor the gateway's own token is enough, and a reference is good for its file alone.
  const byPath = { ...run, artifactScope, relativePath: artifact.relativePath };
  assert.equal((await fetched({}, { query: byPath }))[0], 401);
  assert.equal((await fetched(bearer(GATEWAY.token), { query: byPath }))[0], 400);
  assert.equal((await fetched({ authorization: `Bearer ${GATEWAY.token}` }, { query: byPath }))[0], 400);
  assert.equal((await fetched(bearer(artifact.artifactRef.replace("10.", "11."))))[0], 403);
  assert.equal((await fetched(opens, { query: { ...run, runId: "another" } }))[0], 400);
});

test("the sidecar is killed, and nobody notices", { skip, timeout: 60_000 }, async () => {
  const thread = new Thread(client);
  const { runId } = await thread.run((prepared) => `[[write ${prepared.relativeArtifactDirectory}/a.txt = a]][[say ok]]`);
  await thread.get(runId);
  const [pid] = sidecars();
  assert.ok(pid, "a sidecar runs");
  process.kill(pid, "SIGKILL");
  const answers = await Promise.all(Array.from({ length: 20 }, () => thread.get(runId)));
  for (const task of answers) assert.deepEqual(names(task), ["a.txt"]);
  await pause(100);
  const now = sidecars();
  assert.equal(now.length, 1);
  assert.notEqual(now[0], pid);
});
