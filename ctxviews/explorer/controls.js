/** The explorer's heads. */

import { headChooser, term } from "../ui/controls.js";
import { drawn, element } from "../ui/dom.js";
import { headStyle } from "../ui/marks.js";
import { grouped, headsName, several } from "../ui/words.js";

/** @import { Scene, Tools, Turned } from "./scene.js" */

const BINS = 14; // of a kernel, from the text's beginning to the query

/** @param {Tools} tools @param {HTMLElement} find */
export function controlsSection(tools, find) {
  const { layer, go } = tools;
  const side = layer.bothSides ? " in the middle" : ` (right) to ${layer.n} tokens back (left)`;
  const curves = layer.kernels().map((kernel, head) => curve(kernel, headStyle(head)));
  const heads = headChooser(
    layer,
    // the neuron that is looked at stays, and the line
    (chosen) => {
      tools.hand = String(chosen);
      const { neuron, theta } = tools.scene() ?? { neuron: -1, theta: 0 };
      go({ heads: chosen, neuron, threshold: Number(theta.toPrecision(6)) });
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
function whatTurned({ from, ranking, heads, found, labels }, { model, usual, nHeads }) {
  if (from) {
    const was = from.ranking;
    const [off, on] = [without(was.heads, heads), without(heads, was.heads)];
    const alone = off.length > 1 ? `With ${headsName(heads)} alone` : `Without ${headsName(off)}`;
    const how = on.length ? `With ${headsName(on)} on` : alone;
    const many = `${several(found, "neuron")} pass${found === 1 ? "es" : ""}`;
    const before = found === from.found ? ", as before" : ` instead of ${grouped(from.found)}`;
    const [passed, pass] = [was.order.subarray(0, from.found), ranking.order.subarray(0, found)];
    const [gone, come] = [without(passed, pass), without(pass, passed)];
    const [way, those] = come.length > gone.length ? ["new", come] : ["gone", gone];
    const known = those.filter((j) => labels.has(j));
    const named = Map.groupBy(known, (j) => labels.get(j)?.label);
    const often = [...named].sort(([, a], [, b]) => b.length - a.length).slice(0, 2);
    const most = often.map(([label, { length }]) => `${label} (${length})`);
    return `${how}, ${many}${before}.${most.length ? ` Most often ${way}: ${most.join(" and ")}.` : ""}`;
  }
  if (String(heads) !== String(usual)) return "";
  const first = "Try this: turn head 0 off. (All on share one curve.)";
  const some = `At first ${headsName(usual)} ${usual.length > 1 ? "are" : "is"} on, the stable ones; they share one curve, their median.`;
  return usual.length < nHeads ? some : model === "mini" ? first : "";
}

/** What is in the first, and not in the second. @param {Iterable<number>} some @param {Iterable<number>} others */
function without(some, others) {
  const there = new Set(others);
  return Array.from(some).filter((one) => !there.has(one));
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
