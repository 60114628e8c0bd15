/** The last few things that were made, by name: the least recently used goes first.
 *  @template T */
export class Kept {
  /** @type {Map<string, T>} */ #held = new Map();

  /** @param {number} size */
  constructor(size) {
    this.size = size;
  }

  /** What is kept by this name, or what is made now.
   *  @param {any} name a text, or what has one @param {() => T} make @returns {T} */
  get(name, make) {
    const key = String(name);
    const found = this.peek(key) ?? make();
    this.#held.delete(key); // to the end of the line
    this.#held.set(key, found);
    if (this.#held.size > this.size) {
      this.#held.delete(/** @type {string} */ (this.#held.keys().next().value));
    }
    return found;
  }

  /** What is kept by this name, if anything is. @param {any} name @returns {T | undefined} */
  peek(name) {
    return this.#held.get(String(name));
  }

  /** @param {any} name */
  drop(name) {
    this.#held.delete(String(name));
  }
}
