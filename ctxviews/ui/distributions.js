/** How values are spread: counts in bins that are read one by one. */

import { drawn } from "./dom.js";
import { readable } from "./plot.js";
import { figure } from "./words.js";

/** Which bin a value falls into, the first one counted 0; bins are of one width.
 *  @param {number[]} edges @param {number} value */
export function binAt(edges, value) {
  return Math.floor((value - edges[0]) / (edges[1] - edges[0]) + 1e-9);
}

/** Bars over bins of one width in a chart of the values, from its foot.
 *  @param {Chart} on
 *  @param {{edges: number[], heights: number[], style: Record<string, any>, over: SVGElement[],
 *    label: string, value: number, digits?: number, describe: (bin: number) => string,
 *    onMove: (bin: number) => void}} bins
 *    `edges` are one more than heights; what is `over` the bars is drawn last; `describe` goes on from
 *    the edges of a bin */
export function readableBars(on, { edges, heights, style, over, digits, describe, ...reader }) {
  const [first, step] = [edges[0], edges[1] - edges[0]];
  const bars = heights.map((height, i) => {
    const [x, end, y] = [on.X(edges[i]), on.X(edges[i + 1]), on.Y(height)];
    const size = { width: Math.max(end - x - 0.5, 0.5), y, height: on.area.bottom - y };
    return drawn("rect", { x, ...size, ...style });
  });
  on.add(...bars, ...over);
  const byBin = {
    ...on,
    X: (/** @type {number} */ bin) => on.X(first + (bin + 0.5) * step),
    from: (/** @type {number} */ pixel) => (on.from(pixel) - first) / step - 0.5,
  };
  const read = (/** @type {number} */ bin) =>
    `${figure(edges[bin], digits)} to ${figure(edges[bin + 1], digits)}${describe(bin)}`;
  return readable(byBin, { max: heights.length - 1, read, ...reader });
}
