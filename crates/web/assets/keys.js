// The keyboard. Keys act only where nothing is being written.

import { isStill } from './steady.js';

export function begin() {
  let went; // `g` was pressed
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return leave(event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, [contenteditable]')) return;
    if (event.repeat || document.querySelector('dialog[open]')) return;
    const go = went && { h: '/', t: '/threads', o: '/operator' }[event.key];
    clearTimeout(went);
    went = event.key === 'g' ? setTimeout(() => (went = undefined), 1200) : undefined;
    if (go) return location.assign(go);
    if (act(event.key)) event.preventDefault();
  });
  document.addEventListener('click', click);
}

function act(key) {
  if (key === 'n') return location.assign('/new'), true;
  if (key === '?') return show('help'), true;
  if (key === '/') return focus();
  if (key === '.') return press(document.querySelector('[data-cancel]'));
  if (key === 'j') return choose(1);
  if (key === 'k') return choose(-1);
  if (/^[1-9]$/.test(key)) return answer(key);
  return false;
}

function focus() {
  const field = document.querySelector('[data-search], [data-write]');
  field?.focus();
  return Boolean(field);
}

function press(button) {
  button?.click();
  return Boolean(button);
}

// The next or the last question gets the focus: it is the one that a number answers.
function choose(step) {
  const cards = [...document.querySelectorAll('[data-card]')];
  const at = cards.indexOf(chosen());
  const next = cards[at < 0 ? (step > 0 ? 0 : cards.length - 1) : at + step];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
  return Boolean(next);
}

const chosen = () => document.activeElement?.closest('[data-card]');

// Only the question that the person has chosen, and only when nothing moves. A permission has no numbers.
function answer(key) {
  const card = chosen();
  return Boolean(card) && isStill() && press(card.querySelector(`[data-key="${key}"]`));
}

function leave(event) {
  for (const menu of document.querySelectorAll('details.menu[open]')) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
  if (event.target.closest('input, textarea')) event.target.blur();
}

export function show(id) {
  const dialog = document.getElementById(id);
  if (!dialog.open) dialog.showModal();
}

function click(event) {
  const target = event.target;
  const open = target.closest('[data-open]');
  if (open) show(open.dataset.open);
  const dialog = target.closest('dialog');
  if (target.closest('[data-close]') || target === dialog) dialog?.close();
  for (const menu of document.querySelectorAll('details.menu[open]')) if (!menu.contains(target)) menu.open = false;
  const copy = target.closest('[data-copy]');
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => {
    copy.textContent = 'Copied';
    setTimeout(() => (copy.textContent = 'Copy'), 1500);
  });
}
