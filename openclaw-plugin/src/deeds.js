// Who wrote a file last, when several runs say that they did.

/** The clock that stamps files is a little behind. */
export const LAG_MS = 10;

/**
 * @typedef {object} Deed that a file was written
 * @property {string} name as the run names it
 * @property {number} from
 * @property {number} until
 * @property {boolean} sure a tool that writes says so; a command only names what changed meanwhile
 *
 * @typedef {Omit<Deed, "name"> & { leftBehind?: boolean }} Theirs what another run did at a place. A process that its command left
 *   running (`leftBehind`) may write there at any time, so it speaks only where nobody else does.
 *
 * @typedef {object} Times of a file
 * @property {number} written when it was last written to, which anybody can set
 * @property {number} changed when it, its name or its rights changed
 */

/**
 * Whether what a file holds now may be another run's, also when a run wrote it once: it changed while
 * another one was at it. When both were at it, a tool that writes it has more to say than a command
 * that names it, and of two alike nobody can tell.
 * @param {Times} times
 * @param {Deed | undefined} own
 * @param {Iterable<Theirs>} theirs
 */
export function isAnothers({ written, changed }, own, theirs) {
  const during = (/** @type {number} */ time, /** @type {Omit<Deed, "name">} */ { from, until }) => time >= from - LAG_MS && time <= until + LAG_MS;
  const mine = own !== undefined && during(written, own);
  // Other rights make it nobody else's; a file that came by a move has an older time of writing.
  const of = (/** @type {Theirs} */ deed) => during(written, deed) || (!mine && during(changed, deed));
  for (const deed of theirs) if (of(deed) && !(mine && (deed.leftBehind || (own.sure && !deed.sure)))) return true;
  return false;
}
