/** The layer behind a view: fetched by a page, requested from Python by a notebook. */

import { loadLayer, readLayer } from "../engine/packed.js";
import { Tokenizer } from "../engine/tokenizer.js";
import { element, failed } from "./dom.js";
import { nameInText, tokenName } from "./words.js";

const PATIENCE = 10_000; // milliseconds until a view requests what another has requested

/** @typedef {{layer: Promise<any>, onProgress?: (share: number) => void}} Download which
 *    reports how far it is to the last view that requested it */

/** One for all views of a page. @type {Map<string, Download>} */
const downloads = new Map();

/** The layer of a widget: another widget's of the same name, or the one that Python sends.
 *  @param {Model} model @param {string} name @returns {Promise<Layer>} */
async function widgetLayer(model, name) {
  // what a document that shows several widgets keeps for all of them, whichever bundle they came in
  const page = /** @type {Record<symbol, any>} */ (/** @type {unknown} */ (globalThis));
  /** @type {Map<string, Promise<Layer> | WeakRef<Layer>>} somebody waits for it, or it is in use */
  const shared = (page[Symbol.for("ctxlib layers")] ??= new Map());
  const entry = shared.get(name);
  const there = entry instanceof WeakRef ? entry.deref() : entry;
  if (there && !(there instanceof Promise)) return there;
  const request = () => {
    const coming = requestedLayer(model).then((layer) => {
      shared.set(name, new WeakRef(layer));
      return layer;
    });
    shared.set(name, coming);
    coming.catch(() => shared.delete(name));
    return coming;
  };
  if (!there) return request();
  // the widget that requested it may be gone, or its kernel
  const late = new Promise((done) => setTimeout(done, PATIENCE));
  return Promise.race([there, late.then(() => (shared.get(name) === there ? request() : there))]);
}

/** @param {Model} model @returns {Promise<Layer>} */
function requestedLayer(model) {
  return new Promise((done, fail) => {
    const receive = (/** @type {any} */ message, /** @type {DataView[]} */ buffers) => {
      if (!message?.layer) return;
      model.off("msg:custom", receive);
      readLayer(buffers[0]).then(done, fail);
    };
    model.on("msg:custom", receive);
    model.send({ wanted: "layer" });
  });
}

/** What is behind a view, a layer or a neuron, once for all views of a page.
 *  @param {Model} model @param {Bringing} [how] @param {string} [name] of another of the view's models
 *  @returns {Promise<any>} */
export async function held(model, how, name) {
  const data = model.get("data", name);
  return data instanceof URL ? downloaded(data, how) : widgetLayer(model, model.get("layer"));
}

/** What a file holds; a page requests it before it has a view (`page.js`).
 *  @param {URL} file @param {Bringing} [how] @returns {Promise<any>} */
export function downloaded({ href }, { onProgress, signal } = {}) {
  const download = downloads.get(href) ?? begun(href, signal);
  download.onProgress = onProgress ?? download.onProgress;
  return download.layer;
}

/** @param {string} href @param {AbortSignal} [signal] @returns {Download} */
function begun(href, signal) {
  const onProgress = (/** @type {number} */ share) => download.onProgress?.(share);
  /** @type {Download} */
  const download = { layer: loadLayer(href, { onProgress, signal }) };
  downloads.set(href, download);
  download.layer.catch(() => downloads.delete(href));
  return download;
}

/** The layer behind a view. While it loads, `place` shows how far; if it cannot be had, one line
 *  explains why, and the result is null. It is null as well for a view that was removed meanwhile.
 *  @param {Model} model @param {HTMLElement} place @returns {Promise<Layer | null>} */
export async function layerOf(model, place) {
  const bar = element("progress", { max: 1, value: 0, "aria-label": "Loading the layer" });
  const waiting = element("p", { class: "ctx-waiting" }, "Loading the layer’s weights ", bar);
  place.replaceChildren(waiting);
  const late = setTimeout(() => {
    if (!(model.get("data") instanceof URL))
      waiting.append(" They come from Python: if they do not, run the cell again.");
  }, PATIENCE);
  const there = place.isConnected; // a notebook may hand over a place before it shows it
  const unlessLeft = (/** @type {Layer} */ layer) => (there && !place.isConnected ? null : layer);
  try {
    return unlessLeft(await held(model, { onProgress: (share) => (bar.value = share) }));
  } catch (error) {
    failed(place, /** @type {Error} */ (error));
    return null;
  } finally {
    clearTimeout(late);
    waiting.remove();
  }
}

/** What a layer's tokens read as; without a tokenizer, as the vocabulary spells them. @param {Layer} layer */
export function spelling(layer) {
  const tokenizer = layer.words ? new Tokenizer(layer) : null;
  const alone = (/** @type {number} */ id) => tokenizer?.alone(id) ?? layer.vocab[id];
  const text = (/** @type {number} */ id) => tokenizer?.decode([id]) ?? layer.vocab[id];
  /** The tokens of a text and their names there. */
  const inText = (/** @type {ArrayLike<number>} */ ids) => {
    const all = Array.from(ids);
    const tokens = tokenizer?.stretches(all) ?? all.map(text);
    const named = tokenizer?.kind === "wordpiece" ? all.map(alone) : tokens;
    return { tokens, names: named.map(nameInText) };
  };
  return { tokenizer, text, name: (/** @type {number} */ id) => tokenName(alone(id)), inText };
}
