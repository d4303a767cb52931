// Forms that do something: the same fields as without script, sent to the local API, with the
// answer, or the reason against it, in place.

import { h, several, ticked } from './dom.js';
import { refresh } from './live.js';
import { Refused, rpc } from './rpc.js';
import { attached, forget } from './attach.js';
import { sure } from './sure.js';

const NAMED_FILES = 8; // files of the user's that are named one by one

// What the page before had to tell.
function tell() {
  const told = sessionStorage.getItem('told');
  sessionStorage.removeItem('told');
  if (told) document.querySelector('main header')?.after(h('p', { class: 'note', role: 'status' }, ...ticked(told)));
}

export function begin() {
  tell();
  // What a deletion would remove is asked for when the question is opened, not when the page was.
  document.addEventListener('toggle', ({ target }) => target.open && target.matches('details[data-fresh]') && refresh(), true);
  document.addEventListener('submit', (event) => {
    const form = event.target.closest('form[data-rpc]');
    if (!form) return;
    event.preventDefault();
    meant(form).then((yes) => yes && send(form, event.submitter));
  });
}

// Whether the person really wants this, where it cannot be taken back. A run that ended meanwhile, or that
// another one followed, is not the one that was asked about.
async function meant(form) {
  const { sure: title, about, yes, no, run } = form.dataset;
  return !title || sure({ title, text: about, yes, no }, () => form.isConnected && form.dataset.run === run);
}

async function send(form, button) {
  if (form.getAttribute('aria-busy') === 'true') return;
  const method = form.dataset.rpc;
  say(form, '');
  form.setAttribute('aria-busy', 'true');
  let done = false;
  try {
    const result = await rpc(method, await params(form, method, button));
    done = true;
    form.closest('.menu')?.removeAttribute('open');
    after(form, method, result);
  } catch (error) {
    say(form, error instanceof Refused ? `${error.message} (${error.code})` : error.message);
  } finally {
    form.removeAttribute('aria-busy');
  }
  // A deletion that was refused was asked about files that are others by now.
  if ((done || method === 'app.delete') && form.isConnected) await refresh();
}

async function params(form, method, button) {
  const fields = Object.fromEntries(new FormData(form, button ?? null));
  const words = (name) => (fields[name]?.trim() ? fields[name] : undefined);
  switch (method) {
    case 'app.send':
      return {
        thread: words('thread'),
        prompt: fields.prompt,
        runtime: words('runtime'),
        workingDirectory: words('workingDirectory')?.trim(),
        expect: (fields.expect ?? '').split('\n').map((line) => line.trim()).filter(Boolean).map((glob) => ({ glob })),
        inline: await attached(form),
        newSession: Boolean(fields.newSession),
        permissions: permitted(fields),
      };
    case 'app.retry':
      return { thread: fields.thread, newSession: Boolean(fields.newSession) };
    case 'app.answer':
      return words('optionId') ? { questionId: fields.questionId, optionId: fields.optionId } : { questionId: fields.questionId, text: fields.text };
    case 'app.queue.drop':
      return { thread: fields.thread, requestId: fields.requestId };
    case 'app.queue.edit':
      return { thread: fields.thread, requestId: fields.requestId, prompt: fields.prompt };
    case 'app.delete':
      return { thread: fields.thread, withMyFiles: Boolean(fields.withMyFiles), yoursDigest: words('yoursDigest') };
    case 'app.operator.cancel':
      return { threadId: fields.threadId, runId: fields.runId };
    default:
      return { thread: fields.thread };
  }
}

// The rules for permissions that were chosen; nothing when none was.
function permitted(fields) {
  const rules = Object.entries(fields).filter(([name, rule]) => name.startsWith('permit.') && rule);
  return rules.length ? Object.fromEntries(rules.map(([name, rule]) => [name.slice('permit.'.length), rule])) : undefined;
}

// The files that stayed, by name; of many, the first.
function named({ kept = [], keptTotal }) {
  const names = kept.slice(0, NAMED_FILES).map((file) => `\`${file.path}\``);
  const more = keptTotal.files - names.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

function after(form, method, result) {
  if (method === 'app.delete') {
    const told = [];
    if (result.pending) told.push(result.pending);
    if (result.keptFolder) told.push(`${several(result.keptTotal.files, 'file')} that you made or edited stayed in \`${result.keptFolder}\`: ${named(result)}.`);
    if (told.length) sessionStorage.setItem('told', ['The thread is deleted here.', ...told].join(' '));
    return location.assign('/threads?archived=1');
  }
  if (method === 'app.sync') {
    form.closest('dialog')?.close();
    if (form.closest('main.sight')) return location.assign(new FormData(form).get('back'));
  }
  if (method === 'app.queue.edit') {
    edits.delete(form);
    form.closest('details').open = false;
  }
  if (method !== 'app.send') return;
  forget(form);
  form.querySelector('.menu')?.removeAttribute('open');
  form.reset();
  drop(form);
  const field = form.querySelector('[data-write]');
  field.style.height = '';
  if (!form.closest('[data-thread]')) return location.assign(`/threads/${encodeURIComponent(result.thread.name)}`);
  if (result.notice) say(form, result.notice);
  document.dispatchEvent(new Event('sent'));
  field.focus();
}

// New words for a message that waits. If it stops waiting before they are saved, they go to the composer,
// beneath what stands there.
const edits = new Map();

export function keepEdits() {
  document.addEventListener('input', ({ target }) => target.matches('[data-edit]') && edits.set(target.form, target));
  document.addEventListener('refreshed', () => {
    for (const [form, field] of edits) {
      if (form.isConnected) continue;
      edits.delete(form);
      const composer = document.querySelector('.composer [data-write]');
      if (!composer || field.value === field.defaultValue) continue;
      composer.value = [composer.value, field.value].filter(Boolean).join('\n');
      composer.dispatchEvent(new Event('input', { bubbles: true }));
      say(composer.form, 'The message stopped waiting before you saved your changes. Your new words are here.');
    }
  });
}

function say(form, text) {
  const place = form.querySelector('.error');
  place.replaceChildren(...ticked(text));
  place.hidden = !text;
}

// What is being written is kept in this tab until it is sent.
const key = (form) => `draft:${form.dataset.draft}`;
const drop = (form) => sessionStorage.removeItem(key(form));

export function keepDrafts() {
  for (const form of document.querySelectorAll('form[data-draft]')) {
    const field = form.querySelector('[data-write]');
    field.value ||= sessionStorage.getItem(key(form)) ?? '';
    grow(field);
  }
  document.addEventListener('input', (event) => {
    const field = event.target.closest('[data-write]');
    if (!field) return;
    sessionStorage.setItem(key(field.form), field.value);
    grow(field);
  });
  // Not every browser presses a button that is not shown, and the next one would be an answer.
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.isComposing || !event.target.matches?.('.answers .own input')) return;
    event.preventDefault();
    event.target.form.requestSubmit(event.target.form.querySelector('.own button'));
  });
  document.addEventListener('keydown', (event) => {
    const field = event.target.closest?.('[data-write]');
    if (!field || event.key !== 'Enter' || event.isComposing) return;
    const chat = field.closest('.composer') && !event.shiftKey && !matchMedia('(pointer: coarse)').matches;
    if (!chat && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    field.form.requestSubmit();
  });
}

function grow(field) {
  field.style.height = 'auto';
  field.style.height = `${Math.min(field.scrollHeight, innerHeight * 0.4)}px`;
}
