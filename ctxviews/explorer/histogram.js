/** All contributions to a neuron. */

import { binAt, readableBars } from "../ui/distributions.js";
import { element, renewed } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { chart, legend, linearTicks, rule } from "../ui/plot.js";
import { inStep } from "../ui/state.js";
import { figure, grouped, several, UNIT } from "../ui/words.js";
import { columnOf } from "./scene.js";

/** @import { Scene, Tools } from "./scene.js"
 *  @typedef {{edges: number[], counts: number[], outer: number[][]}} Bins some tokens of each, to name it by */

const BINS = 56;
const MEAN = { stroke: "currentColor", "stroke-width": 1.4, "stroke-dasharray": "2 3" };
const TOP = { stroke: UP, "stroke-width": 2 };
const THRESHOLD = { stroke: DOWN, "stroke-width": 2, "stroke-dasharray": "6 4" };
const NAMED_IN_BIN = 4; // tokens of a bin that is read

/** What every token contributes, counted; the threshold moves over it. @param {Tools} tools */
export function histogramSection(tools) {
  const { layer, name, heading } = tools;
  const picture = element("div");
  const summary = element("summary", {}, heading(1, "All its contributions, counted"));
  const ways = { class: "ctx-neurons-histogram", ontoggle: () => draw(tools.scene()) };
  const root = element("details", ways, summary, picture);
  let last = BINS - 1; // where a reader last looked
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    if (changed("ranking", "neuron")) last = BINS - 1;
    if (changed("ranking", "neuron", "theta", "width")) draw(scene);
  });
  /** Nothing is drawn while it is shut. @param {Scene} scene */
  const draw = (scene) => {
    if (!root.open) return;
    const held = binsOf(columnOf(scene.ranking, scene.neuron), layer.counted);
    const marks = histogramMarks(scene, layer);
    const on = histogramAxes(scene, held, layer, picture.clientWidth || 420);
    const crossed = marks.filter(({ at }) => at >= held.edges[0] && at <= held.edges[BINS]);
    const reader = readableBars(on, {
      edges: held.edges,
      heights: held.counts.map((count) => count || 0.6), // no logarithm: as low as the foot
      style: { fill: "currentColor", opacity: 0.55 },
      over: crossed.map(({ at, style }) =>
        rule(on, { x: at }, { class: "ctx-neurons-rule", ...style }),
      ),
      label: "Read the histogram at a contribution",
      value: last,
      describe: (bin) => {
        const [count, outer] = [held.counts[bin], held.outer[bin]];
        const some = count > NAMED_IN_BIN ? ", such as" : ":";
        const tokens = count ? `${some} ${outer.map(name).join("  ")}` : "";
        return `: ${several(count, "token")}${tokens}`;
      },
      onMove: (bin) => (last = bin),
    });
    renewed(picture, reader, legend(marks));
  };
  return { root, paint };
}

/** @param {Float64Array} column @param {Int32Array} ids @returns {Bins} */
function binsOf(column, ids) {
  let [low, high] = [Infinity, -Infinity];
  for (const id of ids) {
    low = Math.min(low, column[id]);
    high = Math.max(high, column[id]);
  }
  const edges = Array.from({ length: BINS + 1 }, (_, i) => low + (i / BINS) * (high - low || 1));
  const counts = Array(BINS).fill(0);
  /** @type {number[][]} */ const outer = counts.map(() => []);
  for (const id of ids) {
    const bin = Math.min(binAt(edges, column[id]), BINS - 1);
    if ((counts[bin] += 1) <= NAMED_IN_BIN) outer[bin].push(id);
  }
  return { edges, counts, outer };
}

/** The lines across the histogram. @param {Scene} scene @param {Layer} layer */
function histogramMarks({ ranking, neuron, theta }, layer) {
  const [mean, top] = [ranking.mean[neuron], ranking.top[neuron]];
  return [
    { label: "mean of all", at: mean, style: MEAN },
    { label: `mean of the ${layer.largest} largest`, at: mean + top, style: TOP },
    { label: "mean of all + θ", at: mean + theta, style: THRESHOLD },
  ];
}

/** @param {Scene} scene @param {Bins} held @param {Layer} layer @param {number} width */
function histogramAxes({ ranking, neuron, theta }, held, layer, width) {
  const { edges, counts } = held;
  const [low, high] = [edges[0], edges[BINS]];
  const tallest = Math.max(...counts);
  const top = ranking.top[neuron];
  return chart({
    alt:
      `How many of ${several(layer.counted.length, "token")} contribute how much to neuron ` +
      `${neuron}: from ${figure(low)} to ${figure(high)}, mean ${figure(ranking.mean[neuron])}; ` +
      `its top, ${figure(top)}, is ${top > theta ? "above" : "not above"} θ = ${figure(theta)}.`,
    x: {
      label: `contribution, ${UNIT}`,
      domain: [low, high],
      ticks: linearTicks([low, high], Math.floor(width / 60)),
    },
    y: {
      label: "tokens",
      log: true,
      domain: [0.6, tallest * 1.6],
      ticks: [1, 10, 100, 1000, 1e4, 1e5].filter((count) => count <= tallest),
      format: grouped,
    },
    width,
    height: 210,
  });
}
