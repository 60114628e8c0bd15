/** The reader's controls, and what is shown, in words. */

import { shadeKey } from "../ui/tokens.js";
import { FEWEST, LOUD } from "../engine/reading.js";
import { checkbox, field, headChooser } from "../ui/controls.js";
import { element, focusIn, quiet } from "../ui/dom.js";
import { below, inStep } from "../ui/state.js";
import { grouped, tokenMarks, tokenName } from "../ui/words.js";

/** @import { Found, Scene, Text } from "./scene.js" */

/** Heads, neuron, and whether the shades follow the cursor.
 *  @param {Model} model @param {HTMLElement} el
 *  @param {{layer: Layer, go: (values: Record<string, any>) => void, choose: (neuron: number) => void,
 *    forget: () => void, again: () => void}} tools */
export function controlsSection(model, el, tools) {
  const { layer, go, choose } = tools;
  const heads = headChooser(layer, (heads) => {
    tools.forget();
    go({ heads });
  });
  const size = layer.nNeurons;
  const number = element("input", { type: "number", min: 0, max: size - 1, step: 1 });
  const said = element("span", { class: "ctx-quiet", role: "status" });
  number.addEventListener("input", () => {
    const is = below(size)(Number(number.value || NaN));
    said.textContent = is || !number.value ? "" : ` Neurons are 0 to ${size - 1}.`;
    if (is) choose(Number(number.value));
  });
  number.addEventListener("blur", () => {
    said.textContent = "";
    tools.again(); // what is no neuron goes away
  });
  const box = checkbox(null, () => go({ shades: box.checked ? "cursor" : "end" }));
  const follows = "Shades follow the cursor: what the text adds up to there";
  return {
    parts: [
      heads,
      field("Neuron", number, { beside: said }),
      element("label", { class: "ctx-control" }, box, " ", follows),
    ],
    /** @param {Scene} scene */
    update(scene) {
      heads.update(scene.wanted);
      if (scene.neuron !== null && focusIn(el) !== number) number.value = String(scene.neuron);
      box.checked = scene.shades === "cursor";
    },
  };
}

/** What is shown, in words: what drives the neuron, what shades mean, how lists and lines are made.
 *  @param {LayerReader} reader */
export function captionSection({ layer, tokenizer }) {
  const queryToken = tokenName(tokenizer.decode([layer.destinations[0].id]));
  const about = element("p", { class: "ctx-reader-about" });
  const counted = layer.counted.length;
  const vocabulary =
    counted < layer.trained ? `${grouped(counted)} common tokens` : "the whole vocabulary";
  const [key, method] = [quiet(), quiet()];
  const updateText = inStep((/** @type {Record<string, any>} */ { drivers, ...now }, changed) => {
    if (drivers && changed("drivers"))
      about.replaceChildren(
        `Tokens that raise neuron ${drivers.neuron} most, of ${vocabulary}: `,
        ...tokenMarks(drivers.up),
        "; those that lower it most: ",
        ...tokenMarks(drivers.down),
      );
    if (changed("made")) method.textContent = now.made;
    if (!changed("neuron", "shades", "shade", "differ")) return;
    const where = now.shades === "end" ? "the text’s end" : "the cursor";
    const most = Number(now.shade.toPrecision(2));
    const digits = String(most).split(".")[1]?.length ?? 0;
    const parts = [
      `What each token adds to neuron ${now.neuron} at ${where}, by the paper’s circuit. `,
      ...shadeKey(most, digits),
      " Press a token: “Why here” takes its share apart, head by head.",
      now.differ ? " Underlined: the tokens in which the texts differ." : "",
    ];
    key.replaceChildren(...(now.neuron === null ? [] : parts));
  });
  /** @param {Scene} scene @param {Found} found */
  const update = ({ neuron, shades, shade, texts }, { drivers }) => {
    const differ = texts.some(({ apart }) => apart.size);
    const drawn = layer.waits ? null : neuron;
    const made = methodInWords(texts, layer, queryToken);
    updateText({ drivers, neuron: drawn, shades, shade, differ, made });
  };
  return { about, key, method, update };
}

/** @param {Text[]} texts @param {Layer} layer @param {string} queryToken @returns {string} */
function methodInWords(texts, layer, queryToken) {
  const { passages, nNeurons, fixed, n } = layer;
  const measured = texts.filter(({ reference }) => reference);
  if (!measured.length) return "";
  const cut = new Set(measured.map(({ reference }) => reference?.n));
  const step = Math.max(...measured.map(({ reading }) => reading.step)); // a power of two
  const every = step === 1 ? "token" : `${step}${step % 10 === 2 ? "nd" : "th"} token`;
  return (
    `z and apart are in standard deviations of the ${passages.length} labelled passages’ ` +
    `summaries at token ${[...cut].join(" or ")}, by the paper’s circuit: z counts from their ` +
    "mean, apart is the first text less the second. Listed are neurons among the " +
    `${grouped(Math.ceil(LOUD * nNeurons))} of ${grouped(nNeurons)} that vary most over ` +
    "the passages. The lines are the summary of the text so far: by the paper’s circuit, with constants " +
    "of one calibration text, and self-normalised, with the text’s own (chapter 11). They " +
    `begin at token ${FEWEST} and have a point at every ${every}. ` +
    "Numbers are rounded: they hold to about a hundredth of their range." +
    (fixed
      ? ` The destination is fixed: a text is read as if the query “${queryToken}” at n = ${n} stood at its end; what ` +
        "this model’s own attention would add is not in the page."
      : "")
  );
}
