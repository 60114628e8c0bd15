/** The layer behind a view: fetched by a page, asked of Python by a notebook. */

import { loadLayer, readLayer } from "../engine/packed.js";
import { Tokenizer } from "../engine/tokenizer.js";
import { element, failed } from "./dom.js";
import { nameInText, tokenName } from "./words.js";

const PATIENCE = 10_000; // milliseconds until a view asks for itself what another has asked for

/** @typedef {{layer: Promise<any>, tell?: (share: number) => void}} Download how far it is, whoever
 *    asked last is told */

/** One for all views of a page. @type {Map<string, Download>} */
const downloads = new Map();

/** The layer of a widget: another widget's of the same name, or what Python answers.
 *  @param {Model} model @param {string} name @returns {Promise<Layer>} */
async function askedLayer(model, name) {
  // what a document that shows several widgets keeps for all of them, whichever bundle they came in
  const page = /** @type {Record<symbol, any>} */ (/** @type {unknown} */ (globalThis));
  /** @type {Map<string, Promise<Layer> | WeakRef<Layer>>} somebody waits for it, or it is in use */
  const shared = (page[Symbol.for("ctxlib layers")] ??= new Map());
  const known = shared.get(name);
  const there = known instanceof WeakRef ? known.deref() : known;
  if (there && !(there instanceof Promise)) return there;
  const answer = () => {
    const asked = answeredLayer(model).then((layer) => {
      shared.set(name, new WeakRef(layer));
      return layer;
    });
    shared.set(name, asked);
    asked.catch(() => shared.delete(name));
    return asked;
  };
  if (!there) return answer();
  // who asked may be gone, or its kernel
  const late = new Promise((done) => setTimeout(done, PATIENCE));
  return Promise.race([there, late.then(() => (shared.get(name) === there ? answer() : there))]);
}

/** @param {Model} model @returns {Promise<Layer>} */
function answeredLayer(model) {
  return new Promise((done, fail) => {
    const hear = (/** @type {any} */ said, /** @type {DataView[]} */ buffers) => {
      if (!said?.layer) return;
      model.off("msg:custom", hear);
      readLayer(buffers[0]).then(done, fail);
    };
    model.on("msg:custom", hear);
    model.send({ wanted: "layer" });
  });
}

/** What is behind a view, a layer or a neuron, once for all views of a page.
 *  @param {Model} model @param {Bringing} [how] @param {string} [name] of another of the view's models
 *  @returns {Promise<any>} */
export async function held(model, how, name) {
  const data = model.get("data", name);
  return data instanceof URL ? downloaded(data, how) : askedLayer(model, model.get("layer"));
}

/** What a file holds; a page asks for it before it has a view (`page.js`).
 *  @param {URL} file @param {Bringing} [how] @returns {Promise<any>} */
export function downloaded({ href }, { onProgress, signal } = {}) {
  const download = downloads.get(href) ?? begun(href, signal);
  download.tell = onProgress ?? download.tell;
  return download.layer;
}

/** @param {string} href @param {AbortSignal} [signal] @returns {Download} */
function begun(href, signal) {
  const onProgress = (/** @type {number} */ share) => download.tell?.(share);
  /** @type {Download} */
  const download = { layer: loadLayer(href, { onProgress, signal }) };
  downloads.set(href, download);
  download.layer.catch(() => downloads.delete(href));
  return download;
}

/** The layer behind a view. While it loads, `place` shows how far; if it cannot be had, one line
 *  says why, and the answer is null. It is null as well for a view that was taken away meanwhile:
 *  there is nobody to draw for.
 *  @param {Model} model @param {HTMLElement} place
 *  @returns {Promise<Layer | null>} */
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

/** What a layer's tokens read as; where a page has no tokenizer for it, as the vocabulary spells
 *  them. @param {Layer} layer */
export function spelling(layer) {
  const tokenizer = layer.byteLevel ? new Tokenizer(layer.vocab, layer.merges, layer.words) : null;
  const text = (/** @type {number} */ id) => tokenizer?.decode([id]) ?? layer.vocab[id];
  /** The tokens of a text and their names there. */
  const inText = (/** @type {ArrayLike<number>} */ ids) => {
    const all = Array.from(ids);
    const tokens = tokenizer?.stretches(all) ?? all.map(text);
    return { tokens, names: tokens.map(nameInText) };
  };
  return { tokenizer, text, name: (/** @type {number} */ id) => tokenName(text(id)), inText };
}
