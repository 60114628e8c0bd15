/** A paragraph in two spellings, shaded for one neuron: above the words by what the model computes, below
 *  by what its weights predict, which is computed again of any words (chapter 0). */

import { button } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { held } from "../ui/source.js";
import { heard, turn } from "../ui/state.js";
import { textBox } from "../ui/textbox.js";
import { shade } from "../ui/tokens.js";
import { signed } from "../ui/words.js";

/** @typedef {{text: string, model?: number, told?: number}} Word a token, and what the neuron is told there
 *  @typedef {{name: string, words: string[], model: number[], told: number[]}} Kept a text as Python
 *    has it */

const TRAITS = ["british", "american"];
const LIMIT = 2000; // characters that a box keeps

/** @param {(number | undefined)[]} values @returns {string} their mean, if all are known */
function mean(values) {
  const known = values.filter((value) => value !== undefined);
  if (!known.length || known.length < values.length) return "–";
  return signed(known.reduce((sum, value) => sum + value, 0) / known.length, 2);
}

/** One text: its words can be changed where they stand. @param {Kept} kept @param {number} full has the
 *  full shade @param {(text: string) => void} onText */
function box(kept, full, onText) {
  const { box: area, title } = textBox(kept.name, LIMIT, () => onText(area.value));
  area.rows = 1; // its mirror says how high it is
  const mirror = element("div", { class: "ctx-mirror", "aria-hidden": "true" });
  const said = element("output", { for: area.id, class: "ctx-quiet" });
  const ribbons = element("div", { class: "ctx-ribbons" }, mirror, area);
  const root = element("div", {}, title, ribbons, said);
  const band = (/** @type {number | undefined} */ value) =>
    value === undefined ? "transparent" : shade(value, Math.min(Math.abs(value) / full, 1));
  /** @param {Word[]} words */
  const show = (words) => {
    const text = words.map((word) => word.text).join("");
    if (area.value !== text) area.value = text;
    mirror.replaceChildren(
      ...words.map(({ text: spelt, model, told }) => {
        const bands = `--ctx-above: ${band(model)}; --ctx-below: ${band(told)}`;
        return element("span", { style: bands }, spelt);
      }),
      "\u200b", // a last line that is empty has its height
    );
    const read = words.filter(({ told }) => told !== undefined);
    const [above, below] = [read.map(({ model }) => model), read.map(({ told }) => told)];
    const cut = read.length < words.length ? `; the first ${read.length} tokens are read` : "";
    said.textContent = words.length
      ? `on average model (above) ${mean(above)}, prediction (below) ${mean(below)}${cut}`
      : "Type a text.";
  };
  return { root, area, said, show };
}

/** A text as Python has it. @param {Kept} kept @returns {Word[]} */
function keptWords({ words, model, told }) {
  return words.map((text, i) => ({ text, model: model[i], told: told[i] }));
}

/** The tokens of a text with what the neuron is told at each; what the model says stands as far as its text
 *  does, for no later word changes it. @param {HeardNeuron} neuron @param {string} text
 *  @param {Kept} kept @returns {Word[]} */
function readBy(neuron, text, kept) {
  const { pieces, told } = neuron.read(text);
  const other = pieces.findIndex((piece, i) => piece.text !== kept.words[i]);
  const same = kept.model.slice(0, other < 0 ? pieces.length : other);
  return pieces.map((piece, i) => ({ text: piece.text, model: same[i], told: told[i] }));
}

/** @param {{model: Model, el: HTMLElement}} view traits: british, american */
async function render({ model, el }) {
  /** @type {{texts: Kept[], full: number}} */ const { texts, full } = model.get("record");
  /** @type {HeardNeuron | null} */ let neuron = null;
  /** @type {Promise<void> | null} */ let asked = null;
  const emptied = texts.map(() => false); // no text in a trait is the text that Python has
  const boxes = texts.map((kept, k) =>
    box(kept, full, (text) => {
      emptied[k] = !text;
      turn(model, { [TRAITS[k]]: text });
      if (!text) update(); // no trait may have changed
      ask();
    }),
  );
  const update = () => {
    for (const [k, { show, said }] of boxes.entries()) {
      const typed = model.get(TRAITS[k]);
      const kept = texts[k].words.join("");
      const turned = typeof typed === "string" ? typed.slice(0, LIMIT) : "";
      const text = turned || (emptied[k] ? "" : kept);
      if (neuron) show(text ? readBy(neuron, text, texts[k]) : []);
      else if (text === kept) show(keptWords(texts[k]));
      else {
        show([{ text }]);
        said.textContent = "loading what the weights say …";
      }
    }
  };
  const ask = () => {
    asked ??= held(model)
      .then((found) => {
        neuron = found;
        update();
      })
      .catch((error) => {
        asked = null; // the next key tries again
        for (const { said } of boxes) said.textContent = error.message;
      });
  };
  for (const { area } of boxes)
    for (const touch of ["focus", "pointerdown"]) area.addEventListener(touch, ask);
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
  if (TRAITS.some((name) => model.get(name))) ask();
  return heard(model, TRAITS, update);
}

/** What the ribbons say. @param {number} full */
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
