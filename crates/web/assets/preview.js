// A file's page, in a sheet above the thread. The link leads to the page itself in a new tab.

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
      const sight = page.getElementById('sight') ?? page.getElementById('main');
      sheet.replaceChildren(document.adoptNode(sight));
      show('preview');
      sheet.scrollTop = 0;
    } catch {
      location.assign(link.href);
    }
  });
}
