// Whatever has just come, or has moved under the pointer, cannot have been meant: for a moment it does
// nothing. So does a key, after the list of what can be answered has changed. While a page is drawn for the
// first time nobody has aimed at anything on it yet: what only moves then is not held, unless it is a permission.

const STILL_MS = 1500;
const FIRST_DRAWN_MS = 3000;
const PRESENCE = ['pointermove', 'pointerdown', 'wheel', 'keydown'];

let changed = performance.now();
let isPresent = false; // the person has done something on this page
const timers = new WeakMap();

export function begin() {
  for (const kind of PRESENCE) {
    const there = () => (isPresent = true);
    document.addEventListener(kind, there, { capture: true, once: true, passive: true });
  }
  document.addEventListener('click', refuse, true);
}

// Whether what can be answered has stood as it is for long enough to be read.
export const isStill = () => performance.now() - changed >= STILL_MS;

const guarded = () => [...document.querySelectorAll('[data-guard]')];

function place(element) {
  const { left, top } = element.getBoundingClientRect();
  return { left, top };
}

// Makes a change of the page that the person did not make, and holds what it has moved or brought.
export function changing(how) {
  const before = new Map(guarded().map((element) => [element, place(element)]));
  how();
  const after = guarded();
  const listed = new Set(after);
  const isSameList = after.length === before.size && [...before.keys()].every((element) => listed.has(element));
  const isFirst = isSameList && !isPresent && performance.now() < FIRST_DRAWN_MS;
  for (const element of after) {
    const was = before.get(element);
    before.delete(element);
    const is = place(element);
    const moved = !was || Math.hypot(is.left - was.left, is.top - was.top) > 2;
    const isFree = isFirst && !element.querySelector('[data-grants]');
    if (moved && !isFree) hold(element, STILL_MS);
  }
  if (before.size) changed = performance.now();
}

// Holds one element for so long.
export function hold(element, ms) {
  changed = performance.now();
  element.setAttribute('data-settling', '');
  clearTimeout(timers.get(element));
  timers.set(element, setTimeout(() => element.removeAttribute('data-settling'), ms));
}

function refuse(event) {
  // What somebody has written is meant, wherever it stands by now.
  if (!event.target.closest('button[data-settling], [data-settling] button:not([data-text])')) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}
