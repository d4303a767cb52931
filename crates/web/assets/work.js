// What a run does, as the log tells it: its steps, notes and questions, and its text while it comes.

import { h, several, state } from './dom.js';
import { on, refreshSoon } from './live.js';
import { morphChildren } from './morph.js';
import { already, duration, size } from './times.js';

const runs = new Map();
const dirty = new Set();
let painting;

export function begin() {
  if (!document.querySelector('[data-thread]')) return;
  on('update', take);
  on('thread', refreshSoon);
  // Only an archived thread can be removed, here or elsewhere.
  on('removed', () => location.assign('/threads?archived=1'));
  on('file', coming);
  document.addEventListener('refreshed', () => {
    for (const id of runs.keys()) mark(id);
    settle();
  });
  document.addEventListener('sent', () => (following = true));
  follow();
}

function take(update) {
  const id = update.runId;
  const run = runs.get(id) ?? { items: new Map(), text: '', from: update.at };
  runs.set(id, run);
  if (update.event === 'started') run.from = update.at;
  if (update.queue) run.queue = update.message;
  else if (update.event !== 'task.cancel_requested') run.queue = undefined;
  if (update.event === 'delta') run.text += update.text ?? '';
  if (update.step) run.items.set(`s${update.step.stepId}`, { step: update.step, at: run.items.get(`s${update.step.stepId}`)?.at ?? update.at });
  if (update.event === 'task.note') run.items.set(`n${run.items.size}`, { note: update.message });
  if (update.question) run.items.set(`q${update.question.questionId}`, { question: update.question });
  if (update.event === 'task.cancel_requested') run.stopping = true;
  if (update.event === 'task.verifying') run.verifying = true;
  if (update.status && update.status !== 'running' && !run.ended) Object.assign(run, { ended: update.status, to: update.at });
  mark(id);
}

function mark(id) {
  dirty.add(id);
  painting ??= requestAnimationFrame(() => {
    painting = undefined;
    for (const run of dirty) paint(run);
    dirty.clear();
    settle();
  });
}

function paint(id) {
  const place = document.querySelector(`.work[data-run="${CSS.escape(id)}"]`);
  if (!place) return;
  const run = runs.get(id);
  const notes = [...run.items.values()].filter((item) => item.note !== undefined);
  const answered = place.parentElement.querySelector(':scope > .said');
  const saying = run.text && !answered ? h('div', { class: run.ended ? 'said plain' : 'said plain saying' }, h('p', {}, run.text)) : undefined;
  const parts = [...notes.map((item) => h('p', { class: 'aside' }, item.note)), steps(run), saying];
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

function steps(run) {
  // The step that asks says less than the question itself.
  const items = [...run.items.values()].filter((item) => item.note === undefined && item.step?.tool !== 'ask_user');
  if (!items.length && run.ended) return undefined;
  const { look, word } = standing(run, items);
  const took = run.ended ? h('span', { class: 'muted small num' }, duration(run.to - run.from)) : h('span', { class: 'muted small num', 'data-since': run.from }, already(run.from));
  return h('details', { class: 'card steps' }, h('summary', {}, state(look), h('b', {}, word), took), h('ol', {}, ...items.map((item) => line(item, run))));
}

function standing(run, items) {
  const done = items.filter((item) => item.step).map((item) => item.step);
  const bad = done.filter((step) => step.state === 'failed').length;
  const told = summary(done) + (bad && bad === done.length ? ' that did not work' : bad ? `, ${bad} did not work` : '');
  switch (run.ended) {
    case 'completed':
      return { look: 'done', word: told };
    case 'failed':
      return { look: 'failed', word: `Failed after ${several(done.length, 'step')}` };
    case 'artifact_missing':
      return { look: 'failed', word: `${told}, but a promised file is missing` };
    case 'cancelled':
      return { look: '', word: `Stopped after ${several(done.length, 'step')}` };
  }
  if (run.stopping) return { look: 'running', word: 'Stopping' };
  if (run.queue) return { look: '', word: run.queue };
  if (items.some((item) => item.question?.state === 'open')) return { look: 'waiting', word: 'Needs an answer' };
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
  if (item.question) return asked(item.question);
  const { step } = item;
  // A step that was running when its run ended does not run any more.
  const cut = step.state === 'running' && run.ended;
  const look = cut ? '' : STEP[step.state];
  const word = cut ? 'cut off' : WORD[step.state];
  const took = step.durationMs !== undefined ? duration(step.durationMs) : step.state === 'running' && !cut ? h('span', { 'data-since': item.at }, already(item.at)) : '';
  const title = step.detail ? h('details', {}, h('summary', {}, step.title), h('pre', {}, step.detail)) : step.title;
  return h('li', {}, mark_of(look, word), h('span', { class: 'title' }, title), h('span', { class: 'muted small num' }, took));
}

function asked(question) {
  const words = {
    open: ['waiting', 'waits for you'],
    answered: ['done', 'answered'],
    declined: ['', 'declined'],
    expired: ['', 'its time ran out'],
    withdrawn: ['', 'withdrawn'],
  }[question.state] ?? ['', question.state];
  const chosen = question.answer?.text ?? question.options?.find((option) => option.optionId === question.answer?.optionId)?.label;
  const text = ['Asked: ', question.text, chosen ? h('b', {}, ` ${chosen}`) : ` (${words[1]})`];
  return h('li', {}, mark_of(...words), h('span', { class: 'title' }, ...text), h('span'));
}

function mark_of(look, word) {
  const mark = state(look);
  mark.append(h('span', { class: 'hidden' }, word));
  return mark;
}

// Files on their way.
function coming(file) {
  const place = document.getElementById('coming');
  const id = `coming-${file.path}`;
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
