// A file's page, in a sheet above the thread. The link leads to the page itself in a new tab.

import { h } from './dom.js';
import { show } from './keys.js';

export function begin() {
  const sheet = document.getElementById('preview');
  if (!sheet) return;
  sheet.addEventListener('close', () => sheet.replaceChildren());
  document.addEventListener('click', async (event) => {
    const link = event.target.closest('[data-preview]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    try {
      const response = await fetch(link.href, { headers: { accept: 'text/html' } });
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const sight = page.getElementById('sight');
      sheet.replaceChildren(...(sight ? [document.adoptNode(sight)] : instead(page)));
      show('preview');
      sheet.scrollTop = 0;
    } catch {
      location.assign(link.href);
    }
  });
}

// Another page came in place of the file's: what it says, small, and a way out.
function instead(page) {
  const title = page.querySelector('h1')?.textContent ?? 'That did not work';
  const close = h('button', { class: 'quiet icon', type: 'button', 'data-close': true, 'aria-label': 'Close' }, '×');
  const told = [...page.querySelectorAll('main p:not(.brand)')].map((p) => document.adoptNode(p));
  return [h('header', {}, h('h2', {}, title), close), h('div', { class: 'told' }, ...told)];
}
