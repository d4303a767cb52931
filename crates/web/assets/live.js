// One event stream per page. It is closed while nobody looks, goes on after the last number it had,
// and says so when it is gone for longer than a moment.

import { morph } from './morph.js';
import { changing } from './steady.js';

const PATIENCE = 5000;

let source;
let last = 0;
let opened = false;
let lost;
let late;
let retry;
const listeners = [];

export function on(event, listener) {
  listeners.push([event, listener]);
}

export function begin() {
  const url = document.body.dataset.events;
  if (!url) return;
  connect();
  document.addEventListener('visibilitychange', () => (document.hidden ? end() : again()));
  addEventListener('pagehide', end);
  const every = Number(document.querySelector('[data-every]')?.dataset.every);
  if (every) setInterval(() => document.hidden || refresh(), every * 1000);
  addEventListener('pageshow', (event) => event.persisted && again());
}

function again() {
  connect();
  refresh();
}

function connect() {
  end();
  if (document.hidden) return;
  const url = new URL(document.body.dataset.events, location.href);
  if (last > 0) {
    url.searchParams.delete('last');
    url.searchParams.set('after', last);
  }
  source = new EventSource(url);
  source.onopen = () => {
    if (opened && lost) refresh();
    opened = true;
    found();
  };
  source.onerror = () => {
    missing();
    // The browser comes back by itself after a cut, but not after an answer that is no stream.
    if (source?.readyState === EventSource.CLOSED) retry = setTimeout(connect, 3000);
  };
  for (const [event, listener] of listeners) {
    source.addEventListener(event, (message) => {
      if (message.lastEventId) last = Math.max(last, Number(message.lastEventId));
      listener(JSON.parse(message.data), Number(message.lastEventId));
    });
  }
}

function end() {
  clearTimeout(retry);
  source?.close();
  source = undefined;
}

function found() {
  clearTimeout(late);
  lost = undefined;
  tell('running', 'Live');
  banner('');
}

function missing() {
  if (lost) return;
  lost = Date.now();
  tell('waiting', 'Reconnecting');
  late = setTimeout(() => banner('Reconnecting… What you see may be out of date. What you write is kept.'), PATIENCE);
}

function tell(look, word) {
  const link = document.getElementById('link');
  if (!link) return;
  link.className = `live state ${look}`;
  link.lastElementChild.textContent = word;
}

function banner(text) {
  const element = document.getElementById('banner');
  element.textContent = text;
  element.hidden = !text;
}

let busy;
let more = false;

// Fetches the page again and swaps what changed. Calls that come meanwhile become one.
export function refresh() {
  if (busy) {
    more = true;
    return busy;
  }
  busy = swap().finally(() => {
    busy = undefined;
    if (more) {
      more = false;
      refresh();
    }
  });
  return busy;
}

let soon;
export function refreshSoon() {
  soon ??= setTimeout(() => {
    soon = undefined;
    refresh();
  }, 120);
}

// The thread of this page was removed, here or elsewhere; only an archived one can be. Who deletes it here is
// led away by the answer, which says what stayed.
export function gone() {
  if (!document.querySelector('form[data-rpc="app.delete"][aria-busy="true"]')) location.assign('/threads?archived=1');
}

async function swap() {
  let fresh;
  try {
    const response = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (response.status === 404 && document.querySelector('[data-thread]')) return gone();
    if (!response.ok) return;
    fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  } catch {
    return; // the stream notices that nobody answers
  }
  const style = (page) => page.querySelector('link[rel=stylesheet]')?.getAttribute('href');
  if (style(fresh) !== style(document)) return location.reload();
  document.title = fresh.title;
  const focused = document.activeElement;
  changing(() => {
    for (const region of document.querySelectorAll('[data-live]')) {
      const wanted = fresh.getElementById(region.id);
      if (wanted) morph(region, wanted);
    }
  });
  // What was moved has lost the focus on its way.
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  document.dispatchEvent(new Event('refreshed'));
}
