/** A page that is one file: its views, and the layer that they share, are all in it (pagefile.py).
 *
 *  The page plays Python's part: it holds the traits, and sends the layer to a view that requests it. */

import neurons from "./views/neurons.js";
import reader from "./views/reader.js";

const VIEWS = { neurons, reader };

/** @param {string} id @returns {string} what an element of the page holds */
function held(id) {
  return document.getElementById(id)?.textContent ?? "";
}

/** The packed layer. @returns {DataView} */
function packedLayer() {
  const letters = atob(held("ctx-layer"));
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return new DataView(bytes.buffer);
}

/** The traits of one view, kept while the page is open. */
class Traits {
  /** @type {Map<string, Set<Function>>} */ #listeners = new Map();

  /** @param {Record<string, any>} values */
  constructor(values) {
    /** @type {Record<string, any>} */ this.values = { layer: "here", ...values };
  }

  /** @param {string} name */
  get(name) {
    return this.values[name];
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    this.#emit(`change:${name}`);
  }

  save_changes() {} // there is nothing to save to

  /** @param {string} event @param {Function} callback */
  on(event, callback) {
    this.#listeners.set(event, (this.#listeners.get(event) ?? new Set()).add(callback));
  }

  /** @param {string} event @param {Function} callback */
  off(event, callback) {
    this.#listeners.get(event)?.delete(callback);
  }

  /** A view requests the layer, and nothing else. */
  send() {
    this.#emit("msg:custom", { layer: this.values.layer }, [packedLayer()]);
  }

  /** @param {string} event @param {...any} values */
  #emit(event, ...values) {
    for (const callback of [...(this.#listeners.get(event) ?? [])]) callback(...values);
  }
}

const states = JSON.parse(held("ctx-states"));

/** Views begin when they come near the screen. */
const near = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      const el = /** @type {HTMLElement} */ (target);
      const name = /** @type {keyof typeof VIEWS} */ (el.dataset.view);
      const model = /** @type {Model} */ (/** @type {unknown} */ (new Traits(states[name])));
      VIEWS[name].render({ model, el });
    }
  },
  { rootMargin: "400px" },
);

for (const place of document.querySelectorAll("[data-view]")) near.observe(place);
