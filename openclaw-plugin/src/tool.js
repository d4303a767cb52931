// The tool with which an agent sees what its own run has delivered so far.

import { LIST, READ } from "./methods.js";
import { invalid } from "./refusal.js";
import { object, text } from "./read.js";

export const TOOL = "openclaw_multi_session_artifacts";
const MAX_READ = 64 * 1024;

/**
 * Session, run and workspace come from the host alone; whatever the model says about them is ignored.
 * @param {import("./methods.js").Parts} parts
 * @param {import("./host.js").ToolContext} context
 * @returns {import("./host.js").Tool}
 */
export function artifactsTool(parts, context) {
  return {
    name: TOOL,
    label: "Files of this run",
    description: "Lists the files that this run has put into its folder for the user, or reads one of them.",
    parameters: {
      type: "object",
      required: ["action"],
      properties: {
        action: { type: "string", enum: ["list", "read"] },
        relativePath: { type: "string", description: "For read: the file, as the list names it." },
      },
    },
    async execute(_callId, given, signal) {
      const params = object(given);
      const openclawSessionKey = context.sessionKey ?? missing("sessionKey");
      const runId = context.runId ?? parts.watch.active(openclawSessionKey)?.runId ?? missing("runId");
      const run = { openclawSessionKey, runId };
      if (params.action === "read") {
        const relativePath = text(params.relativePath) ?? missing("relativePath");
        const listed = await parts.files(LIST, { ...run, maxFiles: 1 }, signal);
        const read = await parts.files(READ, { ...run, artifactScope: listed.artifactScope, relativePath, maxInlineBytes: MAX_READ }, signal);
        return said(readText(read), read);
      }
      if (params.action !== "list") throw invalid("`action` is `list` or `read`.");
      const listed = await parts.files(LIST, run, signal);
      return said(listText(listed), listed);
    },
  };
}

/**
 * @param {string} name
 * @returns {never}
 */
function missing(name) {
  throw invalid(`\`${name}\` is not known here.`);
}

/**
 * @param {string} words
 * @param {any} details
 */
const said = (words, details) => ({ content: [{ type: /** @type {const} */ ("text"), text: words }], details: { artifactScope: details.artifactScope } });

/** @param {any} listed */
export function listText(listed) {
  const cell = (/** @type {unknown} */ value) => String(value).replaceAll("|", "\\|").replaceAll("\n", " ");
  const rows = listed.artifacts.map((/** @type {any} */ file) =>
    `| ${cell(file.relativePath)} | ${cell(file.contentType)} | ${file.sizeBytes} | ${file.sha256.slice(0, 12)} | ${file.content === undefined ? "no" : "yes"} |`);
  const table = rows.length ? ["| file | type | bytes | sha256 | inline |", "| --- | --- | --- | --- | --- |", ...rows] : ["There are no files yet."];
  return [...table, ...listed.warnings.map((/** @type {string} */ warning) => `Note: ${warning}`)].join("\n");
}

/** @param {any} read */
export function readText(read) {
  const [file] = read.artifacts;
  const head = `${file.relativePath}: ${file.contentType}, ${file.sizeBytes} bytes, sha256 ${file.sha256}`;
  const body = file.content === undefined ? [`It is larger than ${MAX_READ} bytes, so its content is not shown.`] : ["```base64", file.content, "```"];
  return [head, ...body, ...read.warnings.map((/** @type {string} */ warning) => `Note: ${warning}`)].join("\n");
}
