// Why a request was not done, as the gateway tells it to the caller.

/** A request that is answered with an error. */
export class Refusal extends Error {
  /**
   * @param {string} code what programs look at
   * @param {string} message a sentence for people
   * @param {{ retryable?: boolean, retryAfterMs?: number, details?: Record<string, unknown> }} [more]
   */
  constructor(code, message, more = {}) {
    super(message);
    this.name = "Refusal";
    this.code = code;
    this.more = more;
  }

  /** The error of the gateway's answer. */
  toJSON() {
    return { code: this.code, message: this.message, ...this.more };
  }
}

/** @param {string} message */
export const invalid = (message) => new Refusal("INVALID_REQUEST", message);

/** @param {string} message */
export const conflict = (message) => new Refusal("CONFLICT", message);

/**
 * Anything that was thrown, as a refusal. When its settings change, the gateway loads these files anew,
 * and what registrations share throws refusals of the class that was there before.
 * @param {unknown} thrown
 * @returns {Refusal}
 */
export function asRefusal(thrown) {
  if (thrown instanceof Error && thrown.name === Refusal.name) return /** @type {Refusal} */ (thrown);
  return new Refusal("UNAVAILABLE", thrown instanceof Error ? thrown.message : String(thrown), { retryable: true });
}
