// Files that go with a message: chosen, dropped or pasted.

import { h } from './dom.js';
import { size } from './times.js';
import { Refused } from './rpc.js';

const held = new WeakMap();

export function begin() {
  document.addEventListener('change', (event) => {
    const input = event.target.closest('[data-files]');
    if (!input) return;
    add(input.form, input.files);
    input.value = '';
  });
  document.addEventListener('paste', (event) => {
    const form = event.target.closest?.('form[data-send]');
    if (form && event.clipboardData.files.length) {
      event.preventDefault();
      add(form, event.clipboardData.files, 'pasted');
    }
  });
  drops();
}

function drops() {
  const form = () => document.querySelector('form[data-send]');
  const carries = (event) => event.dataTransfer?.types.includes('Files') && form();
  let inside = 0;
  const mark = () => document.body.classList.toggle('dropping', inside > 0);
  addEventListener('dragenter', (event) => carries(event) && (inside++, mark()));
  addEventListener('dragleave', (event) => carries(event) && (inside--, mark()));
  addEventListener('dragover', (event) => carries(event) && event.preventDefault());
  addEventListener('drop', (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    inside = 0;
    mark();
    add(form(), event.dataTransfer.files);
  });
}

function add(form, files, named) {
  const list = held.get(form) ?? [];
  for (const file of files) list.push({ file, name: named ? distinct(list, file.name) : file.name });
  held.set(form, list);
  draw(form);
}

// Everything that is pasted is called image.png.
function distinct(list, name) {
  const dot = name.lastIndexOf('.');
  const [stem, end] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ''];
  let n = 1;
  while (list.some((held) => held.name === (n === 1 ? name : `${stem}-${n}${end}`))) n++;
  return n === 1 ? name : `${stem}-${n}${end}`;
}

function draw(form) {
  const list = held.get(form) ?? [];
  form.querySelector('[data-chips]').replaceChildren(
    ...list.map((item) => {
      const remove = h('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${item.name}` }, '×');
      remove.addEventListener('click', () => {
        held.set(form, list.filter((other) => other !== item));
        draw(form);
      });
      return h('span', { class: 'chip' }, h('span', { class: 'name' }, item.name), h('span', { class: 'muted' }, size(item.file.size)), remove);
    }),
  );
}

export function forget(form) {
  held.delete(form);
  draw(form);
}

export async function attached(form) {
  const list = held.get(form) ?? [];
  const limits = form.querySelector('[data-files]')?.dataset;
  const all = list.reduce((sum, { file }) => sum + file.size, 0);
  const large = list.find(({ file }) => file.size > Number(limits.one));
  if (large) throw new Refused(`${large.name} has ${size(large.file.size)}; one attachment may have ${size(Number(limits.one))}. Put it into a folder and name that folder instead.`, 'ATTACHMENT_TOO_LARGE');
  if (all > Number(limits?.all)) throw new Refused(`The attachments have ${size(all)} together; ${size(Number(limits.all))} are allowed.`, 'ATTACHMENT_TOO_LARGE');
  return Promise.all(list.map(async ({ file, name }) => ({ name, mimeType: file.type || undefined, content: await base64(file), sizeBytes: file.size })));
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1));
    reader.onerror = () => reject(new Refused(`${file.name} cannot be read any more. Attach it again.`, 'ATTACHMENT_INVALID'));
    reader.readAsDataURL(file);
  });
}
