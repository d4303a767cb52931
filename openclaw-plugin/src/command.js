// Which files a shell command may name, and where they lie. A shell is not played here: what is not plain
// is not known, and no place is better than a wrong one.

import { realpathSync, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";

const MOST_PLACES = 256;
/** Words and folders that are looked at: the gateway waits meanwhile. */
const MOST_LOOKS = 4096;
/** A folder that is written as it is called: no variable, no pattern, no home, no escape. */
const ENTERS = /^\s*cd\s+(?:'([^'\n]+)'|"([^"\n$`\\!]+)"|([^\s'"`$\\*?[\]{}~!#<>]+))\s*$/;
/** Something that may change the folder, also in what another shell is given to read. */
const MOVES = /(?:^|[\s;&|("'`{])(?:cd|pushd|popd)(?=[\s;&|)"'`}]|$)/;

/**
 * @typedef {object} Where
 * @property {string | undefined} folder nothing where it is not known
 * @property {boolean} chained it holds to the end of the chain of `&&` alone
 */

/**
 * The places that the words of a command name, if they name any.
 * @param {string} command
 * @param {string} folder where it begins
 * @returns {string[]} absolute paths
 */
export function placesIn(command, folder) {
  /** @type {Set<string>} */
  const places = new Set();
  /** @type {Where} */
  let where = { folder, chained: false };
  /** @type {Where[]} */
  const outside = [];
  let before = ";";
  let quotesLines = false;
  let looks = 0;
  for (const { text, after } of parts(command)) {
    const moves = MOVES.test(text);
    for (const word of wordsIn(text)) {
      if (++looks > MOST_LOOKS || places.size >= MOST_PLACES) return [...places];
      const place = placeOf(moves ? undefined : where.folder, word);
      if (place !== undefined) places.add(place);
    }
    // What follows `<<` may be lines of a file that look like commands.
    quotesLines ||= text.includes("<<");
    if (moves) {
      const plain = !quotesLines && before !== "||" && before !== "|" && ["&&", ";", "\n", ")", ""].includes(after);
      where = { folder: plain ? entered(where.folder, text) : undefined, chained: where.chained || before === "&&" };
    }
    if (after === "(") outside.push(where);
    else if (after === ")") where = outside.pop() ?? { folder: undefined, chained: false };
    else if (after !== "&&" && where.chained) where = { folder: undefined, chained: false };
    before = after === "(" ? ";" : after;
  }
  return [...places];
}

/** `&` that neither joins commands nor belongs to an arrow, also in what another shell is given to read. */
const SETS_ASIDE = /(?:^|[^&<>])&(?:[^&>]|$)/;
/** Programs that let others go on without them. */
const LETS_GO = /(?:^|[\s;&|("'`{/])(?:nohup|setsid|disown|daemonize|systemd-run|tmux|screen|at|batch)(?=[\s;&|)"'`}]|$)/;

/**
 * Whether a command may leave processes behind that go on after it.
 * @param {string} command
 */
export const leavesBehind = (command) => SETS_ASIDE.test(command) || LETS_GO.test(command);

/**
 * The folder after a `cd`, if it is there.
 * @param {string | undefined} folder
 * @param {string} text
 * @returns {string | undefined}
 */
function entered(folder, text) {
  const [, single, double, bare] = ENTERS.exec(text) ?? [];
  const named = single ?? double ?? bare;
  if (named === undefined || named.startsWith("-") || (folder === undefined && !isAbsolute(named))) return undefined;
  const place = resolve(folder ?? "/", named);
  try {
    return statSync(place).isDirectory() ? place : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string | undefined} folder
 * @param {string} word
 * @returns {string | undefined}
 */
function placeOf(folder, word) {
  if (isAbsolute(word)) return resolve(word);
  if (folder === undefined) return undefined;
  if (!word.split("/").includes("..")) return resolve(folder, word);
  try {
    // The way up is that of the folder itself, not of a link that led to it.
    return resolve(realpathSync(folder), word);
  } catch {
    return undefined;
  }
}

/**
 * What may be the name of a file: what stands in quotes, and every word.
 * @param {string} text
 * @returns {string[]}
 */
function wordsIn(text) {
  const quoted = [...text.matchAll(/"([^"\n]+)"|'([^'\n]+)'/g)].flatMap((match) => match[1] ?? match[2] ?? []);
  const words = text.split(/[\s"'`;&|<>(){}=,$]+/);
  return [...quoted, ...words].filter((word) => word !== "" && !word.startsWith("-") && !word.includes("\0"));
}

/**
 * A command in its parts, each with what stands after it. What is in quotes is not parted.
 * @param {string} command
 * @returns {Generator<{ text: string, after: string }>}
 */
function* parts(command) {
  let text = "";
  let quote = "";
  for (let at = 0; at < command.length; at++) {
    const letter = command[at] ?? "";
    if (letter === "\\" && quote !== "'") {
      text += letter + (command[++at] ?? "");
      continue;
    }
    if (quote !== "") {
      if (letter === quote) quote = "";
    } else if (letter === "'" || letter === '"' || letter === "`") {
      quote = letter;
    } else if (";\n()".includes(letter) || ("&|".includes(letter) && !isRedirection(command, at))) {
      const after = "&|".includes(letter) && command[at + 1] === letter ? letter + letter : letter;
      at += after.length - 1;
      yield { text, after };
      text = "";
      continue;
    }
    text += letter;
  }
  yield { text, after: "" };
}

/**
 * Whether `&` or `|` belongs to an arrow: `2>&1`, `&>all.log`, `>|file`.
 * @param {string} command
 * @param {number} at
 */
function isRedirection(command, at) {
  const [before, after] = [command[at - 1] ?? "", command[at + 1] ?? ""];
  return before === ">" || before === "<" || (command[at] === "&" && after === ">");
}
