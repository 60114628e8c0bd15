/** How values are spread: counts in bins that are read one by one. */

import { bars, readable } from "./plot.js";

/** Bars over bins of one width in a chart of the values.
 *  @param {import("./plot.js").Chart} on
 *  @param {{edges: number[], heights: number[], style: Record<string, any>, over: SVGElement[],
 *    label: string, value: number, read: (bin: number) => string, onMove: (bin: number) => void}} bins
 *    `edges` are one more than heights; what is `over` the bars is drawn last */
export function readableBars(on, { edges, heights, style, over, ...reader }) {
  const [first, step] = [edges[0], edges[1] - edges[0]];
  on.add(...bars(on, edges, heights, style), ...over);
  const byBin = {
    ...on,
    X: (/** @type {number} */ bin) => on.X(first + (bin + 0.5) * step),
    from: (/** @type {number} */ pixel) => (on.from(pixel) - first) / step - 0.5,
  };
  return readable(byBin, { min: 0, max: heights.length - 1, ...reader });
}
