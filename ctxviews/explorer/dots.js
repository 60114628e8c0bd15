/** Every neuron of the layer as a dot, and the threshold as a line that one drags across them. */

import { checkbox, chip, slider } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { digitsOfStep } from "../ui/plot.js";
import { figure, grouped, UNIT } from "../ui/words.js";

/** @import { Scene, Tools } from "./scene.js"
 *  @import { Label } from "../ui/labels.js"
 *  @typedef {{neuron: number, x: number, y: number}} Dot */

const LANE = 12; // pixels, of a label
const ALL = 110; // of all neurons, where no label is known
const NAMES = 132; // beside the lanes
const NARROW = 520; // where there is no room for them
const THUMB = 8; // half of a slider's: its middle stands where the line does
const ABOVE = 18; // the lanes, for the line's handle and the rule
const NEAR = 9; // as far as a pointer may miss a dot or the line
const GHOSTS = 1500; // milliseconds for which dots show where they came from

/** Dots, slider and rule. @param {Tools} tools @param {Promise<Map<number, Label>>} known the labels
 *  @param {HTMLElement | null} copy */
export function dotsSection({ layer, go }, known, copy) {
  const canvas = element("canvas", { role: "img" });
  /** @type {Scene | null} */ let last = null;
  /** @type {Map<number, Label>} */ let labels = new Map();
  /** @type {string[]} */ let lanes = [];
  let reach = 0; // of the axis; it grows, so that a head that is turned off moves dots and not the axis
  let [before, since] = [/** @type {Float64Array | null} */ (null), 0];
  /** @type {Dot | null} */ let under = null;
  let dragged = false;

  const threshold = slider({
    label: `Threshold θ, ${UNIT}`,
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
  const ruled = checkbox(null, () =>
    go({ threshold: ruled.checked ? 0 : rounded(last?.ranking.rule ?? 1) }),
  );
  const byRule = chip(ruled, "by the rule");
  byRule.title = "The threshold that chapter 6’s rule sets for these heads";
  const turns = element("div", { class: "ctx-neurons-threshold" }, threshold, byRule, copy);
  const root = element("div", { class: "ctx-neurons-dots" }, canvas, turns);

  const left = () => (lanes.length && canvas.clientWidth >= NARROW ? NAMES : 0);
  const across = () => canvas.clientWidth - left() - 2 * THUMB;
  const placed = (/** @type {number} */ top) =>
    left() + THUMB + (across() * Math.min(Math.max(top, 0), reach)) / reach;
  const height = (/** @type {number} */ neuron) => {
    // a place of its own in the lane, the same every time: the golden ratio spreads neighbours
    const within = (neuron * 0.618034) % 1;
    if (!left()) return ABOVE + ALL * (0.05 + 0.9 * within);
    const lane = lanes.indexOf(labels.get(neuron)?.label ?? "");
    return ABOVE + LANE * ((lane < 0 ? lanes.length : lane) + 0.2 + 0.6 * within);
  };
  const at = (/** @type {PointerEvent} */ { offsetX, offsetY }) => {
    /** @type {Dot | null} */ let nearest = null;
    let least = NEAR ** 2;
    for (const [neuron, top] of (last?.ranking.top ?? []).entries()) {
      const [x, y] = [placed(top), height(neuron)];
      const far = (x - offsetX) ** 2 + (y - offsetY) ** 2;
      if (far < least) [nearest, least] = [{ neuron, x, y }, far];
    }
    return nearest;
  };
  const onLine = (/** @type {PointerEvent} */ { offsetX, offsetY }) => {
    const x = placed(last?.theta ?? 0);
    return offsetY < ABOVE ? Math.abs(offsetX - x) < 3 * NEAR : Math.abs(offsetX - x) < NEAR / 2;
  };
  const drag = (/** @type {PointerEvent} */ { offsetX }) => {
    const value = (reach * (offsetX - left() - THUMB)) / across();
    go({ threshold: rounded(Math.min(Math.max(value, 0), reach)) });
  };
  /** @type {Record<string, (event: PointerEvent) => void>} */
  const hand = {
    pointerdown(event) {
      dragged = onLine(event);
      if (dragged) canvas.setPointerCapture(event.pointerId);
    },
    pointermove(event) {
      if (dragged) return drag(event);
      under = at(event);
      canvas.style.cursor = onLine(event) ? "ew-resize" : under ? "pointer" : "default";
      draw();
    },
    pointerup(event) {
      const dot = at(event);
      if (!dragged && dot) go({ neuron: dot.neuron });
      dragged = false;
    },
    pointercancel: () => (dragged = false),
    pointerleave() {
      under = null;
      draw();
    },
  };
  for (const [name, does] of Object.entries(hand))
    canvas.addEventListener(name, /** @type {EventListener} */ (does));

  known.then((found) => {
    labels = found;
    order();
    if (last) paint(last);
  });
  const order = () => {
    if (lanes.length || !last) return;
    lanes = [...new Set([...last.ranking.order].flatMap((j) => labels.get(j)?.label ?? []))];
  };

  const draw = () => {
    const pen = canvas.getContext("2d");
    if (!pen || !last || !canvas.clientWidth) return;
    const { ranking, theta, neuron, found } = last;
    const unlabelled = Number(labels.size < layer.nNeurons);
    const tall = ABOVE + (left() ? LANE * (lanes.length + unlabelled) : ALL) + 2;
    canvas.style.height = `${tall}px`;
    canvas.width = canvas.clientWidth * devicePixelRatio;
    canvas.height = tall * devicePixelRatio;
    pen.scale(devicePixelRatio, devicePixelRatio);
    const style = getComputedStyle(canvas);
    const [ink, up, down] = [
      style.color,
      ...["--ctx-up", "--ctx-down"].map((name) => style.getPropertyValue(name)),
    ];
    const dot = (
      /** @type {number} */ x,
      /** @type {number} */ y,
      /** @type {number} */ radius,
    ) => {
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    };
    const words = (
      /** @type {string} */ text,
      /** @type {number} */ x,
      /** @type {number} */ y,
      /** @type {CanvasTextAlign} */ side,
    ) => {
      pen.textAlign = side;
      pen.fillText(text, x, y);
    };
    pen.fillStyle = ink;
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.globalAlpha = 0.75;
    if (left())
      lanes.forEach((label, i) => words(label, NAMES - 8, ABOVE + LANE * (i + 0.5), "right"));
    const gone = Math.max(0, 1 - (performance.now() - since) / GHOSTS);
    if (before && gone) {
      pen.strokeStyle = up;
      pen.globalAlpha = 0.35 * gone;
      for (const j of ranking.order.subarray(0, found)) {
        pen.beginPath();
        pen.moveTo(placed(before[j]), height(j));
        pen.lineTo(placed(ranking.top[j]), height(j));
        pen.stroke();
      }
      requestAnimationFrame(draw);
    }
    const small = ranking.top.length > 3000 ? 1.3 : 2;
    pen.globalAlpha = 0.28;
    for (const j of ranking.order.subarray(found)) dot(placed(ranking.top[j]), height(j), small);
    [pen.fillStyle, pen.globalAlpha] = [up, 0.8];
    for (const j of ranking.order.subarray(0, found))
      dot(placed(ranking.top[j]), height(j), small + 0.5);
    [pen.fillStyle, pen.strokeStyle, pen.globalAlpha] = [ink, ink, 1];
    const x = placed(theta);
    pen.fillRect(x - 0.75, 4, 1.5, tall - 4);
    pen.fillRect(x - 5, 2, 10, 9);
    pen.globalAlpha = 0.6;
    const rule = placed(ranking.rule);
    pen.fillRect(rule - 0.5, tall - 7, 1, 7);
    pen.globalAlpha = 1;
    const side = x > canvas.clientWidth * 0.6 ? "right" : "left";
    const passing = `${grouped(found)} of ${grouped(ranking.top.length)} pass`;
    words(passing, x + (side === "left" ? 9 : -9), 7, side);
    const named = [neuron, ...(under ? [under.neuron] : [])];
    for (const j of named) {
      const [px, py] = [placed(ranking.top[j]), height(j)];
      const label = [j, labels.get(j)?.label].filter((part) => part !== undefined).join(" ");
      pen.fillStyle = down;
      dot(px, py, small + 2);
      const where = px > canvas.clientWidth * 0.6 ? "right" : "left";
      pen.font = `600 12px ${style.fontFamily}`;
      [pen.lineWidth, pen.strokeStyle] = [3, style.backgroundColor];
      pen.textAlign = where;
      pen.strokeText(label, px + (where === "left" ? 8 : -8), py);
      pen.fillStyle = ink;
      words(label, px + (where === "left" ? 8 : -8), py, where);
    }
  };

  const paint = (/** @type {Scene} */ scene) => {
    const { most, step, top, order: by } = scene.ranking;
    if (last && last.ranking !== scene.ranking)
      [before, since] = [
        last.ranking.top,
        matchMedia("(prefers-reduced-motion)").matches ? 0 : performance.now(),
      ];
    if (last && last.ranking.circuit.layer !== scene.ranking.circuit.layer) reach = 0;
    last = scene;
    order();
    reach = Math.max(reach, most, Math.min(scene.theta, 1.5 * most));
    reach = Number((Math.ceil(reach / step) * step).toPrecision(6));
    input.disabled = ruled.disabled = false;
    root.style.setProperty("--left", `${left()}px`);
    threshold.update(scene.theta, { max: reach, step });
    ruled.checked = scene.threshold === 0;
    const far = `${scene.found} of ${top.length} neurons pass the threshold; neuron ${by[0]} lies farthest to the right.`;
    canvas.setAttribute("aria-label", `Every neuron as a dot. ${far}`);
    draw();
  };
  input.disabled = ruled.disabled = true;
  return { root, paint };
}

/** @param {Scene} scene @param {number} theta */
function thetaLabel({ ranking, found, theta: shown }, theta) {
  // while a hand moves the slider, the count is that of the place it has reached
  const pass =
    theta === shown ? found : ranking.top.reduce((n, value) => n + Number(value > theta), 0);
  const digits = Math.max(1, digitsOfStep(ranking.step));
  // in robust deviations: both measures differ by a shift and a factor, which any two neurons fix
  const { top, z, order } = ranking;
  const [first, last] = [order[0], order[order.length - 1]];
  const far = ((theta - top[first]) * (z[first] - z[last])) / (top[first] - top[last]);
  return `${figure(theta, digits)} (z = ${figure(z[first] + far, 1)}): ${grouped(pass)} of ${grouped(ranking.top.length)} pass`;
}
