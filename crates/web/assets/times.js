// Times that go on: how long ago, how long already, and the hour where the person is.

import { several } from './dom.js';

export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
}

export function size(bytes) {
  let value = bytes;
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (value < 999.5) return `${value.toFixed(value < 9.95 && unit !== 'B' ? 1 : 0)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
}

function ago(ms, at) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${several(minutes, 'minute')} ago`;
  if (minutes < 1440) return `${several(Math.floor(minutes / 60), 'hour')} ago`;
  if (minutes < 10080) return `${several(Math.floor(minutes / 1440), 'day')} ago`;
  return at.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' });
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tell() {
  const now = Date.now();
  for (const element of document.querySelectorAll('time[datetime]')) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    if ('ago' in element.dataset) set(element, ago(now - at, at));
    else if ('clock' in element.dataset) set(element, at.toLocaleTimeString([], { hour: 'numeric', minute: '2-digit' }));
    else if ('moment' in element.dataset) set(element, at.toLocaleString([], { day: 'numeric', month: 'short', hour: 'numeric', minute: '2-digit', second: '2-digit' }));
    element.title ||= at.toLocaleString();
  }
}

// How long already, in whole seconds.
export function already(since) {
  const s = Math.max(0, Math.floor((Date.now() - Number(since)) / 1000));
  return s < 60 ? `${s} s` : duration(s * 1000);
}

function count() {
  for (const element of document.querySelectorAll('[data-since]')) set(element, already(element.dataset.since));
}

export function begin() {
  tell();
  count();
  setInterval(tell, 20000);
  setInterval(count, 1000);
  document.addEventListener('refreshed', () => (tell(), count()));
}
