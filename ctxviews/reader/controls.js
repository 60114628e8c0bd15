/** The reader's controls, and what is shown, in words. */

import { shadeKey } from "../ui/tokens.js";
import { field, headChooser } from "../ui/controls.js";
import { element, focusIn, quiet } from "../ui/dom.js";
import { below, inStep } from "../ui/state.js";
import { tokenName } from "../ui/words.js";

/** @import { Scene } from "./scene.js" */

/** Heads and neuron. @param {HTMLElement} el @param {{layer: Layer, go: (values: Record<string, any>) => void,
 *    choose: (neuron: number) => void, forget: () => void, again: () => void}} tools */
export function controlsSection(el, tools) {
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
  return {
    parts: [heads, field("Neuron", number, { beside: said })],
    /** @param {Scene} scene */
    update(scene) {
      heads.update(scene.wanted);
      if (scene.neuron !== null && focusIn(el) !== number) number.value = String(scene.neuron);
    },
  };
}

/** What is shown, in words: what shades mean, how lists and lines are made. @param {LayerReader} reader */
export function captionSection({ layer, tokenizer }) {
  const { destinations, fixed, n } = layer;
  const queryToken = tokenName(tokenizer.decode([destinations[0].id]));
  const key = quiet();
  const method = quiet(
    "z and apart are in standard deviations over the labelled passages. The lines are the summary of the " +
      "text so far: by the paper’s circuit, with constants of one calibration text, and self-normalised, with " +
      "the text’s own (chapter 11). Numbers are rounded: they hold to about a hundredth of their range.",
    fixed
      ? ` The destination is fixed: a text is read as if the query “${queryToken}” at n = ${n} stood at its end; ` +
          "what this model’s own attention would add is not in the page, nor are its neurons’ outputs, " +
          "which take megabytes of further tables (chapter 10)."
      : " An output is that of the whole neuron: heads, own token, position and bias, through the activation " +
          "function. The tables stand in for what the heads attend to (chapter 10).",
  );
  const say = inStep((/** @type {Record<string, any>} */ { neuron, shade }, changed) => {
    if (!changed("neuron", "shade")) return;
    const most = Number(shade.toPrecision(2));
    const digits = String(most).split(".")[1]?.length ?? 0;
    const parts = [
      `What each token adds to neuron ${neuron} at the text’s end, by the paper’s circuit. `,
      ...shadeKey(most, digits),
      " Press a token: “Why here” takes its share apart, head by head.",
    ];
    key.replaceChildren(...(neuron === null ? [] : parts));
  });
  /** @param {Scene} scene */
  const update = ({ neuron, shade }) => say({ neuron: layer.waits ? null : neuron, shade });
  return { key, method, update };
}
