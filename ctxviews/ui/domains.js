/** Passages by domain: a line each, a dot a passage. */

import { drawn } from "./dom.js";
import { chart } from "./plot.js";
import { cutShort } from "./words.js";

/** @import { Axis, Chart } from "./plot.js" */

const LINE = 17; // pixels between two domains
const WIDEST = 15; // letters of a domain's name that fit beside the picture
export const NAMES = 114; // pixels that they take

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

/** The drawing: upright marks are the means; a dot has a name and a kind, which is its class.
 *  @param {DomainResponse[]} answers
 *  @param {{what: string, x: Axis, width: number, chosen: number, figure: (value: number) => string,
 *    named: (passage: number) => string, kind: (passage: number, value: number) => string,
 *    marks: (on: Chart) => SVGElement[], onPick: (passage: number) => void}} options `marks` lie behind */
export function domainChart(answers, { what, x, width, chosen, figure, ...ways }) {
  const means = answers.map(({ domain, mean }) => `${domain} ${figure(mean)}`);
  const on = chart({
    alt: `${what} of the passages, by domain. Averages: ${means.join(", ")}.`,
    x,
    y: {
      label: "",
      domain: [answers.length - 0.4, -0.6],
      ticks: [...answers.keys()],
      format: (row) => cutShort(answers[row].domain, WIDEST),
    },
    width,
    left: NAMES,
    height: answers.length * LINE + 54,
  });
  on.add(...ways.marks(on));
  answers.forEach(({ passages, values, mean }, row) => {
    const [x, y] = [on.X(mean), on.Y(row)];
    on.add(drawn("line", { class: "ctx-domains-mean", x1: x, x2: x, y1: y - 6, y2: y + 6 }));
    for (const [k, i] of passages.entries()) {
      const at = { cx: on.X(values[k]), cy: y, r: i === chosen ? 6 : 3.6 };
      const title = drawn("title", {}, `${ways.named(i)}: ${figure(values[k])}`);
      const look = { class: ways.kind(i, values[k]), onclick: () => ways.onPick(i) };
      on.add(drawn("circle", { ...at, ...look }, title));
    }
  });
  return on.root;
}
