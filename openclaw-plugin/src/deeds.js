// Who wrote a file last, when several runs say that they did.

/** The clock that stamps files is a little behind. */
export const LAG_MS = 10;

/**
 * @typedef {object} Deed that a file was written
 * @property {string} name as the run names it
 * @property {number} from
 * @property {number} until
 * @property {boolean} sure a tool that writes says so; a command only names what changed meanwhile
 */

/**
 * Whether what a file holds now may be another run's, although a run wrote it once: it changed while
 * another one was at it. When both were at it, a tool that writes it has more to say than a command
 * that names it, and of two alike nobody can tell.
 * @param {number} changed when it was last written to
 * @param {Deed} own
 * @param {Iterable<Omit<Deed, "name">>} theirs
 */
export function isAnothers(changed, own, theirs) {
  const during = (/** @type {Omit<Deed, "name">} */ { from, until }) => changed >= from - LAG_MS && changed <= until + LAG_MS;
  const mine = during(own);
  for (const deed of theirs) if (during(deed) && !(mine && own.sure && !deed.sure)) return true;
  return false;
}
