#!/usr/bin/env node
// Stands in for `threadline openclaw-sidecar`: answers each method with its parameters, or does what
// the run's name says.

import { createInterface } from "node:readline";
import { existsSync, writeFileSync } from "node:fs";

const answer = (/** @type {unknown} */ message) => process.stdout.write(`${JSON.stringify(message)}\n`);

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const run = String(params?.runId ?? "");
  if (run === "die") process.exit(3);
  if (run.startsWith("die-once:")) {
    const mark = run.slice("die-once:".length);
    if (!existsSync(mark)) {
      writeFileSync(mark, "");
      console.error("falling over");
      process.exit(3);
    }
  }
  if (run === "hang") return;
  if (run === "refused" || (run === "refused-late" && !params.checkOnly)) {
    return answer({ jsonrpc: "2.0", id, error: { code: -32002, message: "no", data: { code: "PREPARE_FAILED" } } });
  }
  if (method === "xworkmate.session.prepare") {
    return answer({ jsonrpc: "2.0", id, result: { runId: params.runId, openclawSessionKey: params.openclawSessionKey, expectedArtifactDirs: params.expectedArtifactDirs ?? [], agentWorkspaceDir: params.agentWorkspaceDir } });
  }
  if (method.startsWith("xworkmate.artifacts.")) {
    const artifacts = run.startsWith("files") ? [{ relativePath: "a.txt" }] : [];
    return answer({ jsonrpc: "2.0", id, result: { artifacts, warnings: [], omitted: { maxFiles: params.maxFiles ?? null }, manifest: { totalCandidates: artifacts.length }, asked: params } });
  }
  answer({ jsonrpc: "2.0", id, result: { pid: process.pid, method, params } });
});
