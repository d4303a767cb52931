// The agent's tool.

import assert from "node:assert/strict";
import { test } from "node:test";

import { artifactsTool } from "../src/tool.js";

const file = { relativePath: "a|b.md", contentType: "text/markdown", sizeBytes: 7, sha256: "1c756e4db5b787b6" };

/** @param {Record<string, unknown>} context */
function tool(context) {
  /** @type {any[]} */
  const asked = [];
  const parts = /** @type {any} */ ({
    watch: { active: () => ({ runId: "run-1" }) },
    files: async (/** @type {string} */ method, /** @type {any} */ params) => {
      asked.push([method, params]);
      return method.endsWith(".read")
        ? { artifactScope: "tasks/s/run-1", warnings: [], artifacts: [{ ...file, content: "IyBEb25lCg==" }] }
        : { artifactScope: "tasks/s/run-1", warnings: ["careful"], artifacts: [file] };
    },
  });
  return { asked, tool: artifactsTool(parts, context) };
}

test("it lists the files of the run that the host names, whatever the model says", async () => {
  const { asked, tool: list } = tool({ sessionKey: "agent:main:s" });
  const { content } = await list.execute("1", { action: "list", openclawSessionKey: "agent:main:other", runId: "other", workspaceDir: "/etc" });
  assert.deepEqual(asked, [["xworkmate.artifacts.list", { openclawSessionKey: "agent:main:s", runId: "run-1" }]]);
  assert.match(content[0]?.text ?? "", /\| a\\\|b\.md \| text\/markdown \| 7 \| 1c756e4db5b7 \| no \|\nNote: careful/);
});

test("it reads one of them", async () => {
  const { asked, tool: read } = tool({ sessionKey: "agent:main:s" });
  const { content } = await read.execute("1", { action: "read", relativePath: "a|b.md" });
  assert.deepEqual(asked.at(-1), ["xworkmate.artifacts.read", { openclawSessionKey: "agent:main:s", runId: "run-1", artifactScope: "tasks/s/run-1", relativePath: "a|b.md", maxInlineBytes: 65536 }]);
  assert.match(content[0]?.text ?? "", /```base64\nIyBEb25lCg==\n```/);
});

test("without a session it says what is missing", async () => {
  await assert.rejects(tool({}).tool.execute("1", { action: "list" }), { code: "INVALID_REQUEST", message: /sessionKey/ });
  await assert.rejects(tool({ sessionKey: "s" }).tool.execute("1", { action: "read" }), { message: /relativePath/ });
  await assert.rejects(tool({ sessionKey: "s" }).tool.execute("1", { action: "delete" }), { code: "INVALID_REQUEST" });
});
