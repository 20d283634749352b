/** @typedef {import('./index.js').CacheEntry} CacheEntry */

/** A cache in memory. When it is full, it drops the oldest entry. */
export class MemoryCache {
  #size;
  /** @type {Map<string, CacheEntry>} oldest first */
  #entries = new Map();

  /** @param {number} size */
  constructor(size) {
    this.#size = Math.max(1, size);
  }

  /** @param {string} url */
  get(url) {
    return this.#entries.get(url);
  }

  /**
   * @param {string} url
   * @param {CacheEntry} entry
   */
  put(url, entry) {
    this.#entries.set(url, entry);
    if (this.#entries.size > this.#size) {
      this.#entries.delete(/** @type {string} */ (this.#entries.keys().next().value));
    }
  }
}
