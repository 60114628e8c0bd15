/** Every neuron of the layer as a dot, and the threshold as a line that one drags across them. */

import { firstTokens } from "../engine/ranking.js";
import { button, pick, RULE, slider, term } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { digitsOfStep, linearTicks, tickFormat } from "../ui/plot.js";
import { figure, grouped, headsName } from "../ui/words.js";
import { nameOf } from "./cards.js";

/** @import { Scene, Tools } from "./scene.js" */

const LANE = 12; // pixels, of a label
const ALL = 110; // of all neurons, where no label is known
const [NAMES, SHORTER] = [132, 106]; // beside the lanes
const [NARROW, NARROWEST] = [400, 300]; // where they are shorter, and where there is no room for them
const THUMB = 8; // half of a slider's: its middle stands where the line does
const ABOVE = 18; // the lanes, for the line's handle
const BELOW = 17; // them, for the numbers of the axis
const NEAR = 9; // as far as a pointer may miss a dot or the line
const GHOSTS = 1500; // milliseconds for which dots show where they came from

/** Dots, slider and rule. @param {Tools} tools @param {HTMLElement | null} reset */
export function dotsSection(tools, reset) {
  const { layer, go, name } = tools;
  const canvas = element("canvas", { role: "img" });
  /** @type {Scene | null} */ let last = null;
  /** @type {string[]} */ let lanes = []; // the labels, that of the farthest neuron first
  let laneOf = new Int32Array(layer.nNeurons); // the last for those without a label
  let reach = 0; // of the axis; it grows, so that a head that is turned off moves dots and not the axis
  /** @type {number | null} */ let under = null; // the neuron that is pointed at
  let [dragged, from] = [false, 0];
  let [wide, since] = [0, -Infinity]; // the canvas, which is slow to ask, and when dots moved

  const threshold = slider({
    label: "Threshold of top",
    max: 1,
    step: 0.1,
    format: (theta) => (last ? thetaLabel(last, theta) : "–"),
    // zero would be the rule again: the slider's lowest place is the smallest number above it
    onInput: (theta) => go({ threshold: theta || (last?.ranking.step ?? 1) / 1000 }),
  });
  threshold.update(0);
  threshold.classList.add("ctx-neurons-theta");
  const input = /** @type {HTMLInputElement} */ (threshold.querySelector("input"));
  const rounded = (/** @type {number} */ value) => {
    const step = last?.ranking.step ?? 1;
    return Number((Math.round(value / step) * step || step / 1000).toPrecision(6));
  };
  const byRule = term(
    RULE,
    button(RULE, () => go({ threshold: 0 })),
  );
  const along = `: how far a neuron’s ${layer.largest} strongest tokens push it, beyond an average token, in units of the pre-activation →`;
  const axis = element("p", { class: "ctx-label" }, term("top"), along);
  const brief = element("span");
  const more = [brief, pick("more below", () => tools.show("neuron"))];
  const short = element("p", { class: "ctx-neurons-brief" }, more);
  const why = element("p", { class: "ctx-quiet", role: "status" });
  const parts = [threshold, axis, short, why, byRule, reset];
  const turns = element("div", { class: "ctx-neurons-threshold" }, parts);
  const root = element("div", { class: "ctx-neurons-dots" }, canvas, turns);

  const narrow = () => wide < NARROW;
  const named = () => lanes.length > 0 && wide >= NARROWEST;
  const left = () => (named() ? (narrow() ? SHORTER : NAMES) : 0);
  const across = () => wide - left() - 2 * THUMB;
  const placed = (/** @type {number} */ top) =>
    left() + THUMB + (across() * Math.min(Math.max(top, 0), reach)) / reach;
  const height = (/** @type {number} */ neuron) => {
    // a place of its own in the lane, the same every time: the golden ratio spreads neighbours
    const within = (neuron * 0.618034) % 1;
    if (!left()) return ABOVE + ALL * (0.05 + 0.9 * within);
    return ABOVE + LANE * (laneOf[neuron] + 0.2 + 0.6 * within);
  };
  const at = (/** @type {PointerEvent} */ { offsetX, offsetY }) => {
    let [nearest, least] = [/** @type {number | null} */ (null), NEAR ** 2];
    for (const [neuron, top] of (last?.ranking.top ?? []).entries()) {
      const far = (placed(top) - offsetX) ** 2 + (height(neuron) - offsetY) ** 2;
      if (far < least) [nearest, least] = [neuron, far];
    }
    return nearest;
  };
  const laneAt = (/** @type {PointerEvent} */ { offsetX, offsetY }) =>
    offsetX < left() ? lanes[Math.floor((offsetY - ABOVE) / LANE)] : undefined;
  const onLine = (/** @type {PointerEvent} */ { offsetX, offsetY, pointerType }) => {
    const wide = pointerType === "touch" ? NEAR : NEAR / 2;
    return Math.abs(offsetX - placed(last?.theta ?? 0)) < (offsetY < ABOVE ? 3 * NEAR : wide);
  };
  const drag = (/** @type {PointerEvent} */ { offsetX }) => {
    const value = (reach * (offsetX - left() - THUMB)) / across();
    go({ threshold: rounded(Math.min(Math.max(value, 0), reach)) });
  };
  const point = (/** @type {number | null} */ neuron) => {
    if (neuron === under) return;
    under = neuron;
    draw();
  };
  /** @type {Record<string, (event: PointerEvent) => void>} */
  const hand = {
    pointerdown(event) {
      [dragged, from] = [onLine(event), event.offsetX];
      if (!dragged) return;
      canvas.setPointerCapture(event.pointerId);
      point(null);
    },
    pointermove(event) {
      if (dragged) return void (Math.abs(event.offsetX - from) > 3 && drag(event)); // no swipe
      point(at(event));
      const idle = under === null && !laneAt(event);
      canvas.style.cursor = onLine(event) ? "ew-resize" : idle ? "default" : "pointer";
    },
    pointerup(event) {
      const [lane, neuron] = [laneAt(event), at(event)];
      const pressed = !dragged && Math.abs(event.offsetX - from) < NEAR;
      if (pressed && lane) tools.find(lane);
      else if (pressed && neuron !== null) go({ neuron });
      dragged = false;
      draw(); // the name that was hidden comes back
    },
    pointercancel: () => (dragged = false),
    pointerleave: () => point(null),
  };
  for (const [name, does] of Object.entries(hand))
    canvas.addEventListener(name, /** @type {EventListener} */ (does));

  const order = (/** @type {Scene} */ { labels, ranking }) => {
    lanes = [...new Set([...ranking.order].flatMap((j) => labels.get(j)?.label ?? []))];
    const places = new Map(lanes.map((label, lane) => [label, lane]));
    laneOf = layer.everyNeuron.map((j) => places.get(labels.get(j)?.label ?? "") ?? lanes.length);
  };

  const draw = () => {
    const pen = canvas.getContext("2d");
    if (!pen || !last || !wide) return;
    const { ranking, labels, theta, neuron, found, from } = last;
    const unlabelled = Number(labels.size < layer.nNeurons);
    const foot = ABOVE + (left() ? LANE * (lanes.length + unlabelled) : ALL) + 2;
    const tall = foot + BELOW;
    canvas.style.height = `${tall}px`;
    canvas.width = wide * devicePixelRatio;
    canvas.height = tall * devicePixelRatio;
    pen.scale(devicePixelRatio, devicePixelRatio);
    const style = getComputedStyle(canvas);
    const [up, down] = ["--ctx-up", "--ctx-down"].map((name) => style.getPropertyValue(name));
    const ink = style.color;
    /** @param {number} x @param {number} y @param {number} radius @param {"fill" | "stroke"} [how] */
    const dot = (x, y, radius, how = "fill") => {
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen[how]();
    };
    /** @param {string} text @param {number} x @param {number} y @param {CanvasTextAlign} side */
    const words = (text, x, y, side) => {
      pen.textAlign = side;
      pen.fillText(text, x, y);
    };
    pen.fillStyle = ink;
    pen.font = `${narrow() ? 10 : 11}px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.globalAlpha = 0.75;
    if (left())
      ["responds most to", ...lanes].forEach((label, i) =>
        words(label, left() - 8, i ? ABOVE + LANE * (i - 0.5) : 7, "right"),
      );
    const ticks = linearTicks([0, reach], across() / 60);
    for (const tick of ticks) {
      pen.fillRect(placed(tick) - 0.5, foot, 1, 4);
      words(tickFormat(ticks)(tick), placed(tick), foot + 11, "center");
    }
    const moving = performance.now() - since < GHOSTS;
    [pen.strokeStyle, pen.globalAlpha] = moving ? [up, 0.3] : [down, 0.8];
    pen.beginPath();
    for (const j of from ? [neuron, ...(moving ? ranking.order.subarray(0, found) : [])] : []) {
      pen.moveTo(placed(from?.ranking.top[j] ?? 0), height(j));
      pen.lineTo(placed(ranking.top[j]), height(j));
    }
    pen.stroke();
    const small = ranking.top.length > 3000 ? 1.3 : 2;
    pen.globalAlpha = 0.28;
    for (const j of ranking.order.subarray(found)) dot(placed(ranking.top[j]), height(j), small);
    [pen.fillStyle, pen.globalAlpha] = [up, 0.8];
    for (const j of ranking.order.subarray(0, found))
      dot(placed(ranking.top[j]), height(j), small + 0.5);
    [pen.fillStyle, pen.strokeStyle, pen.globalAlpha] = [ink, ink, 1];
    const x = placed(theta);
    pen.fillRect(x - 0.75, 4, 1.5, foot - 4);
    pen.fillRect(x - 5, 2, 10, 9);
    pen.fillRect(placed(ranking.rule) - 0.75, foot - 8, 1.5, 12); // where the rule has the line
    /** @param {string} text @param {number} x @param {number} y */
    const beside = (text, x, y) => {
      const [side, apart] = /** @type {[CanvasTextAlign, number]} */ (
        x > wide * 0.6 ? ["right", x - 9] : ["left", x + 9]
      );
      [pen.textAlign, pen.lineWidth, pen.strokeStyle] = [side, 5, style.backgroundColor];
      pen.strokeText(text, apart, y);
      words(text, apart, y, side);
    };
    beside(`${grouped(found)} of ${grouped(ranking.top.length)} pass`, x, 7);
    for (const j of new Set([under ?? neuron, neuron])) {
      const [px, py, chosen] = [placed(ranking.top[j]), height(j), j === neuron];
      pen.font = `${chosen ? 700 : 400} 12px ${style.fontFamily}`;
      [pen.fillStyle, pen.strokeStyle, pen.lineWidth] = [down, ink, 1.5];
      dot(px, py, small + (chosen ? 3 : 4), chosen ? "fill" : "stroke");
      pen.fillStyle = ink;
      if (!dragged) beside(`${j} ${nameOf(layer.model, j, labels)}`.trim(), px, py);
    }
  };

  const paint = (/** @type {Scene} */ scene) => {
    const { most, step, top, order: by } = scene.ranking;
    if (last && last.ranking !== scene.ranking) {
      since = performance.now();
      setTimeout(draw, GHOSTS + 50); // a timer may come early
    }
    if (last?.labels !== scene.labels) order(scene);
    if (!wide || last?.width !== scene.width) wide = canvas.clientWidth;
    last = scene;
    if (String(scene.heads) === String(layer.usual)) reach = 0; // as it was at first
    reach = Math.max(reach, most, Math.min(scene.theta, 1.5 * most));
    reach = Number((Math.ceil(reach / step) * step).toPrecision(6));
    input.disabled = false;
    root.style.setProperty("--left", `${left()}px`);
    threshold.update(scene.theta, { max: reach, step });
    byRule.ariaPressed = String(scene.threshold === 0);
    why.textContent = whyThere(scene);
    const called = `${scene.neuron} ${nameOf(layer.model, scene.neuron, scene.labels)}`.trim();
    const words = firstTokens(scene.ranking, scene.neuron, 3).map(name).join(", ");
    brief.textContent = `${called}, top ${figure(top[scene.neuron], 1)}: ${words} …`;
    const far = `${scene.found} of ${top.length} neurons pass the threshold; neuron ${by[0]} lies farthest to the right.`;
    canvas.setAttribute("aria-label", `Every neuron as a dot, from 0 to ${reach}. ${far}`);
    draw();
  };
  input.disabled = true;
  return { root, paint };
}

/** @param {Scene} scene @param {number} theta that of the place which a hand has reached */
function thetaLabel({ ranking }, theta) {
  const pass = ranking.top.reduce((n, value) => n + Number(value > theta), 0);
  const digits = Math.max(1, digitsOfStep(ranking.step));
  return `${figure(theta, digits)}: ${grouped(pass)} of ${grouped(ranking.top.length)} pass`;
}

/** Where the rule has the line, if it lies elsewhere, or why no neuron passes it. @param {Scene} scene */
function whyThere({ ranking: { most, order, step, rule }, heads, theta, found }) {
  const digits = Math.max(1, digitsOfStep(step));
  const [line, far, tick] = [theta, most, rule].map((at) => figure(at, digits));
  if (found) return line === tick ? "" : `The rule would put the line at the tick, ${tick}.`;
  const reached = `with ${headsName(heads)} the farthest, neuron ${order[0]}, reaches ${far}`;
  return `No neuron passes: the line is at ${line}, and ${reached}. Drag the line to the left.`;
}
