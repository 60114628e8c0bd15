/** Colours and lines, the same in every view. */

import { drawn } from "./dom.js";

/** The colours of ctxbook.figures.COLOURS: Okabe and Ito's hues, 3:1 on white and on near-black. */
export const COLOURS = [
  "#0072B2",
  "#D55E00",
  "#009E73",
  "#CC79A7",
  "#BC8200",
  "#3394CC",
  "#8C6BB1",
  "#8A8A8A",
];
const DASHES = [null, "6 4", "2 3", "8 3 2 3"];

/** The colours of what raises and of what lowers. */
export const UP = "var(--ctx-up)";
export const DOWN = "var(--ctx-down)";

/** Colour and dash of a head's line, the same in every view: every second head is dashed, so that no
 *  two neighbours differ by colour alone, and 32 can be distinguished.
 *  @param {number} head @returns {{stroke: string, "stroke-dasharray": string | null}} */
export function headStyle(head) {
  const dash = DASHES[(Math.floor(head / 8) + (head % 2)) % 4];
  return { stroke: COLOURS[head % 8], "stroke-dasharray": dash };
}

/** A piece of a line, where words say what it is. @param {Record<string, any>} style */
export function lineMark(style) {
  const line = drawn("line", { x1: 0, x2: 22, y1: 2, y2: 2, "stroke-width": 3, ...style });
  return drawn("svg", { class: "ctx-mark", viewBox: "0 0 22 4", "aria-hidden": "true" }, line);
}
