/** How far denominators stray: what theory allows, and where texts fall (chapter 4).
 *
 *  No layer is needed: Python has measured, and all that is worked out here are bounds and shares.
 *  Everything in a record (record.py) is in units of the head's expected denominator, so that 1 is the mean. */

import {
  controlRow,
  either,
  headChoice,
  passageChoice,
  slider,
  resetButton,
} from "../ui/controls.js";
import { drawn, element, quiet, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { byDomain, domainChart, NAMES } from "../ui/domains.js";
import { chart, digitsOfStep, linearTicks, readable, rule } from "../ui/plot.js";
import { below, belowOrLeft, kept, sound, turn } from "../ui/state.js";
import { figure, several, tokenMark, tokenName } from "../ui/words.js";

/** @typedef {{variance: number, width: number, largest: number, squares: number, heaviest: number}} Facts of a
 *    head what bounds are made of: the variance of a token's content, its interval's width and its largest
 *    distance from the mean; of the kernel the sum of squares and the largest weight
 *  @typedef {{n: number, token: string, heads: Facts[], texts: number[][],
 *    passages: {name: string, domain: string}[], ofPassages: number[][]}} Measured head by head
 *  @typedef {{domain: [number, number], ticks: number[]}} Axis that both pictures share
 *  @typedef {{head: number, text: number, bound: string, level: number}} Turned
 *  @typedef {Turned & {record: Measured, texts: number[], values: number[], epsilon: number,
 *    edges: number[], width: number}} Scene of one head its texts, its passages' values, how far off the
 *    mean is allowed, and the edges of bins */

const TEXT_BINS = 45;

/** P(off by epsilon or more) at most, for tokens drawn independently, as in ctxlib.denominators;
 *  the last is no bound: it is what the normal curve of that variance has.
 *  @type {Record<string, (epsilon: number, facts: Facts) => number>} */
const TAILS = {
  Chebyshev: (epsilon, { variance, squares }) => (variance * squares) / epsilon ** 2,
  Hoeffding: (epsilon, { width, squares }) =>
    2 * Math.exp((-2 * epsilon ** 2) / (width ** 2 * squares)),
  Bernstein: (epsilon, { variance, squares, heaviest, largest }) => {
    const steps = (2 / 3) * heaviest * largest * epsilon;
    return 2 * Math.exp(-(epsilon ** 2) / (2 * variance * squares + steps));
  },
  "normal, i.i.d.": (epsilon, { variance, squares }) =>
    normalTails(epsilon / Math.sqrt(variance * squares)),
};

/** What readers see, where it is not the name. @type {Record<string, string>} */
const CALLED = {
  Bernstein: "Bernstein (appendix C)",
  "normal, i.i.d.": "bell curve, independent tokens",
};

/** @type {Record<string, Record<string, any>>} as chapter 4 draws them */
const STYLES = {
  Chebyshev: { stroke: COLOURS[0], "stroke-dasharray": "7 4" },
  Hoeffding: { stroke: COLOURS[1], "stroke-dasharray": "2 3" },
  Bernstein: { stroke: COLOURS[2], "stroke-dasharray": "8 3 2 3" },
  "normal, i.i.d.": { stroke: COLOURS[3] },
};

/** P(|Z| >= z) for a standard normal Z, by the error function's series of positive terms. @param {number} z */
function normalTails(z) {
  if (!(z < 9)) return 0;
  let [term, sum] = [z, z];
  for (let odd = 3; term > 1e-17 * sum; odd += 2) sum += term *= (z * z) / odd;
  return 1 - Math.sqrt(2 / Math.PI) * Math.exp((-z * z) / 2) * sum;
}

/** The epsilon for which a tail is 1 - level: by halving, since each of them falls as epsilon
 *  grows. @param {string} bound @param {Facts} facts @param {number} level @returns {number} */
function halfWidth(bound, facts, level) {
  const beyond = (/** @type {number} */ epsilon) => TAILS[bound](epsilon, facts) > 1 - level;
  let [low, high] = [0, 1];
  while (beyond(high)) [low, high] = [high, 2 * high];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (beyond(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/** The share of denominators that are off their mean by less than epsilon.
 *  @param {number[]} values @param {number} epsilon @returns {number} */
function shareInside(values, epsilon) {
  return values.filter((value) => Math.abs(value - 1) < epsilon).length / values.length;
}

/** @param {{model: Model, el: HTMLElement}} view traits: record, head, text, bound, level */
async function render({ model, el }) {
  /** @type {Measured} */ const record = model.get("record");
  const { heads, passages } = record;
  /** @returns {Turned} */
  const chosen = () => ({
    head: sound(model, "head", below(heads.length), 0),
    text: sound(model, "text", belowOrLeft(passages.length), -1),
    bound: sound(model, "bound", (v) => Object.hasOwn(TAILS, v), "Chebyshev"),
    level: sound(model, "level", (v) => v >= 0.5 && v <= 0.999, 0.95),
  });
  const controls = controlRow({
    head: headChoice({ count: heads.length, onChange: (head) => turn(model, { head }) }),
    text: passageChoice({
      passages,
      first: "none marked",
      onChange: (text) => turn(model, { text }),
    }),
    level: slider({
      label: "Confidence level",
      min: 0.5,
      max: 0.999,
      step: 0.001,
      format: inPercent,
      onInput: (level) => turn(model, { level }),
    }),
    bound: either({
      label: "Band by",
      options: Object.keys(TAILS).map((value) => ({ value, label: CALLED[value] ?? value })),
      onChange: (bound) => turn(model, { bound }),
    }),
  });
  const picture = element("div", { class: "ctx-denominators" });
  const words = element("div");
  el.replaceChildren(controls, picture, words, quiet(resetButton(model)));
  let place = 1; // the denominator at which a reader last looked
  /** @param {Turned & {width: number}} now */
  const update = (now) => {
    controls.update(now);
    const [texts, values] = [record.texts[now.head], record.ofPassages[now.head]];
    const epsilon = halfWidth(now.bound, heads[now.head], now.level);
    // bins between round numbers from 0 on, which hold nearly all texts and every passage of a head
    const most = texts.toSorted((a, b) => a - b)[Math.ceil(0.995 * texts.length) - 1];
    const ticks = linearTicks([0, Math.max(2, most, ...values)], TEXT_BINS);
    const edges = [...ticks, 2 * ticks[ticks.length - 1] - ticks[ticks.length - 2]];
    const scene = { ...now, record, texts, values, epsilon, edges };
    const onMove = (/** @type {number} */ to) => (place = to);
    const onPick = (/** @type {number} */ text) =>
      turn(model, { text: text === now.text ? -1 : text });
    renewed(picture, textsAndPassages(scene, place, onMove, onPick));
    words.replaceChildren(shareAccount(scene));
  };
  return kept({ model, place: el, state: chosen, update });
}

/** @param {number} share */
function inPercent(share) {
  return `${figure(100 * share, 1)}%`;
}

/** How far off the mean, as readers say it. @param {number} epsilon */
function offMean(epsilon) {
  return `±\u00a0${figure(100 * epsilon, epsilon < 0.1 ? 1 : 0)}%`;
}

/** All texts as a histogram and the passages below, over one axis.
 *  @param {Scene} scene @param {number} place where it is read
 *  @param {(place: number) => void} onMove @param {(text: number) => void} onPick a passage */
function textsAndPassages(scene, place, onMove, onPick) {
  const rows = byDomain(scene.record.passages, scene.values);
  const domain = /** @type {[number, number]} */ ([0, scene.edges[scene.edges.length - 1]]);
  const axis = { domain, ticks: linearTicks(domain, Math.max(3, scene.width / 110)) };
  const histogram = textHistogram({ ...scene, axis }, place, onMove);
  return rows.length ? [histogram, passageStrip({ ...scene, axis }, rows, onPick)] : [histogram];
}

/** @param {Scene & {axis: Axis}} scene @param {number} place @param {(place: number) => void} onMove */
function textHistogram(scene, place, onMove) {
  const { head, texts, epsilon, edges, width } = scene;
  const bins = edges.length - 1;
  const counts = new Array(bins).fill(0);
  for (const value of texts) if (binAt(edges[1], value) < bins) counts[binAt(edges[1], value)]++;
  const most = 1.08 * Math.max(...counts);
  const share = inPercent(shareInside(texts, epsilon));
  const on = chart({
    alt:
      `Histogram of the denominators of head ${head} over their mean, ${several(texts.length, "text")}; ` +
      `${share} lie within ${offMean(epsilon)}.`,
    x: { label: "", ...scene.axis },
    y: { label: "texts", domain: [0, most], ticks: linearTicks([0, most], 4) },
    width,
    height: 226,
    left: NAMES,
    title: `head ${head}: the mean ${offMean(epsilon)}`,
  });
  on.add(...allowedBand(on, scene));
  const [step, digits] = [edges[1], digitsOfStep(edges[1])];
  const bars = counts.map((count, i) => {
    const [x, end, y] = [on.X(edges[i]), on.X(edges[i + 1]), on.Y(count)];
    const size = { width: Math.max(end - x - 0.5, 0.5), y, height: on.area.bottom - y };
    return drawn("rect", { x, ...size, fill: "var(--ctx-ink)", opacity: 0.62 });
  });
  on.add(...bars, ...passageMark(on, scene));
  const byBin = {
    ...on,
    X: (/** @type {number} */ bin) => on.X((bin + 0.5) * step),
    from: (/** @type {number} */ pixel) => on.from(pixel) / step - 0.5,
  };
  return readable(byBin, {
    label: "Read the histogram at a denominator",
    max: bins - 1,
    value: Math.min(binAt(step, place), bins - 1),
    read: (bin) =>
      `${figure(edges[bin], digits)} to ${figure(edges[bin + 1], digits)} times the mean: ` +
      `${counts[bin]} of ${several(texts.length, "text")}`,
    onMove: (bin) => onMove((bin + 0.5) * step),
  });
}

/** Which bin a value falls into, the first one counted 0; bins begin at 0. @param {number} step @param {number} value */
function binAt(step, value) {
  return Math.floor(value / step + 1e-9);
}

/** The band that theory allows, and the mean. @param {Chart} on @param {Scene} scene */
function allowedBand(on, { bound, epsilon }) {
  const { left, right, top, bottom } = on.area;
  const style = STYLES[bound];
  const ends = [1 - epsilon, 1 + epsilon];
  const seen = ends.filter((x) => on.X(x) >= left && on.X(x) <= right);
  const lines = seen.map((x) => rule(on, { x }, { class: null, "stroke-width": 1.6, ...style }));
  const [x, end] = ends.map((x) => Math.min(Math.max(on.X(x), left), right));
  const size = { x, width: end - x, y: top, height: bottom - top };
  return [
    drawn("rect", { ...size, fill: style.stroke, opacity: 0.13 }),
    ...lines,
    rule(on, { x: 1 }),
  ];
}

/** The chosen passage: a line. @param {Chart} on @param {Scene} scene */
function passageMark(on, { values, text }) {
  return text < 0 ? [] : [rule(on, { x: values[text] }, { class: "ctx-denominators-mark" })];
}

/** The passages, a line for each domain; hollow where they lie outside the band.
 *  @param {Scene & {axis: Axis}} scene @param {DomainResponse[]} rows @param {(text: number) => void} onPick */
function passageStrip(scene, rows, onPick) {
  const { record, epsilon, width, text } = scene;
  const drawing = domainChart(rows, {
    what: "Denominators, over the mean,",
    x: { label: "denominator, over its mean", ...scene.axis },
    width,
    chosen: text,
    figure,
    named: (i) => record.passages[i].name,
    kind: (_, value) =>
      Math.abs(value - 1) < epsilon ? "ctx-denominators-in" : "ctx-denominators-out",
    marks: (on) => [...allowedBand(on, scene), ...passageMark(on, scene)],
    onPick,
  });
  const hint =
    "A dot is a labelled passage, hollow if outside the band; a row is a domain with its mean, " +
    "upright, and the rows are in the order of these means.";
  return element("div", {}, drawing, quiet(hint));
}

/** What is promised and what is so. @param {Scene} scene */
function shareAccount({ record, texts, bound, level, epsilon }) {
  const found = shareInside(texts, epsilon);
  const isBound = !bound.startsWith("normal");
  const fewer = isBound
    ? "Fewer than promised: the bound assumes independence, and tokens of one text are alike"
    : "Fewer than that: it assumes independence, and a normal curve on top of it";
  const verdict = found < level ? `${fewer}.` : isBound ? "As promised." : "No fewer.";
  const where = ` (n = ${record.n}, query token `;
  return element(
    "p",
    {},
    `Were tokens drawn independently, ${isBound ? "at least" : "about"} ${inPercent(level)} of ` +
      `texts would have a denominator within ${offMean(epsilon)} of the mean. `,
    element("strong", {}, `${inPercent(found)} of ${several(texts.length, "text")} have.`),
    ` ${verdict}`,
    element("span", { class: "ctx-quiet" }, where, tokenMark(tokenName(record.token)), ")"),
  );
}

export default { render };
