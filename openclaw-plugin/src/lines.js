// Cuts a stream of bytes into lines, without copying a long line more than once.

const NEWLINE = 0x0a;

/**
 * @param {(line: string) => void} onLine
 * @returns {(chunk: Buffer) => void}
 */
export function lines(onLine) {
  /** @type {Buffer[]} */
  let begun = [];
  return (chunk) => {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
      begun.push(chunk.subarray(from, at));
      const line = begun.length === 1 ? /** @type {Buffer} */ (begun[0]) : Buffer.concat(begun);
      begun = [];
      from = at + 1;
      onLine(line.toString("utf8"));
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
  };
}
