// Files over HTTP: as they are, in any size, in constant memory. A file's signed reference lets in, and
// nothing else does: whoever may read the file was given it. The sidecar says which file it is and
// proves that it holds what its reference was made for; the bytes go straight from the disk.

import { constants } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { join } from "node:path";

import { READ } from "./methods.js";
import { Refusal, asRefusal } from "./refusal.js";

const PART = 1024 * 1024;

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
    const shown = /^Bearer ([\w-]+)$/i.exec(request.headers.authorization ?? "")?.[1];
    if (!shown) {
      response.setHeader("WWW-Authenticate", "Bearer");
      return refuse(response, 401, new Refusal("UNAUTHORIZED", "Show the file's `artifactRef`, in base64url, as the bearer token."));
    }
    // A reference may hold a name in any script; a header may not.
    const artifactRef = Buffer.from(shown, "base64url").toString();
    const query = new URL(request.url ?? "", "http://gateway").searchParams;
    const run = { openclawSessionKey: query.get("openclawSessionKey"), runId: query.get("runId") };
    const prove = () => files(READ, { ...run, artifactRef, maxInlineBytes: 0 }, gone.signal);
    const { artifactDirectory, artifacts: [artifact] } = await prove();
    const path = join(artifactDirectory, artifact.relativePath);
    const size = artifact.sizeBytes;
    const range = rangeOf(request.headers.range, size);
    if (range === "none") {
      response.setHeader("Content-Range", `bytes */${size}`);
      return refuse(response, 416, new Refusal("range_invalid", "Ask for one range inside the file."));
    }
    const { from, to } = range ?? { from: 0, to: size };
    const file = await openProven(path, size, prove);
    try {
      response.writeHead(range ? 206 : 200, {
        "Content-Type": artifact.contentType,
        "Content-Length": to - from,
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store",
        "Content-Disposition": `attachment; filename*=UTF-8''${encodeURIComponent(artifact.label).replace(/['()*]/g, escaped)}`,
        "X-Content-Type-Options": "nosniff",
        ETag: `"${artifact.sha256}"`,
        ...(range ? { "Content-Range": `bytes ${from}-${to - 1}/${size}` } : {}),
      });
      if (request.method === "GET") await send(response, file, from, to);
      response.end();
    } finally {
      await file.close();
    }
  } catch (why) {
    if (gone.signal.aborted) return;
    // Half a file must not look like a whole one.
    if (response.headersSent) return void response.destroy();
    const refusal = asRefusal(why);
    refuse(response, STATUS.get(refusal.code) ?? 502, refusal);
  }
}

/** @typedef {{ handle: import("node:fs/promises").FileHandle, unchanged(): Promise<boolean>, close(): Promise<void> }} Proven */

/**
 * Opens the very file that the sidecar proves. It proves what stands at the path; if that is the file
 * which was opened before, and nothing touched it, then what was opened is what was proven.
 * @param {string} path
 * @param {number} size
 * @param {() => Promise<unknown>} prove
 * @returns {Promise<Proven>}
 */
async function openProven(path, size, prove) {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => undefined);
  // It was there a moment ago.
  if (!handle) throw changed();
  try {
    const opened = await handle.stat({ bigint: true });
    const unchanged = async () => same(opened, await handle.stat({ bigint: true }));
    await prove();
    const there = await lstat(path, { bigint: true });
    if (!opened.isFile() || opened.size !== BigInt(size) || !same(opened, there) || !(await unchanged())) {
      throw changed();
    }
    return { handle, unchanged, close: () => handle.close() };
  } catch (why) {
    await handle.close();
    throw why;
  }
}

const changed = () => new Refusal("artifact_changed", "The file changed after the run ended, so it is not what the run delivered.");

/**
 * @param {import("node:fs").BigIntStats} one
 * @param {import("node:fs").BigIntStats} other
 */
function same(one, other) {
  const marks = (/** @type {import("node:fs").BigIntStats} */ of) => [of.dev, of.ino, of.size, of.mtimeNs, of.ctimeNs].join();
  return marks(one) === marks(other);
}

/**
 * Sends a part of a file; the next piece is read while one is on its way. The last piece is held back
 * until it is known that the file did not change meanwhile.
 * @param {import("node:http").ServerResponse} response
 * @param {Proven} file
 * @param {number} from
 * @param {number} to
 */
async function send(response, file, from, to) {
  const buffers = [Buffer.allocUnsafeSlow(PART), Buffer.allocUnsafeSlow(PART)];
  /** @type {Promise<void>} */
  let sent = Promise.resolve();
  for (let at = from, turn = 0; at < to; turn ^= 1) {
    const { buffer, bytesRead } = await file.handle.read(/** @type {Buffer} */ (buffers[turn]), 0, Math.min(PART, to - at), at);
    at += bytesRead;
    if (bytesRead === 0 || (at === to && !(await file.unchanged()))) {
      throw changed();
    }
    await sent;
    sent = written(response, buffer.subarray(0, bytesRead));
    sent.catch(() => {});
  }
  await sent;
}

/**
 * @param {import("node:http").ServerResponse} response
 * @param {Buffer} bytes
 * @returns {Promise<void>}
 */
function written(response, bytes) {
  return new Promise((resolve, reject) => {
    const onClose = () => reject(new Refusal("REQUEST_CANCELLED", "The caller went away."));
    response.once("close", onClose);
    response.write(bytes, (error) => {
      response.off("close", onClose);
      if (error) reject(error);
      else resolve();
    });
  });
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
