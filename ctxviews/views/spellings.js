/** A paragraph in two spellings, shaded for one neuron: each word by what heads add to it in the model, over a strip
 *  by what their weights predict. Where a reader has changed a text, both are shaded by the prediction alone, for no
 *  model runs here (chapter 0). */

import { button, textBox } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { held } from "../ui/source.js";
import { observe, turn } from "../ui/state.js";
import { shade, STRONGEST } from "../ui/tokens.js";
import { signed } from "../ui/words.js";

/** @typedef {{text: string, model?: number, predicted?: number}} Word a token, and what the heads add to the neuron
 *    there: in the model, and as predicted
 *  @typedef {{name: string, words: Word[]}} Kept a text as Python has it */

const TRAITS = ["british", "american"];
const LIMIT = 2000; // characters that a box keeps

/** The numbers of a word, or means of several. @param {string} name @param {Word[]} words */
function numbers(name, words) {
  const mean = (/** @type {"model" | "predicted"} */ which) =>
    signed(words.reduce((sum, word) => sum + (word[which] ?? NaN), 0) / words.length);
  const model = words.some((word) => word.model !== undefined) ? `model ${mean("model")}, ` : "";
  return `${name}: ${model}prediction ${mean("predicted")}`;
}

/** A word on a ground for its number in the model, over a strip for the prediction; one that no model has read
 *  on a ground for the prediction, without a strip. @param {number} full has the full shade @param {Word} word */
function shaded(full, { text, model, predicted = 0 }, kind = "") {
  const tint = (/** @type {number} */ value, /** @type {number} */ strongest) =>
    shade(value, strongest * Math.min(Math.abs(value) / full, 1));
  const strip = model === undefined ? "transparent" : tint(predicted, 1);
  const style = `--ctx-word: ${tint(model ?? predicted, STRONGEST)}; --ctx-strip: ${strip}`;
  return element("span", { class: kind, style }, text);
}

/** One text: its words can be changed where they stand. @param {Kept} kept @param {number} full
 *  @param {(text: string) => void} onText */
function box(kept, full, onText) {
  const { box: area, title } = textBox(kept.name, LIMIT, () => onText(area.value));
  area.rows = 1; // its mirror sets its height
  const mirror = element("div", { class: "ctx-mirror", "aria-hidden": "true" });
  const output = element("output", { for: area.id, class: "ctx-quiet" });
  const tip = element("div", { class: "ctx-tip", role: "status", hidden: true });
  const spelt = element("div", { class: "ctx-spelt" }, mirror, area, tip);
  /** @type {Word[]} */ let words = [];
  let told = -1;
  /** @param {number} place of the word that is told of, right above it; -1 for none */
  const tell = (place) => {
    told = place;
    const span = /** @type {HTMLElement | undefined} */ (mirror.children[place]);
    tip.hidden = !span;
    if (!span) return;
    const word = words[place];
    tip.textContent = numbers(word.text.trim(), [word]);
    const at = Array.from(span.getClientRects()).at(-1) ?? span.getBoundingClientRect(); // past a break
    const { left, top, width } = spelt.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(at.left - left, width - tip.offsetWidth))}px`;
    tip.style.top = `${at.top - top - tip.offsetHeight}px`;
  };
  const under = (/** @type {MouseEvent} */ { clientX, clientY }) => {
    const there = document.elementsFromPoint(clientX, clientY); // the box lies on top
    tell(Array.from(mirror.children).findIndex((span) => there.includes(span)));
  };
  area.onpointermove = area.onclick = under;
  area.onpointerleave = () => tell(-1);
  area.onkeyup = ({ key }) => {
    let before = area.selectionStart;
    if (key.startsWith("Arrow")) tell(words.findIndex(({ text }) => (before -= text.length) < 0));
  };
  /** @param {Word[]} now @param {string} [note] in place of their means */
  const show = (now, note) => {
    const before = words.map((word) => word.text).join("");
    words = now;
    const text = words.map((word) => word.text).join("");
    if (area.value !== text) area.value = text;
    // behind them what gives a last line that is empty its height
    mirror.replaceChildren(...words.map((word) => shaded(full, word)), "\u200b");
    const read = words.filter(({ predicted }) => predicted !== undefined);
    const cut = read.length < words.length ? `; the first ${read.length} tokens are read` : "";
    output.textContent = note ?? (text ? numbers("on average", read) + cut : "Type a text.");
    tell(text === before ? told : -1); // what loads meanwhile takes no numbers away
  };
  return { root: element("div", {}, title, spelt, output), area, show };
}

/** @param {{model: Model, el: HTMLElement}} view traits: british, american */
async function render({ model, el }) {
  /** @type {{texts: Kept[], full: number}} */ const { texts, full } = model.get("record");
  /** @type {NeuronPredictor | null} */ let neuron = null;
  /** @type {Promise<void> | null} */ let loading = null;
  const emptied = texts.map(() => false); // no text in a trait is the text that Python has
  const boxes = texts.map((kept, k) =>
    box(kept, full, (text) => {
      emptied[k] = !text;
      model.unshared = [...(model.unshared ?? []), TRAITS[k]]; // what is typed stays out of the page's address
      turn(model, { [TRAITS[k]]: text });
      if (!text) update(); // no trait may have changed
      load();
    }),
  );
  const update = (note = "loading the weights’ prediction …") => {
    const now = texts.map(({ words }, k) => {
      const given = model.get(TRAITS[k]);
      const turned = typeof given === "string" ? given.slice(0, LIMIT) : "";
      const kept = words.map((word) => word.text).join("");
      const text = turned || (emptied[k] ? "" : kept);
      return { text, words, same: text === kept };
    });
    const changed = now.some(({ same }) => !same);
    for (const [k, { text, words, same }] of now.entries()) {
      if (!changed) boxes[k].show(words);
      else if (same) boxes[k].show(words.map(({ text, predicted }) => ({ text, predicted })));
      else if (neuron) {
        const { pieces, predicted } = text ? neuron.read(text) : { pieces: [], predicted: [] };
        boxes[k].show(pieces.map((piece, i) => ({ text: piece.text, predicted: predicted[i] })));
      } else boxes[k].show([{ text }], note);
    }
    means.replaceChildren(...key(full, changed));
  };
  const load = () => {
    loading ??= held(model)
      .then((found) => {
        neuron = found;
        update();
      })
      .catch((error) => {
        loading = null; // the next key tries again
        update(error.message);
      });
  };
  for (const { area } of boxes) area.onfocus = area.onpointerdown = load;
  const again = button("Reset", () => {
    emptied.fill(false);
    turn(model, { british: "", american: "" });
    update();
  });
  const roots = boxes.map(({ root }) => root);
  const means = element("p");
  const hint = "Point at a word for its numbers; change any word (it stays in this page). ";
  const two = element("div", { class: "ctx-two" }, roots);
  el.replaceChildren(two, means, element("p", {}, hint, again));
  const read = () => {
    update();
    if (TRAITS.some((name) => model.get(name))) load(); // an address may change them as well
  };
  read();
  return observe(model, TRAITS, read);
}

/** What the shades mean. @param {number} full @param {boolean} changed whether a text is not Python's */
function key(full, changed) {
  const one = (/** @type {string} */ text, /** @type {number} */ predicted, model = predicted) =>
    shaded(full, changed ? { text, predicted } : { text, model, predicted }, "ctx-shade");
  const words = changed
    ? ["A text has been changed: both show our prediction alone. "]
    : [one("word: what the model adds", 0, full / 2), one("strip: what we predict", full, 0)];
  const shades = [-full, -full / 2, full / 2, full].map((value) => one(signed(value), value));
  return [...words, ...shades];
}

export default { render };
