// Makes an element like another one while keeping what the person does with it: focus, scroll,
// what they typed, what they unfolded. Elements marked `data-own` belong to the script.

export function morph(old, fresh) {
  if (old.hasAttribute('data-own')) {
    if (fresh.dataset.run) old.dataset.run = fresh.dataset.run;
    return;
  }
  if (old.getAttribute('aria-busy') === 'true') return;
  attributes(old, fresh);
  if (old.localName === 'textarea' || old.localName === 'iframe') return;
  morphChildren(old, fresh);
}

// What the person or the browser changes on an element by themselves.
const THEIRS = new Set(['open', 'value', 'checked', 'style', 'hidden', 'data-settling']);

function attributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (!THEIRS.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!THEIRS.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.localName === 'input' && old.type === 'hidden') old.value = fresh.value;
}

export function morphChildren(old, fresh) {
  const kept = new Map();
  for (const child of old.children) if (child.id) kept.set(child.id, child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    let match = wanted.id ? kept.get(wanted.id) : undefined;
    if (!match && at && similar(at, wanted)) match = at;
    if (!match) {
      old.insertBefore(document.adoptNode(wanted), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    if (match.nodeType === Node.ELEMENT_NODE) morph(match, wanted);
    else if (match.data !== wanted.data) match.data = wanted.data;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function similar(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.id && !b.id && (a.getAttribute?.('name') ?? '') === (b.getAttribute?.('name') ?? '');
}
