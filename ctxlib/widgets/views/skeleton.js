/** A view to copy: how much of a head's kernel lies within so many tokens. CONTRIBUTING.md says what
 *  to change. */

import { headChoice } from "../ui/controls.js";
import { element, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { TOKENS_BACK, chart, line, readable } from "../ui/plot.js";
import { layerOf } from "../ui/source.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { figure } from "../ui/words.js";

/** @typedef {import("../ui/state.js").Model} Model */
/** @typedef {import("../engine/layer.js").Layer} Layer */

/** What is shown, made of numbers alone. @param {Float64Array} kernel of the sources 0 ... n */
function within(kernel) {
  let sum = 0;
  return Float64Array.from(kernel.toReversed(), (weight) => (sum += weight));
}

/** @param {Float64Array} shares by distance @param {number} head @param {number} width */
function drawing(shares, head, width) {
  const n = shares.length - 1;
  const half = shares.findIndex((share) => share >= 0.5);
  const on = chart({
    alt: `Share of head ${head}’s kernel within a distance: half of it within ${half} tokens.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "share within", domain: [0, 1] },
    width,
  });
  const distances = shares.map((_, distance) => distance);
  on.add(line(on, distances, shares, { stroke: COLOURS[0] }));
  const read = (/** @type {number} */ at) => `within ${at} tokens: ${figure(100 * shares[at], 1)}%`;
  return readable(on, { label: "Read the share at a distance", min: 0, max: n, value: half, read });
}

/** @param {{model: Model, el: HTMLElement}} view traits: head */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined; // a line says why, or the view was taken away
  const state = () => ({ head: sound(model, "head", below(layer.nHeads), 0) });
  const controls = {
    head: headChoice({
      count: layer.nHeads,
      value: state().head,
      onChange: (head) => turn(model, { head }),
    }),
  };
  const picture = element("div");
  el.replaceChildren(element("div", { class: "ctx-controls" }, Object.values(controls)), picture);
  let shares = new Float64Array(0);
  /** @param {{head: number, width: number}} now @param {import("../ui/state.js").Changed} changed */
  const update = ({ head, width }, changed) => {
    controls.head.update(head);
    if (changed("head")) shares = within(layer.kernels()[head]);
    renewed(picture, drawing(shares, head, width));
  };
  return kept({ model, place: el, traits: ["head"], state, update });
}

export default { render };
