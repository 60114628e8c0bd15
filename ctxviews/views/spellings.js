/** A paragraph in two spellings, shaded for one neuron: above the words by what the model computes, below
 *  by what its weights predict, which is computed again of any words (chapter 0). */

import { button } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { held } from "../ui/source.js";
import { observe, turn } from "../ui/state.js";
import { textBox } from "../ui/textbox.js";
import { shade } from "../ui/tokens.js";
import { signed } from "../ui/words.js";

/** @typedef {{text: string, model?: number, predicted?: number}} Word a token, and what the heads add to the neuron
 *    there: by the model, and as predicted
 *  @typedef {{name: string, words: string[], model: number[], told: number[]}} Kept a text as Python
 *    has it; in its record the predictions are called `told` */

const TRAITS = ["british", "american"];
const LIMIT = 2000; // characters that a box keeps

/** @param {(number | undefined)[]} values @returns {string} their mean, if all are there */
function mean(values) {
  const defined = values.filter((value) => value !== undefined);
  if (!defined.length || defined.length < values.length) return "–";
  return signed(defined.reduce((sum, value) => sum + value, 0) / defined.length, 2);
}

/** One text: its words can be changed where they stand. @param {Kept} kept @param {number} full has the
 *  full shade @param {(text: string) => void} onText */
function box(kept, full, onText) {
  const { box: area, title } = textBox(kept.name, LIMIT, () => onText(area.value));
  area.rows = 1; // its mirror sets its height
  const mirror = element("div", { class: "ctx-mirror", "aria-hidden": "true" });
  const output = element("output", { for: area.id, class: "ctx-quiet" });
  const ribbons = element("div", { class: "ctx-ribbons" }, mirror, area);
  const root = element("div", {}, title, ribbons, output);
  const band = (/** @type {number | undefined} */ value) =>
    value === undefined ? "transparent" : shade(value, Math.min(Math.abs(value) / full, 1));
  /** @param {Word[]} words */
  const show = (words) => {
    const text = words.map((word) => word.text).join("");
    if (area.value !== text) area.value = text;
    mirror.replaceChildren(
      ...words.map(({ text: spelt, model, predicted }) => {
        const bands = `--ctx-above: ${band(model)}; --ctx-below: ${band(predicted)}`;
        return element("span", { style: bands }, spelt);
      }),
      "\u200b", // a last line that is empty has its height
    );
    const read = words.filter(({ predicted }) => predicted !== undefined);
    const [above, below] = [read.map(({ model }) => model), read.map(({ predicted }) => predicted)];
    const cut = read.length < words.length ? `; the first ${read.length} tokens are read` : "";
    output.textContent = words.length
      ? `on average model (above) ${mean(above)}, prediction (below) ${mean(below)}${cut}`
      : "Type a text.";
  };
  return { root, area, output, show };
}

/** A text as Python has it. @param {Kept} kept @returns {Word[]} */
function keptWords({ words, model, told }) {
  return words.map((text, i) => ({ text, model: model[i], predicted: told[i] }));
}

/** The tokens of a text with the predicted contribution at each. The model's own are kept up to the first
 *  word that was changed, for no later word changes them. @param {NeuronPredictor} neuron @param {string} text
 *  @param {Kept} kept @returns {Word[]} */
function readBy(neuron, text, kept) {
  const { pieces, predicted } = neuron.read(text);
  const other = pieces.findIndex((piece, i) => piece.text !== kept.words[i]);
  const same = kept.model.slice(0, other < 0 ? pieces.length : other);
  return pieces.map((piece, i) => ({ text: piece.text, model: same[i], predicted: predicted[i] }));
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
  const update = () => {
    for (const [k, { show, output }] of boxes.entries()) {
      const typed = model.get(TRAITS[k]);
      const kept = texts[k].words.join("");
      const turned = typeof typed === "string" ? typed.slice(0, LIMIT) : "";
      const text = turned || (emptied[k] ? "" : kept);
      if (neuron) show(text ? readBy(neuron, text, texts[k]) : []);
      else if (text === kept) show(keptWords(texts[k]));
      else {
        show([{ text }]);
        output.textContent = "loading the weights’ prediction …";
      }
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
        for (const { output } of boxes) output.textContent = error.message;
      });
  };
  for (const { area } of boxes)
    for (const touch of ["focus", "pointerdown"]) area.addEventListener(touch, load);
  const again = button("Reset", () => {
    emptied.fill(false);
    turn(model, { british: "", american: "" });
    update();
  });
  const roots = boxes.map(({ root }) => root);
  el.replaceChildren(
    element("p", { class: "ctx-stops" }, key(full)),
    element("div", { class: "ctx-two" }, roots),
    element("p", {}, "Change either text: it is read as you type. ", again),
  );
  update();
  if (TRAITS.some((name) => model.get(name))) load();
  return observe(model, TRAITS, update);
}

/** What the ribbons mean. @param {number} full */
function key(full) {
  const stops = [-full, -full / 2, 0, full / 2, full];
  return [
    "Shades: ",
    stops.map((value) => {
      const below = value ? shade(value, Math.abs(value) / full) : "transparent";
      const look = { class: "ctx-stop", style: `--ctx-below: ${below}` };
      return element("span", look, value ? signed(value, 2) : "0");
    }),
  ];
}

export default { render };
