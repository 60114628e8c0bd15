/** The explorer's heads, destination token and threshold. */

import {
  checkbox,
  chip,
  destinationChoice,
  fixedDestination,
  headChooser,
  slider,
} from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { digitsOfStep } from "../ui/plot.js";
import { figure, grouped, UNIT } from "../ui/words.js";

/** @import { Scene, Tools, Turned } from "./scene.js" */

/** Heads, destination token, threshold. @param {Tools} tools @param {HTMLElement | null} copy */
export function controlsSection({ layer, name, go }, copy) {
  const heads = headChooser(layer, (chosen) => go({ heads: chosen }));
  const token = layer.fixed
    ? fixedDestination(layer, name)
    : destinationChoice(layer, name, (id) => go({ token: id }));
  /** @type {Scene | null} */ let last = null;
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
  const ruled = checkbox(null, () => {
    const rounded = last && Math.round(last.ranking.rule / last.ranking.step) * last.ranking.step;
    go({ threshold: ruled.checked ? 0 : Number((rounded || 1).toPrecision(6)) });
  });
  const byRule = chip(ruled, "by the rule");
  byRule.title = "The threshold that chapter 6’s rule sets for these heads";
  const both = element("div", { class: "ctx-neurons-threshold" }, threshold, byRule);
  const root = element("div", { class: "ctx-controls" }, heads, token, both, copy);
  return {
    root,
    /** @param {Turned} now @param {Scene | null} scene */
    paint(now, scene) {
      heads.update(now.heads);
      token.update(now.token);
      ruled.checked = now.threshold === 0;
      last = scene;
      input.disabled = ruled.disabled = !scene;
      if (!scene) return;
      const { most, step } = scene.ranking;
      const max = Number((Math.ceil(most / step) * step).toPrecision(6));
      threshold.update(scene.theta, { max, step });
    },
  };
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
