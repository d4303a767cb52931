// Times that go on: how long ago, how long already, and the hour where the person is.

// As `contract/src/amounts.rs` says it, which writes the page at first.

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
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  while (value >= 999.5 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${value.toFixed(value < 9.95 && units[0] !== 'B' ? 1 : 0)} ${units[0]}`;
}

function ago(ms, at) {
  const minutes = Math.floor(ms / 60000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  if (minutes < 2880) return 'yesterday';
  if (minutes < 20160) return `${Math.floor(minutes / 1440)} days ago`;
  const two = (number) => String(number).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
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
