// Elements from words: children that are text stay text.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export function state(look, word = '') {
  return h('span', { class: `state ${look}` }, h('span', { class: 'dot', 'aria-hidden': 'true' }), word);
}

// A sentence in which backticks stand around what is code.
export function ticked(text) {
  const parts = String(text ?? '').split('`');
  if (parts.length % 2 === 0) return [text];
  return parts.map((part, n) => (n % 2 && part ? h('code', {}, part) : part)).filter((part) => part !== '');
}

export const several = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
