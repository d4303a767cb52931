// Whose a file is, for random histories of runs, their commands and their tools, of processes in the background and of people.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Commands } from "../src/commands.js";
import { isAnothers, LAG_MS } from "../src/deeds.js";
import { Watch } from "../src/watch.js";

/**
 * Numbers that look random and are the same for the same seed.
 * @param {number} seed
 */
function chance(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (/** @type {number} */ most) => Math.floor(next() * most);
  /** @template T @param {T[]} all @returns {T} */
  const one = (all) => /** @type {T} */ (all[below(all.length)]);
  return { below, one };
}

/**
 * The same check for many histories; a failure names the seed by which it comes again.
 * @param {number} times
 * @param {(luck: ReturnType<typeof chance>) => void} check
 */
function forEachSeed(times, check) {
  for (let seed = 1; seed <= times; seed++) {
    try {
      check(chance(seed));
    } catch (error) {
      if (error instanceof Error) error.message = `seed ${seed}: ${error.message}`;
      throw error;
    }
  }
}

const RUNS = ["a", "b", "c"];

test("a moment belongs to the run whose commands alone were running, and never to two", () => {
  forEachSeed(1000, (luck) => {
    const commands = new Commands();
    /** Who was at work in each millisecond. @type {Set<string>[]} */
    const busy = [];
    /** Whose commands were running in each. @type {Set<string>[]} */
    const commanding = [];
    /** @type {Map<string, string>} */
    const running = new Map();
    /** @type {Set<string>} */
    const missed = new Set();
    let now = 1000;
    const goOn = (/** @type {number} */ until) => {
      for (; now < until; now++) {
        commanding[now] = new Set(running.values());
        busy[now] = new Set([...running.values(), ...missed]);
      }
    };
    for (let step = 0; step < 30; step++) {
      goOn(now + luck.one([1, 3, LAG_MS - 1, LAG_MS, LAG_MS + 1, 40]));
      const runId = luck.one(RUNS);
      const [id, what] = [`call-${luck.below(2)}`, luck.below(10)];
      const key = `${runId} ${id}`;
      if (what < 4) {
        commands.hear({ runId, stream: "tool", ts: now }, id, { phase: "start" });
        running.set(key, runId);
      } else if (what < 8) {
        commands.hear({ runId, stream: "tool", ts: now }, id, { phase: "result" });
        running.delete(key);
      } else if (what < 9) {
        commands.over(runId, now);
        missed.delete(runId);
        for (const [key, whose] of running) if (whose === runId) running.delete(key);
      } else {
        commands.missed(runId, now);
        missed.add(runId);
      }
    }
    goOn(now + 2 * LAG_MS);
    const spans = new Map(RUNS.map((runId) => [runId, commands.spans(runId, now)]));
    const holders = (/** @type {number} */ at) => RUNS.filter((runId) => spans.get(runId)?.some((span) => span.sinceUnixMs <= at && at <= span.untilUnixMs));
    for (let at = 1000; at < now - LAG_MS; at++) {
      // What is stamped with this moment was written then, or as long afterwards as the clock lags.
      const writers = new Set(busy.slice(at, at + LAG_MS).flatMap((who) => [...who]));
      const held = holders(at);
      assert.ok(held.length < 2, `${at} is ${held}'s`);
      for (const runId of held) {
        assert.deepEqual([...writers].filter((other) => other !== runId), [], `${at} is ${runId}'s although others were at work`);
        const near = busy.slice(at - 1, at + LAG_MS + 1);
        assert.ok(near.some((who) => who.has(runId)), `${at} is ${runId}'s although it was not at work`);
      }
      const around = [...Array(LAG_MS + 2).keys()].map((ms) => at - 1 + ms);
      const [alone] = commanding[at] ?? [];
      const isAlone = alone !== undefined && around.every((ms) => busy[ms]?.size === 1 && commanding[ms]?.has(alone));
      if (isAlone) assert.deepEqual(held, [alone], `${at} was ${alone}'s alone`);
    }
  });
});

test("of two runs that were at a file at most one has it, and a tool that writes has more to say than a command", () => {
  forEachSeed(2000, (luck) => {
    const deed = (sure = luck.below(2) === 0) => {
      const from = luck.below(60);
      return { name: "x", from, until: from + luck.below(40), sure };
    };
    const written = luck.below(100);
    const times = { written, changed: written + luck.one([0, 0, 5, 50]) };
    const [one, two] = [deed(), deed()];
    const isOnes = !isAnothers(times, one, [two]);
    const isTwos = !isAnothers(times, two, [one]);
    const at = (/** @type {number} */ time, /** @type {typeof one} */ { from, until }) => time >= from - LAG_MS && time <= until + LAG_MS;
    if (at(written, one) && at(written, two)) {
      assert.equal(isOnes && isTwos, false, "both");
      assert.equal(isOnes, one.sure && !two.sure);
      assert.equal(isTwos, two.sure && !one.sure);
    } else if (at(written, one) && !at(times.changed, two)) {
      assert.ok(isOnes, "nobody else was at it");
    }
    // A process that a command left running speaks only where nobody else does.
    const stray = { from: luck.below(60), until: Infinity, sure: false, leftBehind: true };
    if (at(written, one)) assert.equal(isAnothers(times, one, [stray]), false);
    assert.equal(isAnothers(times, undefined, [stray]), times.changed >= stray.from - LAG_MS);
  });
});

test("no file is told as the work of two runs, nor as that of one that did not name it or was not the last to write it", () => {
  forEachSeed(6, (luck) => {
    const folder = mkdtempSync(join(tmpdir(), "evidence-"));
    try {
      history(luck, folder);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

/**
 * @param {ReturnType<typeof chance>} luck
 * @param {string} folder
 */
function history(luck, folder) {
  const watch = new Watch(() => folder);
  const files = ["one.md", "two.md", "three.md"];
  const tell = (/** @type {string} */ runId, /** @type {string} */ stream, /** @type {Record<string, unknown>} */ data) =>
    watch.hear({ runId, stream, sessionKey: `agent:main:${runId}`, data });
  /** Who wrote each file last, and how. @type {Map<string, { who: string, sure: boolean }>} */
  const last = new Map();
  /** @type {Map<string, Set<string>>} */
  const named = new Map(RUNS.map((runId) => [runId, new Set()]));
  const write = (/** @type {string} */ name) => writeFileSync(join(folder, name), `${luck.below(1e9)}`);
  for (const runId of RUNS) tell(runId, "lifecycle", { phase: "start" });
  for (let step = 0; step < 9; step++) {
    const [runId, name] = [luck.one(RUNS), luck.one(files)];
    const toolCallId = `call-${step}`;
    const call = (/** @type {string} */ tool, /** @type {Record<string, unknown>} */ args, /** @type {() => void} */ work, isError = false) => {
      tell(runId, "tool", { phase: "start", name: tool, toolCallId, args });
      work();
      tell(runId, "tool", { phase: "result", name: tool, toolCallId, isError, result: {} });
      named.get(runId)?.add(name);
    };
    // Far enough apart that no clock is too coarse for it.
    pause(3 * LAG_MS);
    switch (luck.below(5)) {
      case 0:
        call("write", { path: name }, () => write(name));
        last.set(name, { who: runId, sure: true });
        break;
      case 1:
        call("exec", { command: `make > ${name}` }, () => write(name));
        last.set(name, { who: runId, sure: false });
        break;
      case 2:
        // It only reads, or fails.
        call(luck.one(["exec", "write"]), { command: `cat ${name}`, path: name }, () => {}, true);
        break;
      case 3:
        // A command that names nothing.
        call("exec", { command: "./build" }, () => write(name));
        named.get(runId)?.delete(name);
        last.set(name, { who: "unnamed", sure: false });
        break;
      default:
        write(name);
        last.set(name, { who: "somebody", sure: false });
    }
  }
  const told = RUNS.map((runId) => {
    const live = watch.run(runId);
    assert.ok(live);
    const { written, doubtful, othersFiles, maybeOthersFiles } = watch.evidence(live);
    const places = (/** @type {string[]} */ names) => names.map((name) => (name.startsWith("/") ? name : join(folder, name)));
    return { runId, written: places(written), doubtful: places(doubtful), othersFiles, maybeOthersFiles };
  });
  for (const name of files) {
    const place = join(folder, name);
    const { who, sure } = last.get(name) ?? { who: "nobody", sure: false };
    const has = told.filter((run) => run.written.includes(place)).map((run) => run.runId);
    for (const runId of has) assert.ok(named.get(runId)?.has(name), `${runId} has ${name} and never named it`);
    const current = statSync(place, { throwIfNoEntry: false });
    const telling = told.filter((run) => run.runId !== who && current && run.written.includes(place) && !run.doubtful.includes(place));
    if (RUNS.includes(who)) {
      assert.ok(has.includes(who), `${who} wrote ${name} (${sure ? "tool" : "command"}) and is not told`);
      assert.deepEqual(telling.map((run) => run.runId), [], `${name} is ${who}'s`);
      for (const run of told) if (run.runId !== who) assert.ok(run.othersFiles.includes(place) || run.doubtful.includes(place), `${run.runId} is not told that ${name} is ${who}'s`);
    }
  }
}

/** @param {number} ms */
function pause(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
