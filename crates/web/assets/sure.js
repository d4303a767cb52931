// Asks once more before something that cannot be taken back. The way back has the focus, so no key that was
// meant for something else goes on.

import { ticked } from './dom.js';
import { hold } from './steady.js';

// Longer than a double click.
const DOUBLE_CLICK_MS = 500;

let close; // what ends the question that is open

// Asks; true only if the person chooses to go on while `holds` still does.
export function sure({ title, text, yes, no }, holds = () => true) {
  const dialog = document.getElementById('sure');
  const [back, on] = dialog.querySelectorAll('.buttons button');
  dialog.querySelector('h2').textContent = title;
  dialog.querySelector('.told p').replaceChildren(...ticked(text));
  [back.textContent, on.textContent] = [no, yes];
  close?.(false);
  return new Promise((resolve) => {
    const outdated = () => holds() || finish(false);
    const finish = (answer) => {
      close = undefined;
      document.removeEventListener('refreshed', outdated);
      dialog.onclose = back.onclick = on.onclick = null;
      if (dialog.open) dialog.close();
      resolve(answer);
    };
    close = finish;
    dialog.onclose = () => finish(false);
    back.onclick = () => finish(false);
    on.onclick = () => finish(holds());
    document.addEventListener('refreshed', outdated);
    dialog.showModal();
    back.focus();
    hold(on, DOUBLE_CLICK_MS);
  });
}

// A permission that a key would give on a button that happens to have the focus is asked for once more.
export function begin() {
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-grants]');
    // A mouse or a finger is counted; a key is not.
    if (!button || event.detail > 0) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const form = button.form;
    const asked = form.closest('[data-card]')?.querySelector('.asked')?.textContent.trim() ?? '';
    const words = { title: button.textContent.trim(), text: asked, yes: 'Allow it', no: 'Back' };
    sure(words, () => button.isConnected).then((meant) => meant && form.requestSubmit(button));
  }, true);
}
