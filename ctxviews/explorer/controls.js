/** The explorer's heads. */

import { headChooser, term } from "../ui/controls.js";
import { drawn, element } from "../ui/dom.js";
import { headStyle } from "../ui/marks.js";
import { figure, headsName } from "../ui/words.js";

/** @import { Scene, Tools, Turned } from "./scene.js" */

const BINS = 14; // of a kernel, from the text's beginning to the query

/** @param {Tools} tools @param {HTMLElement} find */
export function controlsSection(tools, find) {
  const { layer, go } = tools;
  const side = layer.bothSides ? " in the middle" : ` (right) to ${layer.n} tokens back (left)`;
  const curves = layer.kernels().map((kernel, head) => curve(kernel, headStyle(head)));
  const heads = headChooser(
    layer,
    // the neuron that is looked at stays
    (chosen) => {
      tools.hand = String(chosen);
      go({ heads: chosen, neuron: tools.scene()?.neuron ?? -1 });
    },
    curves,
    [", and how heavily each weighs a token by its distance, from the ", term("query"), side],
  );
  const did = element("p", { class: "ctx-quiet ctx-neurons-did", role: "status" });
  heads.append(did);
  return {
    root: element("div", { class: "ctx-controls" }, heads, find),
    paint: (/** @type {Turned} */ now) => heads.update(now.heads),
    tell: (/** @type {Scene} */ scene) => (did.textContent = whatTurned(scene, layer)),
  };
}

/** What the last turn of a head did; before any, what to try. @param {Scene} scene @param {Layer} layer */
function whatTurned({ from, ranking, neuron, heads, theta, threshold }, { model, usual, nHeads }) {
  if (from) {
    const tops = [from.ranking.top[neuron], ranking.top[neuron], from.theta, theta];
    const [was, is, before, line] = tops.map((top) => figure(top, 1));
    const moved = threshold ? line : `${before} → ${line}, by the rule`;
    return `${neuron}: ${was} → ${is}. The line: ${moved}.`;
  }
  if (String(heads) !== String(usual)) return "";
  const first = `Try this: turn head 0 off, and watch neuron ${neuron}.`;
  const some = `At first ${headsName(usual)} ${usual.length > 1 ? "are" : "is"} on: the stable ones.`;
  return usual.length < nHeads ? some : model === "mini" ? first : "";
}

/** A kernel in small: how much attention each part of the text gets by its position alone.
 *  @param {Float64Array} kernel @param {Record<string, any>} style */
function curve(kernel, style) {
  const sums = new Float64Array(BINS);
  kernel.forEach((share, i) => (sums[Math.floor((i * BINS) / kernel.length)] += share));
  const most = Math.max(...sums);
  const points = Array.from(sums, (sum, i) => `${1 + i * 2},${11 - (10 * sum) / most}`).join(" ");
  const line = drawn("polyline", { points, fill: "none", "stroke-width": 1.6, ...style });
  const zero = drawn("path", { d: "M0 11.75H28", stroke: "currentColor", "stroke-width": 0.5 });
  const ways = { class: "ctx-curve", viewBox: "0 0 28 12", "aria-hidden": "true" };
  return drawn("svg", ways, zero, line);
}
