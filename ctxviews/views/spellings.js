/** A paragraph in two spellings, shaded for one neuron: each word by what heads add to it in the model, a strip
 *  below it by what their weights predict, which is computed again of any words (chapter 0). */

import { button } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { held } from "../ui/source.js";
import { observe, turn } from "../ui/state.js";
import { textBox } from "../ui/textbox.js";
import { shade, STRONGEST } from "../ui/tokens.js";
import { signed } from "../ui/words.js";

/** @typedef {{text: string, model?: number, predicted?: number}} Word a token, and what the heads add to the neuron
 *    there: in the model, and as predicted
 *  @typedef {{name: string, words: Word[]}} Kept a text as Python has it */

const TRAITS = ["british", "american"];
const LIMIT = 2000; // characters that a box keeps

/** Both numbers of a word, or means of several. @param {string} name @param {Word[]} words */
function numbers(name, words) {
  const mean = (/** @type {"model" | "predicted"} */ which) =>
    signed(words.reduce((sum, word) => sum + (word[which] ?? NaN), 0) / words.length);
  return `${name}: model ${mean("model")}, prediction ${mean("predicted")}`;
}

/** A word on a ground for its number in the model, over a strip for the prediction; what no model has read
 *  has the prediction's colour. @param {number} full has the full shade @param {Word} word */
function shaded(full, { text, model, predicted = NaN }, kind = "") {
  const tint = (/** @type {number} */ value, /** @type {number} */ strongest) =>
    shade(value || 0, strongest * Math.min(Math.abs(value || 0) / full, 1));
  const style = `--ctx-word: ${tint(model ?? predicted, STRONGEST)}; --ctx-strip: ${tint(predicted, 1)}`;
  return element("span", { class: kind, style }, text);
}

/** One text: its words can be changed where they stand. @param {Kept} kept @param {number} full
 *  @param {(text: string) => void} onText */
function box(kept, full, onText) {
  const { box: area, title } = textBox(kept.name, LIMIT, () => onText(area.value));
  area.rows = 1; // its mirror sets its height
  const mirror = element("div", { class: "ctx-mirror", "aria-hidden": "true" });
  const output = element("output", { for: area.id, class: "ctx-quiet" });
  const spelt = element("div", { class: "ctx-spelt" }, mirror, area);
  /** @type {Word[]} */ let words = [];
  let whole = "";
  /** @param {number} place of a word; -1 for the text */
  const tell = (place, at = words.slice(place, place + 1)) =>
    output.replaceChildren(at.length ? numbers(at[0].text.trim(), at) : whole);
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
    words = now;
    const text = words.map((word) => word.text).join("");
    if (area.value !== text) area.value = text;
    // behind them what gives a last line that is empty its height
    mirror.replaceChildren(...words.map((word) => shaded(full, word)), "\u200b");
    const read = words.filter(({ predicted }) => predicted !== undefined);
    const cut = read.length < words.length ? `; the first ${read.length} tokens are read` : "";
    whole = note ?? (text ? numbers("on average", read) + cut : "Type a text.");
    tell(-1);
  };
  return { root: element("div", {}, title, spelt, output), area, show };
}

/** The tokens of a text with the predicted contribution at each. The model's own are kept up to the first
 *  word that was changed, for no later word changes them. @param {NeuronPredictor} neuron @param {string} text
 *  @param {Kept} kept @returns {Word[]} */
function readBy(neuron, text, kept) {
  const { pieces, predicted } = neuron.read(text);
  const other = pieces.findIndex((piece, i) => piece.text !== kept.words[i]?.text);
  const same = kept.words.slice(0, other < 0 ? pieces.length : other);
  return pieces.map(({ text }, i) => ({ ...same[i], text, predicted: predicted[i] }));
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
      turn(model, { [TRAITS[k]]: text });
      if (!text) update(); // no trait may have changed
      load();
    }),
  );
  const update = (note = "loading the weights’ prediction …") => {
    for (const [k, { show }] of boxes.entries()) {
      const typed = model.get(TRAITS[k]);
      const kept = texts[k].words.map((word) => word.text).join("");
      const turned = typeof typed === "string" ? typed.slice(0, LIMIT) : "";
      const text = turned || (emptied[k] ? "" : kept);
      if (neuron) show(text ? readBy(neuron, text, texts[k]) : []);
      else if (text === kept) show(texts[k].words);
      else show([{ text }], note);
    }
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
  el.replaceChildren(
    element("div", { class: "ctx-two" }, roots),
    element("p", {}, key(full)),
    element("p", {}, "Point at a word for its numbers; change any word. ", again),
  );
  update();
  if (TRAITS.some((name) => model.get(name))) load();
  return observe(model, TRAITS, () => update());
}

/** What the shades mean. @param {number} full */
function key(full) {
  const one = (/** @type {string} */ text, /** @type {number} */ model, predicted = model) =>
    shaded(full, { text, model, predicted }, "ctx-shade");
  const words = [
    one("word: what the model adds", full / 2, 0),
    one("strip: what we predict", 0, full),
  ];
  return [words, [-full, -full / 2, full / 2, full].map((value) => one(signed(value), value))];
}

export default { render };
