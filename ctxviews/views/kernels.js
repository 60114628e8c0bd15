/** How far back every head looks: positional kernels over the distance (chapter 3). */

import { choice, controlRow, destinationSlider, headChooser, resetButton } from "../ui/controls.js";
import { element, quiet, renewed } from "../ui/dom.js";
import { headStyle } from "../ui/marks.js";
import { TOKENS_BACK, chart, line, readable, rule } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { below, kept, listBelow, sound, turn } from "../ui/state.js";
import { figure, several, threeDigits } from "../ui/words.js";

/** @typedef {{heads: number[], n: number, token: number}} Shown */

const FAINTEST = 1e-6; // smaller weights are not drawn

/** @param {{model: Model, el: HTMLElement}} view traits: heads, n, token; no heads means all, and -1 the destination and the token of the layer's own denominators */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  const { name } = spelling(layer);
  const isPlace = (/** @type {any} */ v) => v !== 0 && below(layer.positions)(v);
  const isDestination = (/** @type {any} */ v) => layer.destinations.some(({ id }) => id === v);
  /** @returns {Shown} */
  const chosen = () => {
    const heads = sound(model, "heads", listBelow(layer.nHeads), /** @type {number[]} */ ([]));
    const n = sound(model, "n", (v) => v === -1 || isPlace(v), -1);
    const token = sound(model, "token", (v) => v === -1 || isDestination(v), -1);
    return {
      heads: heads.length ? heads : layer.everyHead,
      n: n === -1 ? layer.n : n,
      token: token === -1 ? layer.destinations[0].id : token,
    };
  };
  const controls = controlRow({
    heads: headChooser(layer, (heads) => turn(model, { heads })),
    token: choice({
      label: "Query token",
      options: layer.destinations.map(({ id }) => ({ value: id, label: name(id) })),
      onChange: (token) => turn(model, { token }),
    }),
    n: destinationSlider(layer.positions - 1, (n) => turn(model, { n })),
  });
  const picture = element("div", { class: "ctx-kernels" });
  el.replaceChildren(controls, picture, quiet(resetButton(model)));
  let distance = 10; // where a reader last looked
  /** @param {Shown & {width: number}} now */
  const update = ({ width, ...now }) => {
    controls.update(now);
    const all = layer.kernels(now.n, now.token);
    const kernels = now.heads.map((head) => Float64Array.from(all[head]).reverse());
    const title = `n = ${now.n}, query token ${name(now.token)}`;
    const onMove = (/** @type {number} */ at) => (distance = at);
    renewed(picture, kernelDrawing(kernels, now, title, { width, distance, onMove }));
  };
  return kept({ model, place: el, state: chosen, update });
}

/** Over how many tokens a kernel is spread, as `cx.effective_tokens`. @param {Float64Array} kernel */
function effectiveTokens(kernel) {
  return 1 / kernel.reduce((sum, weight) => sum + weight ** 2, 0);
}

/** @param {Float64Array[]} kernels by distance @param {Shown} now @param {string} title
 *  @param {{width: number, distance: number, onMove: (distance: number) => void}} options */
function kernelDrawing(kernels, { heads, n }, title, { width, distance, onMove }) {
  const spread = heads.map((head, k) => `head ${head} ${figure(effectiveTokens(kernels[k]), 1)}`);
  const [least, most] = [Math.min, Math.max].map((end) => end(...kernels.map((k) => end(...k))));
  const low = 10 ** Math.floor(Math.log10(Math.max(least, FAINTEST)));
  const high = 10 ** Math.ceil(Math.log10(most));
  const on = chart({
    alt: `Positional kernels over the distance, ${title}. Effective tokens: ${spread.join(", ")}.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "weight in the kernel", domain: [low, high], log: true },
    width,
    height: 330,
    title,
  });
  on.add(rule(on, { y: 1 / (n + 1) }));
  const back = kernels[0].map((_, distance) => distance);
  kernels.forEach((kernel, k) => {
    const shown = kernel.map((weight) => Math.max(weight, low));
    on.add(line(on, back, shown, headStyle(heads[k])));
  });
  const label = "Read the kernels at a distance";
  const read = (/** @type {number} */ back) => {
    const weights = heads.map((head, k) => `head ${head} ${threeDigits(kernels[k][back])}`);
    return `${several(back, "token")} back: ${weights.join(", ")}`;
  };
  return readable(on, { label, max: n, value: Math.min(distance, n), read, onMove });
}

export default { render, downloaded };
