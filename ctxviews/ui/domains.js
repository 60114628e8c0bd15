/** Passages by domain: a line each, a dot a passage. */

import { drawn, element, row, table } from "./dom.js";
import { DOWN, UP } from "./marks.js";
import { linearTicks, tickFormat } from "./plot.js";
import { figure, several, signed, UNIT } from "./words.js";

/** @typedef {{low: number, high: number, across: number, X: (value: number) => number}} Scale */

const MARGINS = 168; // pixels beside the drawings: names and means

/** Values of passages, domain after domain, that of the largest mean first.
 *  @param {{domain: string}[]} passages @param {ArrayLike<number>} values @returns {DomainResponse[]} */
export function byDomain(passages, values) {
  const domains = Map.groupBy(passages.keys(), (i) => passages[i].domain);
  const answers = [...domains].map(([domain, passages]) => {
    const own = passages.map((i) => values[i]);
    return { domain, passages, values: own, mean: own.reduce((a, b) => a + b) / own.length };
  });
  return answers.sort((a, b) => b.mean - a.mean);
}

/** The mean over all passages, how many they are, and how far they reach. @param {DomainResponse[]} answers */
export function overall(answers) {
  const all = answers.flatMap(({ values }) => values);
  const usual = all.reduce((a, b) => a + b, 0) / all.length;
  return { usual, count: all.length, low: Math.min(...all), high: Math.max(...all) };
}

/** Dots of passages, each with its name and number; the chosen one is larger, `kind` is the class of a dot.
 *  @param {{x: number, y: number, title: string, chosen: boolean, kind: string}[]} spots
 *  @param {[number, number]} radii usual and chosen @param {(i: number) => void} onPick */
export function spots(spots, radii, onPick) {
  return spots.map(({ x, y, title, chosen, kind }, i) => {
    const at = { cx: x, cy: y, r: radii[Number(chosen)], class: kind };
    return drawn("circle", { ...at, onclick: () => onPick(i) }, drawn("title", {}, title));
  });
}

/** A neuron's summaries of the passages, one domain's after another's: a line each with its mean.
 *  @param {DomainResponse[]} answers @param {{passages: {name: string}[], chosen: number, width: number,
 *    onPick: (passage: number) => void}} options */
export function domainTable(answers, { passages, chosen, width, onPick }) {
  const { usual, low, high } = overall(answers);
  const across = Math.max(90, width - MARGINS);
  const X = (/** @type {number} */ value) =>
    6 + ((value - low) / (high - low || 1)) * (across - 12);
  const scale = { low, high, across, X };
  const rows = answers.map((answer) => {
    const dots = element("td", {}, strip(answer, usual, chosen, passages, scale, onPick));
    return row(answer.domain, [dots, signed(answer.mean)]);
  });
  const foot = [element("td"), element("td", {}, scaleUnder(scale)), element("td")];
  const columns = ["domain", "passages", "mean"];
  const made = table({ kind: "ctx-domains", columns, rows, unseen: true });
  made.tHead?.before(element("colgroup", {}, ...columns.map(() => element("col"))));
  made.append(element("tfoot", { "aria-hidden": "true" }, element("tr", {}, foot)));
  return made;
}

/** One domain: its passages as dots, its mean as a bar. @param {DomainResponse} answer @param {number} usual
 *  @param {number} chosen @param {{name: string}[]} all @param {Scale} scale
 *  @param {(passage: number) => void} onPick */
function strip({ domain, mean, values, passages }, usual, chosen, all, { across, X }, onPick) {
  const dots = values.map((value, i) => ({
    x: X(value),
    y: 9,
    title: `${all[passages[i]].name} ${signed(value)}`,
    chosen: passages[i] === chosen,
    kind: passages[i] === chosen ? "ctx-domains-ring" : "ctx-domains-dot",
  }));
  const [a, b] = [X(usual), X(mean)];
  const reach = `from ${figure(Math.min(...values))} to ${figure(Math.max(...values))}`;
  const bar = { x: Math.min(a, b), width: Math.max(Math.abs(b - a), 1), y: 4, height: 10 };
  const label = `${domain}: ${several(values.length, "passage")} ${reach}`;
  return drawn(
    "svg",
    { ...sizedChart(across, 18), role: "img", "aria-label": label },
    drawn("rect", { ...bar, fill: mean < usual ? DOWN : UP, opacity: 0.35 }),
    drawn("line", { class: "ctx-axis", x1: a, x2: a, y1: 0, y2: 18 }),
    spots(dots, [2.6, 4.5], (i) => onPick(passages[i])),
  );
}

/** @param {number} width @param {number} height */
function sizedChart(width, height) {
  return { class: "ctx-chart", width, height, viewBox: `0 0 ${width} ${height}` };
}

/** The scale that all lines share. @param {Scale} scale */
function scaleUnder({ low, high, across, X }) {
  const ticks = linearTicks([low, high], Math.max(3, Math.floor(across / 45)));
  const format = tickFormat(ticks);
  return drawn(
    "svg",
    sizedChart(across, 36),
    drawn("line", { class: "ctx-axis", x1: 0, x2: across, y1: 0.5, y2: 0.5 }),
    ticks.map((tick) => [
      drawn("line", { class: "ctx-axis", x1: X(tick), x2: X(tick), y1: 0, y2: 4 }),
      drawn("text", { x: X(tick), y: 17, "text-anchor": "middle" }, format(tick)),
    ]),
    drawn("text", { x: across, y: 33, "text-anchor": "end" }, `summary, in ${UNIT}`),
  );
}
