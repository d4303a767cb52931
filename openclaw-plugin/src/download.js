// Files over HTTP, in parts and in constant memory: a base64 frame would have to hold all of one.

import { READ } from "./methods.js";
import { Refusal, asRefusal } from "./refusal.js";
import { object } from "./read.js";

export const ROUTE = "/plugins/openclaw-multi-session-plugins/artifact";

const PART = 2 * 1024 * 1024;
const AHEAD = 3;

/** The HTTP status of a refusal. */
const STATUS = new Map([
  ["INVALID_REQUEST", 400],
  ["LINK_EXPIRED", 410],
  ["LINK_FORGED", 403],
  ["artifact_not_found", 404],
  ["symlink_rejected", 404],
  ["not_a_file", 404],
  ["artifact_changed", 409],
  ["ARTIFACTS_REMOVED", 410],
  ["range_invalid", 416],
  ["UNAVAILABLE", 503],
]);

/**
 * @param {(method: string, params: Record<string, unknown>, signal?: AbortSignal) => Promise<any>} files
 * @param {import("node:http").IncomingMessage} request
 * @param {import("node:http").ServerResponse} response
 */
export async function download(files, request, response) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  try {
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.setHeader("Allow", "GET, HEAD");
      return refuse(response, 405, new Refusal("METHOD_NOT_ALLOWED", "Use GET."));
    }
    const params = Object.fromEntries(new URL(request.url ?? "", "http://gateway").searchParams);
    const read = (/** @type {number} */ offset, /** @type {number} */ length) =>
      files(READ, { ...params, offset, length }, gone.signal);
    const begin = await read(0, 1).catch((why) => emptyFile(files, params, why, gone.signal));
    const file = object(begin.artifacts[0]);
    const size = Number(file.sizeBytes);
    const range = rangeOf(request.headers.range, size);
    if (range === "none") {
      response.setHeader("Content-Range", `bytes */${size}`);
      return refuse(response, 416, new Refusal("range_invalid", "Ask for one range inside the file."));
    }
    const { from, to } = range ?? { from: 0, to: size };
    response.writeHead(range ? 206 : 200, {
      "Content-Type": String(file.contentType),
      "Content-Length": to - from,
      "Accept-Ranges": "bytes",
      "Cache-Control": "no-store",
      "Content-Disposition": `attachment; filename*=UTF-8''${encodeURIComponent(String(file.label)).replace(/['()*]/g, escaped)}`,
      "X-Content-Type-Options": "nosniff",
      ETag: `"${file.sha256}"`,
      ...(range ? { "Content-Range": `bytes ${from}-${to - 1}/${size}` } : {}),
    });
    if (request.method === "HEAD") return void response.end();
    await send(response, read, from, to);
  } catch (why) {
    if (gone.signal.aborted) return;
    const refusal = asRefusal(why);
    // Half a file must not look like a whole one.
    if (response.headersSent) return void response.destroy();
    refuse(response, STATUS.get(refusal.code) ?? 502, refusal);
  }
}

/**
 * Sends parts in their order while the next ones are being read.
 * @param {import("node:http").ServerResponse} response
 * @param {(offset: number, length: number) => Promise<any>} read
 * @param {number} from
 * @param {number} to
 */
async function send(response, read, from, to) {
  /** @type {Promise<any>[]} */
  const coming = [];
  let next = from;
  for (let sent = from; sent < to; ) {
    while (next < to && coming.length < AHEAD) {
      const length = Math.min(PART, to - next);
      const part = read(next, length);
      part.catch(() => {});
      coming.push(part);
      next += length;
    }
    const part = await coming.shift();
    const bytes = Buffer.from(part.artifacts[0].content, "base64");
    if (bytes.length === 0) throw new Refusal("artifact_changed", "The file became shorter while it was sent.");
    sent += bytes.length;
    if (!response.write(bytes)) await drained(response);
  }
  response.end();
}

/**
 * @param {import("node:http").ServerResponse} response
 * @returns {Promise<void>}
 */
function drained(response) {
  return new Promise((resolve, reject) => {
    const settle = () => {
      response.off("drain", settle);
      response.off("close", settle);
      if (response.destroyed) reject(new Refusal("REQUEST_CANCELLED", "The caller went away."));
      else resolve();
    };
    response.on("drain", settle);
    response.on("close", settle);
  });
}

/**
 * An empty file has no first byte to ask for.
 * @param {(method: string, params: Record<string, unknown>, signal?: AbortSignal) => Promise<any>} files
 * @param {Record<string, unknown>} params
 * @param {unknown} why
 * @param {AbortSignal} signal
 */
async function emptyFile(files, params, why, signal) {
  if (asRefusal(why).code !== "range_invalid") throw why;
  return files(READ, { ...params, maxInlineBytes: 0 }, signal);
}

/**
 * One range of bytes. Other units, and several ranges, count as none at all.
 * @param {string | undefined} header
 * @param {number} size
 * @returns {{ from: number, to: number } | "none" | undefined} "none" when it lies outside the file
 */
export function rangeOf(header, size) {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  if (match[1] === "") {
    const last = Math.min(Number(match[2]), size);
    return last > 0 ? { from: size - last, to: size } : "none";
  }
  const from = Number(match[1]);
  const to = match[2] === "" ? size : Math.min(Number(match[2]) + 1, size);
  return from < to ? { from, to } : "none";
}

/** @param {string} character */
const escaped = (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;

/**
 * @param {import("node:http").ServerResponse} response
 * @param {number} status
 * @param {Refusal} refusal
 */
function refuse(response, status, refusal) {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(JSON.stringify({ error: refusal }));
}
