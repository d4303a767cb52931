// The first half of a stop: a run is under way, and then the gateway is asked to end. `stopped.test.js` looks.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client, Thread, pause, prompts, skip } from "../../testing/client.js";

const now = process.env.THREADLINE_TEST_PHASE === "stopping" ? skip : "no stop is planned";

/** @type {Client} */
let client;
before(async () => {
  if (!now) client = await Client.connect();
});
after(() => client?.close());

test("runs have ended, and one is under way", { skip: now, timeout: 90_000 }, async () => {
  const ended = await new Thread(client, { name: "ended" }).run("[[say finished before the stop]]");
  assert.equal(ended.state, "final");
  const thread = new Thread(client, { name: "stopping", dirs: ["reports"] });
  const { runId } = await thread.prepare();
  await thread.send(runId, `[[sleep 6000]][[write reports/${thread.tag}.md = last words]][[say finished while stopping]]`);
  // The gateway breaks off what has not reached its model.
  while (!(await prompts()).some((/** @type {string} */ prompt) => prompt.includes("finished while stopping"))) await pause(50);
  assert.equal((await thread.get(runId)).status, "running");
});
