/** Charts in the house style: vector drawings whose ink has the colour of the page. */

import { drawn, element, fresh } from "./dom.js";
import { byHand } from "./pointer.js";
import { figure, cutShort } from "./words.js";

/** @typedef {{label: string, domain: [number, number], log?: boolean, flip?: boolean,
 *    ticks?: number[], format?: (value: number) => string}} Axis
 *  @typedef {ReturnType<typeof chart>} Chart */

const LETTER = 7.2; // pixels of a name at a line's end, a letter
const SPACE = 9.4; // and a space, which is shown
const APART = 15; // and between two names
const LETTERS = 16; // of a name at most

/** Of an axis from the destination into the past. */
export const TOKENS_BACK = "tokens back, n − i";

/** Round numbers that divide an axis. @param {[number, number]} domain @param {number} count */
export function linearTicks([low, high], count) {
  const rough = (high - low) / Math.max(count, 1);
  if (!(rough > 0)) return [low];
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5, 10].find((factor) => factor * size >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  if (last === first && count < 20) return linearTicks([low, high], 2 * count); // one does not fix a scale
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/** Powers of ten, or every so many of them. @param {[number, number]} domain @param {number} count */
function logTicks([low, high], count) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(count, 1)));
  const powers = [];
  for (let power = first; power <= last; power += every) powers.push(10 ** power);
  return powers.length > 1 ? powers : linearTicks([low, high], count);
}

/** Digits behind the point that distinguish numbers which lie so far from each other. @param {number} step */
export function digitsOfStep(step) {
  return Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
}

/** As many digits as a step between ticks needs. @param {number[]} ticks */
export function tickFormat(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(ticks[0]) || 1;
  const digits = Math.min(6, digitsOfStep(step));
  return (/** @type {number} */ value) => figure(value, digits);
}

/** Of powers of ten, all in one form. @param {number[]} ticks */
function powerFormat(ticks) {
  if (ticks.every((value) => value >= 0.01 && value < 10000))
    return (/** @type {number} */ value) => figure(value, Math.max(0, -Math.log10(value)));
  const superscript = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" }; // prettier-ignore
  return (/** @type {number} */ value) => {
    const power = String(Math.round(Math.log10(value)));
    return `10${Array.from(power, (c) => superscript[/** @type {"-"} */ (c)]).join("")}`;
  };
}

/** @param {number} value */
function isPower(value) {
  const power = Math.log10(value);
  return Math.abs(power - Math.round(power)) < 1e-9;
}

/** Two axes and a way from values to places. `alt` describes the chart.
 *  @param {{alt: string, x: Axis, y: Axis, width: number, height?: number, left?: number,
 *    title?: string, names?: string[]}} options `left` of it are labels and numbers, `names` are those that lines
 *    are to bear at their ends */
export function chart({ alt, x, y, width, height = 260, left = 58, title, names = [] }) {
  const sizes = names.map((name) => {
    const letters = Array.from(cutShort(name, LETTERS), (c) => (c === "␣" ? SPACE : LETTER));
    return letters.reduce((sum, size) => sum + size, 12);
  });
  const right = width - Math.max(12, ...sizes);
  const area = { left, right, top: title ? 26 : 12, bottom: height - 42 };
  const across = scaled(x, area.left, area.right);
  const up = scaled(y, area.bottom, area.top);
  const sized = { width, height, viewBox: `0 0 ${width} ${height}` };
  const root = drawn("svg", { class: "ctx-chart", ...sized, role: "img", "aria-label": alt });
  const plane = drawn("g");
  root.append(...axisMarks(x, y, across.at, up.at, area, title), plane);
  const add = (/** @type {SVGElement[]} */ ...nodes) => plane.append(...nodes);
  return { root, X: across.at, Y: up.at, from: across.back, area, add };
}

/** From an axis's values to places between two pixels, and back.
 *  @param {Axis} axis @param {number} low @param {number} high */
function scaled({ domain, log, flip }, low, high) {
  const measure = (/** @type {number} */ value) => (log ? Math.log10(value) : value);
  const [a, b] = domain.map(measure);
  const [from, to] = flip ? [high, low] : [low, high];
  const [size, span] = [to - from, b - a || 1];
  return {
    at: (/** @type {number} */ value) => from + ((measure(value) - a) / span) * size,
    back(/** @type {number} */ pixel) {
      const value = a + ((pixel - from) / size) * span;
      return log ? 10 ** value : value;
    },
  };
}

/** @param {Axis} x @param {Axis} y @param {(v: number) => number} X @param {(v: number) => number} Y
 *  @param {Chart["area"]} area @param {string | undefined} title @returns {SVGElement[]} */
function axisMarks(x, y, X, Y, area, title) {
  const ticksOf = (/** @type {Axis} */ axis, /** @type {number} */ pixels) =>
    axis.ticks ?? (axis.log ? logTicks : linearTicks)(axis.domain, Math.floor(pixels));
  const across = ticksOf(x, (area.right - area.left) / 90);
  const up = ticksOf(y, (area.bottom - area.top) / 45);
  const formatX =
    x.format ?? (x.log && across.every(isPower) ? powerFormat(across) : tickFormat(across));
  const formatY = y.format ?? (y.log && up.every(isPower) ? powerFormat(up) : tickFormat(up));
  const { left, right, top, bottom } = area;
  const middle = (top + bottom) / 2;
  const upright = { "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` };
  return [
    ...up.flatMap((v) => [
      drawn("line", { class: "ctx-grid", x1: left, x2: right, y1: Y(v), y2: Y(v) }),
      drawn("text", { x: left - 7, y: Y(v) + 4, "text-anchor": "end" }, formatY(v)),
    ]),
    ...across.flatMap((v) => [
      drawn("line", { class: "ctx-axis", x1: X(v), x2: X(v), y1: bottom, y2: bottom + 4 }),
      drawn("text", { x: X(v), y: bottom + 17, "text-anchor": "middle" }, formatX(v)),
    ]),
    drawn("path", { class: "ctx-axis", d: `M${left} ${top}V${bottom}H${right}` }),
    drawn("text", { x: right, y: bottom + 35, "text-anchor": "end" }, x.label),
    drawn("text", { x: 13, y: middle, ...upright }, y.label),
    ...(title ? [drawn("text", { x: left, y: 14, class: "ctx-title" }, title)] : []),
  ];
}

/** A line through points; those that are no numbers break it.
 *  @param {Chart} on @param {ArrayLike<number>} xs @param {ArrayLike<number>} ys
 *  @param {Record<string, any>} [style] @returns {SVGElement} */
export function line(on, xs, ys, style = {}) {
  let [d, pen] = ["", "M"];
  for (let i = 0; i < xs.length; i++) {
    const [px, py] = [on.X(xs[i]), on.Y(ys[i])];
    if (Number.isFinite(px) && Number.isFinite(py)) {
      d += `${pen}${px.toFixed(1)} ${py.toFixed(1)}`;
      pen = "L";
    } else pen = "M";
  }
  const usual = { fill: "none", "stroke-width": 1.6, "stroke-linejoin": "round" };
  return drawn("path", { d, ...usual, ...style });
}

/** Lines with their names at their right ends, in their colours; names move apart as far as they must.
 *  @param {Chart} on @param {(Mark & {xs: ArrayLike<number>, ys: ArrayLike<number>})[]} lines */
export function namedLines(on, lines) {
  const ends = lines.flatMap(({ label, style, xs, ys }) => {
    const across = Array.from(xs, on.X);
    const x = Math.max(...across);
    const y = on.Y(ys[across.indexOf(x)]);
    return Number.isFinite(y) ? [{ label, style, x, y: Math.min(y, on.area.bottom) }] : [];
  });
  ends.sort((a, b) => a.y - b.y);
  let room = on.area.bottom - APART * (ends.length - 1); // for those that follow
  let last = -Infinity;
  for (const end of ends) {
    last = end.y = Math.max(Math.min(end.y, room), last + APART);
    room += APART;
  }
  on.add(...lines.map(({ xs, ys, style }) => line(on, xs, ys, style)));
  for (const { xs, ys, style } of lines) {
    if (xs.length > 1 || !Number.isFinite(on.Y(ys[0]))) continue;
    const dot = { cx: on.X(xs[0]), cy: on.Y(ys[0]), r: 2.5 }; // one point is no line
    on.add(drawn("circle", { ...dot, fill: style.stroke, opacity: style.opacity ?? 1 }));
  }
  for (const { label, style, x, y } of ends) {
    const at = { class: "ctx-named", x: x + 6, y: y + 4 };
    const name = drawn("text", at, cutShort(label, LETTERS));
    name.style.setProperty("--ctx-line", style.stroke);
    on.add(name);
  }
}

/** An upright (x given) or level (y given) line across the chart.
 *  @param {Chart} on @param {{x?: number, y?: number}} at @param {Record<string, any>} [style] */
export function rule(on, { x, y }, style = {}) {
  const { left, right, top, bottom } = on.area;
  const ends =
    x === undefined
      ? { x1: left, x2: right, y1: on.Y(y ?? 0), y2: on.Y(y ?? 0) }
      : { x1: on.X(x), x2: on.X(x), y1: top, y2: bottom };
  return drawn("line", { class: "ctx-rule", ...ends, ...style });
}

/** Lets a reader read a chart's values at one place, with a hand or the arrow keys. `read` puts
 *  them into words, for the line under the chart. `onMove` gets the place that is read, `onHold` the one
 *  that is held, null where it is let go; `held` is what is held where a text beside it is read too.
 *  @param {Chart} on @param {{label: string, max: number, value: number, read: (place: number) => string,
 *    onMove?: (place: number) => void, onHold?: (place: number | null) => void,
 *    held?: () => number}} options places are 0 to max
 *  @returns {HTMLElement & {update: (place: number) => void}} chart and line */
export function readable(on, { label, max, value, read, onMove, onHold, held }) {
  const [mark, pin] = ["ctx-cursor", "ctx-cursor ctx-held"].map((kind) =>
    drawn("line", { class: kind, y1: on.area.top, y2: on.area.bottom }),
  );
  const readout = element("p", { class: "ctx-readout" });
  on.root.id ||= fresh("chart");
  const handle = element("div", {
    class: "ctx-readable",
    role: "slider",
    "aria-describedby": on.root.id, // what is inside of a slider is not read out by itself
    tabindex: 0,
    "aria-label": label,
    "aria-valuemin": 0,
    "aria-valuemax": max,
  });
  let [at, kept] = [value, value];
  const move = (/** @type {number} */ to, quiet = false) => {
    at = Math.min(Math.max(Math.round(to), 0), max);
    for (const end of ["x1", "x2"]) mark.setAttribute(end, String(on.X(at)));
    handle.setAttribute("aria-valuenow", String(at));
    readout.textContent = read(at);
    handle.setAttribute("aria-valuetext", readout.textContent);
    if (!quiet) onMove?.(at);
  };
  const steps = /** @type {Record<string, number>} */ ({
    ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10,
  }); // prettier-ignore
  handle.addEventListener("keydown", (event) => {
    const flipped = on.X(max) < on.X(0) && /Left|Right/.test(event.key) ? -1 : 1;
    if (event.key in steps) hold(at + flipped * steps[event.key]);
    else if (event.key === "Home") hold(0);
    else if (event.key === "End") hold(max);
    else return;
    event.preventDefault();
  });
  const under = (/** @type {MouseEvent} */ event) => {
    const box = on.root.getBoundingClientRect();
    const share = (event.clientX - box.left) / (box.width || 1); // a narrow page may shrink it
    return on.from(share * on.root.viewBox.baseVal.width);
  };
  const hold = (/** @type {number | null} */ place) => {
    move(place ?? value, Boolean(onHold)); // `onHold` reads there itself
    kept = at;
    pin.setAttribute("visibility", place === null ? "hidden" : "visible");
    for (const end of ["x1", "x2"]) pin.setAttribute(end, String(on.X(at)));
    onHold?.(place === null ? null : at);
  };
  byHand(handle, { at: under, held: () => held?.() ?? kept, show: move, hold });
  pin.setAttribute("visibility", "hidden");
  on.add(pin, mark);
  handle.append(on.root);
  move(value, true);
  return Object.assign(element("div", {}, handle, readout), {
    update: (/** @type {number} */ place) => move(place, true),
  });
}
