/** A text's lines: its summary by the circuits, token after token. */

import { element, renewed } from "../ui/dom.js";
import { COLOURS } from "../ui/marks.js";
import { chart, namedLines, readable, rule } from "../ui/plot.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure, signed, UNIT } from "../ui/words.js";

/** @import { Text } from "./scene.js" */

export const TRUE = { stroke: "var(--ctx-ink)", "stroke-width": 1.3 };
export const BY_OWN = { stroke: COLOURS[1], "stroke-width": 1.7, "stroke-dasharray": "6 3" };
export const NAMES = ["paper’s circuit", "self-normalised", "computed"];
const BY_PAPER = { stroke: COLOURS[0], "stroke-width": 1.9 };

/** A text's lines. @param {string} label @param {Omit<Hand, "at">} hand */
export function pictureSection(label, hand) {
  const root = element("div");
  let mark = (/** @type {number} */ _) => {};
  /** @type {Text | null} */ let shown = null;
  const drawnOf = ["reading", "neuron", "axes", "shade", "points", "width"];
  const update = inStep((/** @type {Text & {width: number}} */ text, changed) => {
    shown = text;
    if (!text.terms) root.replaceChildren();
    else if (changed(...drawnOf)) {
      const made = runningSummary(label, text, () => shown?.terms ?? [], hand);
      mark = made.update;
      renewed(root, made);
    } else if (changed("at", "terms")) mark(text.at);
  });
  return { root, update, mark: (/** @type {number} */ place) => mark(place) };
}

/** The running summaries of a text by both circuits. @param {string} label
 *  @param {Text & {width: number}} text @param {() => ArrayLike<number>} terms as the shades have them
 *  @param {Omit<Hand, "at">} hand */
function runningSummary(label, text, terms, { held, show, hold }) {
  const { reading, names, shade, width, at } = text;
  const neuron = /** @type {number} */ (text.neuron);
  const { places, paper, own, truth } = reading.curve(neuron);
  const domain = JSON.parse(text.axes);
  const finer = digitsFor(shade);
  const digits = digitsFor(domain.y[1] - domain.y[0]);
  const ends = [paper, own, truth].map((values) => figure(values.at(-1) ?? NaN, digits));
  const exact = truth.length > 0;
  const lines = [
    { label: NAMES[0], style: BY_PAPER, xs: places, ys: paper },
    { label: NAMES[1], style: BY_OWN, xs: places, ys: own },
    { label: NAMES[2], style: TRUE, xs: places, ys: truth },
  ];
  const on = chart({
    alt:
      `${label}: running summary of neuron ${neuron}; at the end ${ends[0]} by the paper’s ` +
      `circuit and ${ends[1]} by the self-normalised one` +
      (exact ? `; the model computes ${ends[2]}.` : "."),
    x: { label: "tokens read", domain: [0, domain.x] },
    y: { label: UNIT, domain: domain.y },
    width,
    height: 230,
    names: NAMES,
    title: `neuron ${neuron}, summary of the text so far`,
  });
  on.add(rule(on, { y: 0 }));
  namedLines(on, lines);
  const read = (/** @type {number} */ place) => {
    const near = nearest(places, place);
    const [a, b, c] = [paper, own, truth].map((values) =>
      figure(values[places.indexOf(near)] ?? NaN, digits),
    );
    const upTo = near === reading.n ? "At the end" : `Up to token ${near}`;
    const adds = `Token ${place}, “${names[place]}”, adds ${signed(terms()[place] ?? NaN, finer)}`;
    const computed = exact ? `; the model computes ${c}` : "";
    return `${adds}. ${upTo}: ${a} by the paper’s circuit, ${b} self-normalised${computed}.`;
  };
  const reads = `Read the ${label.toLowerCase()} token by token`;
  const moved = { held, onMove: show, onHold: hold };
  return readable(on, { label: reads, max: reading.n, value: at, read, ...moved });
}

/** @param {number[]} places @param {number} place @returns {number} that of `places` which lies closest to it */
export function nearest(places, place) {
  const closer = (/** @type {number} */ a, /** @type {number} */ b) =>
    Math.abs(b - place) < Math.abs(a - place) ? b : a;
  return places.reduce(closer, Infinity);
}
