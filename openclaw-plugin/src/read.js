// Reads what callers send with patience: older ones are sloppy.

/**
 * A text without the space around it; numbers and truth values count as texts, and `<nil>` as nothing.
 * @param {unknown} value
 * @returns {string | undefined}
 */
export function text(value) {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value !== "string") return undefined;
  const trimmed = value.trim();
  return trimmed === "" || trimmed === "<nil>" ? undefined : trimmed;
}

/**
 * @param {unknown} value
 * @returns {string[]}
 */
export function texts(value) {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item) => (typeof item === "string" && item.trim() !== "" ? [item.trim()] : []));
}

/**
 * @param {unknown} value
 * @returns {Record<string, unknown>}
 */
export function object(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? /** @type {Record<string, unknown>} */ (value)
    : {};
}

/**
 * A number that is not below zero.
 * @param {unknown} value
 * @returns {number | undefined}
 */
export function amount(value) {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number >= 0 ? Math.floor(number) : undefined;
}
