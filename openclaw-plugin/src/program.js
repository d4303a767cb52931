// Where the program is, and how it is started.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { text } from "./read.js";

/** What the program may know of the gateway's surroundings: where things are, and none of its secrets. */
const PASSED = [
  "HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "TZ", "USER",
  "XDG_DATA_HOME", "XDG_CONFIG_HOME", "THREADLINE_DATA", "THREADLINE_LOG", "THREADLINE_LOG_FORMAT",
  "OPENCLAW_WORKSPACE_DIR", "OPENCLAW_STATE_DIR", "OPENCLAW_PROFILE",
  "XWORKMATE_ARTIFACT_REF_SIGNING_SECRET",
];

/**
 * @param {{ config: Record<string, unknown>, root: string, stateDir: string, env: NodeJS.ProcessEnv }} of
 * @returns {import("./sidecar.js").Program}
 */
export function program({ config, root, stateDir, env }) {
  const packed = join(root, "bin", "threadline");
  const option = (/** @type {string} */ flag, /** @type {string | undefined} */ value) => (value ? [flag, value] : []);
  const secret = text(config.artifactRefSigningSecret);
  return {
    binary: text(config.binary) ?? (existsSync(packed) ? packed : "threadline"),
    args: [
      "openclaw-sidecar",
      ...option("--workspace", text(config.workspaceDir)),
      ...option("--media", text(config.openClawMediaDir) ?? join(stateDir, "media")),
      ...option("--tmp", text(config.openClawTmpDir)),
      ...option("--data", text(config.dataDir)),
    ],
    env: {
      ...Object.fromEntries(PASSED.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))),
      ...(secret ? { XWORKMATE_ARTIFACT_REF_SIGNING_SECRET: secret } : {}),
    },
    cwd: root,
  };
}
