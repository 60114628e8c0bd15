/** A page that is one file: its views, and the layer that they share, are all in it (pagefile.py).
 *
 *  The page plays Python's part: it holds the traits, and has the layer at a `data:` address. */

import neurons from "./views/neurons.js";
import reader from "./views/reader.js";

const VIEWS = { neurons, reader };

/** @param {string} id @returns {string} what an element of the page holds */
function held(id) {
  return document.getElementById(id)?.textContent ?? "";
}

const layer = new URL(`data:application/octet-stream;base64,${held("ctx-layer").trim()}`);

/** The traits of one view, kept while the page is open. */
class Traits extends EventTarget {
  /** @param {Record<string, any>} [values] */
  constructor(values) {
    super();
    this.values = { ...values };
  }

  /** @param {string} name */
  get(name) {
    return name === "data" ? layer : this.values[name];
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    if (JSON.stringify(this.values[name]) === JSON.stringify(value)) return;
    this.values[name] = value;
    this.dispatchEvent(new Event(`change:${name}`));
  }

  save_changes() {} // there is nothing to save to

  on = this.addEventListener;
  off = this.removeEventListener;
}

const states = JSON.parse(held("ctx-states"));

for (const el of /** @type {NodeListOf<HTMLElement>} */ (
  document.querySelectorAll("[data-view]")
)) {
  const name = /** @type {keyof typeof VIEWS} */ (el.dataset.view);
  const model = /** @type {Model} */ (/** @type {unknown} */ (new Traits(states[name])));
  VIEWS[name].render({ model, el });
}
