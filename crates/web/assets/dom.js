// Elements from words: children that are text stay text.

// A text from elsewhere as a page shows it: what would turn the direction of what is read, and control
// characters, stand there as the replacement character. The server does the same (`shown.rs`).
export const shown = (text) => String(text).replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '\ufffd');

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : shown(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false).map((child) => (child instanceof Node ? child : shown(child))));
  return element;
}

export function state(look, word = '') {
  return h('span', { class: `state ${look}` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), word);
}

// A sentence in which backticks stand around what is code.
export function ticked(text) {
  const safe = shown(text ?? '');
  const parts = safe.split('`');
  if (parts.length % 2 === 0) return [safe];
  return parts.map((part, n) => (n % 2 && part ? h('code', {}, part) : part)).filter((part) => part !== '');
}

export const several = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
