// What a run does, as the log tells it: its steps, notes and questions, and its text while it comes.

import { h, several, shown, state, ticked } from './dom.js';
import { gone, on, refreshSoon } from './live.js';
import { morphChildren } from './morph.js';
import { changing } from './steady.js';
import { already, duration, size } from './times.js';

const PAGE = 1000; // events of the past that are fetched at once
const SHOWN = 200; // steps of a run that are drawn at once
const WAIT = 15000;

let runs = new Map();
const dirty = new Set();
let painting;

export function begin() {
  if (!document.querySelector('[data-thread]')) return;
  on('update', (update, id) => {
    begins(id);
    take(runs, update, id);
    mark(update.runId);
  });
  on('thread', refreshSoon);
  on('removed', gone);
  on('file', coming);
  document.addEventListener('refreshed', () => {
    for (const id of runs.keys()) mark(id);
    changing(settle);
  });
  document.addEventListener('sent', () => (following = true));
  document.addEventListener('click', unroll);
  document.querySelector('[data-earlier]').addEventListener('click', (event) => earlier(event.currentTarget));
  follow();
}

function take(all, update, id) {
  const whole = update.event === 'queued' || update.event === 'started';
  const run = all.get(update.runId) ?? { items: new Map(), text: '', from: update.at, whole, shown: SHOWN };
  all.set(update.runId, run);
  if (update.event === 'started') run.from = update.at;
  if (update.queue) run.queue = update.message;
  else if (update.event !== 'task.cancel_requested') run.queue = undefined;
  if (update.event === 'delta') run.text += update.text ?? '';
  // Half a message was cut off and is said anew. Of a run whose beginning was not read, only what comes now is known.
  if (update.event === 'delta.reset') run.text = run.whole ? [...run.text].slice(0, update.keep ?? 0).join('') : '';
  if (update.step) run.items.set(`s${update.step.stepId}`, { step: update.step, at: run.items.get(`s${update.step.stepId}`)?.at ?? update.at });
  if (update.event === 'task.note') run.items.set(`n${id}`, { note: update.message });
  if (update.question) run.items.set(`q${update.question.questionId}`, { question: update.question });
  if (update.event === 'task.cancel_requested') run.cancelling = true;
  if (update.event === 'task.verifying') run.verifying = true;
  if (update.status && update.status !== 'running' && !run.ended) Object.assign(run, { ended: update.status, to: update.at });
}

// The first event that comes says whether the page began in the middle of the log.
function begins(id) {
  const button = document.querySelector('[data-earlier]');
  if (button.dataset.earlier) return;
  button.dataset.earlier = id - 1;
  button.hidden = id <= 1;
}

// Fetches a piece from before where the page began.
async function earlier(button) {
  const until = Number(button.dataset.earlier);
  const after = Math.max(0, until - PAGE);
  button.disabled = true;
  try {
    for (const [id, run] of (await past(after, until)).entries()) {
      const newer = runs.get(id);
      // What is known already came later, so it wins; what came first stands first.
      if (newer) runs.set(id, { ...run, ...newer, from: run.from, whole: run.whole, text: run.text + newer.text, items: new Map([...run.items, ...newer.items]) });
      else runs.set(id, run);
      mark(id);
    }
    button.dataset.earlier = after;
    button.hidden = after === 0;
    button.textContent = 'Earlier steps';
  } catch {
    button.textContent = 'Earlier steps could not be read. Retry';
  } finally {
    button.disabled = false;
  }
}

async function past(after, until) {
  const url = new URL(document.body.dataset.events, location.href);
  url.searchParams.delete('last');
  url.searchParams.set('after', after);
  url.searchParams.set('until', until);
  const response = await fetch(url, { signal: AbortSignal.timeout(WAIT) });
  if (!response.ok) throw new Error(String(response.status));
  const found = new Map();
  for (const frame of (await response.text()).split('\n\n')) {
    const field = (name) => frame.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    if (field('event') === 'update') take(found, JSON.parse(field('data')), Number(field('id')));
  }
  return found;
}

// A long run is drawn from its end.
function unroll(event) {
  const button = event.target.closest('[data-unroll]');
  if (!button) return;
  runs.get(button.dataset.unroll).shown += PAGE;
  mark(button.dataset.unroll);
}

function mark(id) {
  dirty.add(id);
  painting ??= requestAnimationFrame(() => {
    painting = undefined;
    changing(() => {
      for (const run of dirty) paint(run);
      dirty.clear();
      settle();
    });
  });
}

function paint(id) {
  const place = document.querySelector(`.work[data-run="${CSS.escape(id)}"]`);
  if (!place) return;
  const run = runs.get(id);
  const notes = [...run.items.values()].filter((item) => item.note !== undefined);
  const answered = place.parentElement.querySelector(':scope > .said');
  const saying = run.text && !answered ? h('div', { class: run.ended ? 'said plain' : 'said plain saying' }, h('p', {}, run.whole ? run.text : `… ${run.text}`)) : undefined;
  const cut = saying && (run.ended === 'cancelled' || run.ended === 'failed');
  const unfinished = cut ? h('p', { class: 'small muted unfinished' }, 'Unfinished: the run ended before it had said the rest.') : undefined;
  const parts = [...notes.map((item) => h('p', { class: 'aside' }, ...ticked(item.note))), steps(run, id), saying, unfinished];
  // What the person is just clicking on, unfolding or selecting stays the same element.
  morphChildren(place, h('div', {}, ...parts));
  unfold(place.querySelector('details.steps'), run);
}

// Opened while it works, closed when it is done, and as the person wants it after that.
function unfold(card, run) {
  const now = run.ended ? 'ended' : 'going';
  if (!card || unfolded.get(card) === now) return;
  unfolded.set(card, now);
  card.open = !run.ended || run.ended === 'failed';
}
const unfolded = new WeakMap();

function steps(run, id) {
  // A question has its own place, and the step that asks says less than the question itself.
  const items = [...run.items.values()].filter((item) => item.step && item.step.tool !== 'ask_user');
  if (!items.length && run.ended) return undefined;
  const { look, word } = standing(run, items);
  // Without its beginning nobody knows how long it took.
  const num = { class: 'muted small num' };
  const took = !run.whole ? undefined : run.ended ? h('span', num, duration(run.to - run.from)) : h('span', { ...num, 'data-since': run.from }, already(run.from));
  const hidden = items.length - run.shown;
  const rest = hidden > 0 ? h('li', { class: 'rest' }, h('button', { type: 'button', class: 'quiet', 'data-unroll': id }, `${several(hidden, 'earlier step')}`)) : undefined;
  const lines = items.slice(Math.max(0, hidden)).map((item) => line(item, run));
  return h('details', { class: 'card steps' }, h('summary', {}, state(look), h('b', {}, word), took), h('ol', {}, rest, ...lines));
}

function standing(run, items) {
  const done = items.map((item) => item.step);
  const bad = done.filter((step) => step.state === 'failed').length;
  const told = (run.whole ? summary(done) : `The last ${several(done.length, 'step')}`) + (bad && bad === done.length ? ' that did not work' : bad ? `, ${bad} did not work` : '');
  const after = done.length && run.whole ? ` after ${several(done.length, 'step')}` : '';
  switch (run.ended) {
    case 'completed':
      return { look: 'done', word: told };
    case 'failed':
      return { look: 'failed', word: `Failed${after}` };
    case 'artifact_missing':
      return { look: 'failed', word: `${told}, but a promised file is missing` };
    case 'cancelled':
      return { look: '', word: `Cancelled${after}` };
  }
  if (run.cancelling) return { look: 'running', word: 'Cancelling' };
  if (run.queue) return { look: '', word: run.queue };
  if ([...run.items.values()].some((item) => item.question?.state === 'open')) return { look: 'waiting', word: 'Needs an answer' };
  if (run.verifying) return { look: 'running', word: 'Looking for its files' };
  const current = done.findLast((step) => step.state === 'running');
  return { look: 'running', word: current?.title ?? 'Working' };
}

// What it did, in a few words: “Read 4 files, wrote 3”.
function summary(steps) {
  const n = (...tools) => steps.filter((step) => tools.includes(step.tool) && step.state === 'done').length;
  const [read, wrote] = [n('read_file'), n('write_file', 'edit_file')];
  if (read && wrote) return `Read ${several(read, 'file')}, wrote ${wrote}`;
  if (wrote) return `Wrote ${several(wrote, 'file')}`;
  if (read) return `Read ${several(read, 'file')}`;
  return steps.length ? several(steps.length, 'step') : 'Done';
}

const STEP = { running: 'running', done: 'done', failed: 'failed' };
const WORD = { running: 'running', done: 'done', failed: 'did not work' };

function line(item, run) {
  const { step } = item;
  // A step that was running when its run ended does not run any more.
  const cut = step.state === 'running' && run.ended;
  const look = cut ? '' : STEP[step.state];
  const word = cut ? 'cut off' : WORD[step.state];
  const took = step.durationMs !== undefined ? duration(step.durationMs) : step.state === 'running' && !cut ? h('span', { 'data-since': item.at }, already(item.at)) : '';
  const title = step.detail ? h('details', {}, h('summary', {}, step.title), h('pre', {}, step.detail)) : step.title;
  return h('li', {}, mark_of(look, word), h('span', { class: 'title' }, title), h('span', { class: 'muted small num' }, took));
}

function mark_of(look, word) {
  const mark = state(look);
  mark.append(h('span', { class: 'hidden' }, word));
  return mark;
}

// Files on their way.
function coming(file) {
  const place = document.getElementById('coming');
  const id = shown(`coming-${file.path}`);
  let row = document.getElementById(id);
  if (file.verified) {
    row?.remove();
    return refreshSoon();
  }
  if (!row) {
    row = h('div', { id, class: 'file' }, h('span', { class: 'kind' }, '↓'), h('span', { class: 'name' }, file.path), h('span', { class: 'muted small num' }), h('progress', { 'aria-label': file.path }));
    place.append(row);
  }
  row.children[2].textContent = `${size(file.done)} of ${size(file.total)}`;
  row.lastElementChild.max = Math.max(1, file.total);
  row.lastElementChild.value = file.done;
}

// The newest is kept in sight until the person scrolls away from it. On a wide screen the
// conversation scrolls by itself, on a narrow one the page does, with the composer above its end.
let following = true;

function box() {
  const flow = document.getElementById('flow');
  return getComputedStyle(flow).overflowY === 'visible' ? undefined : flow;
}

// How much of the conversation is out of sight.
function beneath() {
  const flow = box();
  if (flow) return flow.scrollHeight - flow.scrollTop - flow.clientHeight;
  const edge = (id) => document.getElementById(id).getBoundingClientRect();
  return edge('turns').bottom - edge('composer').top;
}

function settle() {
  const flow = box();
  if (following && flow) flow.scrollTop = flow.scrollHeight;
  else if (following && beneath() > 0) scrollBy({ top: beneath() + 16, behavior: 'instant' });
  document.querySelector('[data-newest]').hidden = following || beneath() < 80;
}

function follow() {
  const noticed = () => {
    following = beneath() < 80;
    document.querySelector('[data-newest]').hidden = following;
  };
  document.getElementById('flow').addEventListener('scroll', noticed, { passive: true });
  addEventListener('scroll', noticed, { passive: true });
  document.querySelector('[data-newest]').addEventListener('click', () => {
    following = true;
    settle();
  });
  settle();
}
