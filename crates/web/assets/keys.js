// The keyboard. Keys act only where nothing is being written.

const asked = new Map(); // when a question first stood on the page

export function begin() {
  note();
  document.addEventListener('refreshed', note);
  let went; // `g` was pressed
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return leave(event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select, [contenteditable]')) return;
    if (document.querySelector('dialog[open]')) return;
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

// A question that appeared this moment cannot have been meant.
function answer(key) {
  const form = document.querySelector('form[data-keys]');
  if (!form || Date.now() - asked.get(form.dataset.question) < 600) return false;
  return press(form.querySelector(`[data-key="${key}"]`));
}

function note() {
  for (const form of document.querySelectorAll('form[data-question]')) {
    if (!asked.has(form.dataset.question)) asked.set(form.dataset.question, document.readyState === 'complete' ? Date.now() : 0);
  }
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
