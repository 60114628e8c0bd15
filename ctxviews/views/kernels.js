/** How far back every head looks: positional kernels over the distance (chapter 3). */

import { choice, controlRow, destinationSlider, headChooser } from "../ui/controls.js";
import { element, numberCell, quiet, renewed, row, scrolling, table } from "../ui/dom.js";
import { headStyle, lineMark } from "../ui/marks.js";
import { TOKENS_BACK, chart, line, readable, rule } from "../ui/plot.js";
import { downloaded, layerOf, spelling } from "../ui/source.js";
import { below, kept, listBelow, sound, turn } from "../ui/state.js";
import { stateButtons } from "../ui/links.js";
import { figure, several } from "../ui/words.js";

/** @typedef {{heads: number[], n: number, token: number}} Shown */

const FAINTEST = 1e-6; // smaller weights are not drawn

/** @param {{model: Model, el: HTMLElement}} view traits: heads, n, token; no heads means all, and -1 the destination and the token of the layer's own denominators */
async function render({ model, el }) {
  const layer = await layerOf(model, el);
  if (!layer) return undefined;
  const families = layer.families.map(({ family }) => family);
  const { name } = spelling(layer);
  const isPlace = (/** @type {any} */ v) => v !== 0 && below(layer.positions)(v);
  const isDestination = (/** @type {any} */ v) => layer.destinations.some(({ id }) => id === v);
  /** @returns {Shown} */
  const chosen = () => {
    const heads = sound(model, "heads", listBelow(layer.nHeads), /** @type {number[]} */ ([]));
    const n = sound(model, "n", (v) => v === -1 || isPlace(v), -1);
    const token = sound(model, "token", (v) => v === -1 || isDestination(v), -1);
    return {
      heads: heads.length ? heads : layer.everyHead,
      n: n === -1 ? layer.n : n,
      token: token === -1 ? layer.destinations[0].id : token,
    };
  };
  const controls = controlRow({
    heads: headChooser(layer, (heads) => turn(model, { heads })),
    token: choice({
      label: "Query token",
      options: layer.destinations.map(({ id }) => ({ value: id, label: name(id) })),
      onChange: (token) => turn(model, { token }),
    }),
    n: destinationSlider(layer.positions - 1, (n) => turn(model, { n })),
  });
  const picture = element("div", { class: "ctx-kernels" });
  const numbers = scrolling("The kernels in numbers");
  const caption = quiet();
  el.replaceChildren(controls, picture, numbers, caption, quiet(stateButtons(model)));
  let distance = 10; // where a reader last looked
  /** @param {Shown & {width: number}} now */
  const update = ({ width, ...now }) => {
    controls.update(now);
    const all = layer.kernels(now.n, now.token);
    const kernels = now.heads.map((head) => Float64Array.from(all[head]).reverse());
    const title = `n = ${now.n}, query token ${name(now.token)}`;
    const figures = numbersOf(kernels, now, families);
    numbers.replaceChildren(figures.root);
    caption.textContent =
      "Half within: how many tokens back half of the weight is reached. Families: by the rule of " +
      `chapter 3, at n = ${layer.n}, query token ${name(layer.destinations[0].id)}.`;
    const read = (/** @type {number} */ at) => figures.at((distance = at));
    renewed(picture, kernelDrawing(kernels, now, title, { width, distance, read }));
  };
  return kept({ model, place: el, state: chosen, update });
}

// ---------------------------------------------------------------- a kernel's numbers

/** Over how many tokens a kernel is spread, as `cx.effective_tokens`. @param {Float64Array} kernel */
function effectiveTokens(kernel) {
  return 1 / kernel.reduce((sum, weight) => sum + weight ** 2, 0);
}

/** Within how many tokens of the destination half of a kernel lies, as `cx.heads.half_mass`.
 *  @param {Float64Array} kernel by distance */
function halfMass(kernel) {
  let [mass, back] = [kernel[0], 0];
  while (mass < 0.5 && back + 1 < kernel.length) mass += kernel[(back += 1)];
  return back;
}

/** A table of the heads with one column for the place that is read, and a line about that place.
 *  @param {Float64Array[]} kernels by distance @param {Shown} now @param {string[]} families */
function numbersOf(kernels, { heads, n }, families) {
  const digits = Math.ceil(Math.log10(n + 1)) + 2; // an even row keeps three of them
  const least = 10 ** -digits;
  const weight = (/** @type {number} */ w) =>
    w < least ? `< ${figure(least, digits)}` : figure(w, digits);
  const weights = heads.map(() => numberCell(""));
  const place = document.createTextNode("");
  const rows = heads.map((head, k) => {
    const facts = [figure(effectiveTokens(kernels[k]), 1), String(halfMass(kernels[k]))];
    const title = [lineMark(headStyle(head)), String(head)];
    return row(title, [weights[k], ...facts, element("td", {}, families[head])]);
  });
  const even = [weight(1 / (n + 1)), figure(n + 1, 1), String(Math.ceil((n + 1) / 2) - 1)];
  const root = table({
    kind: "ctx-figures ctx-kernels-numbers",
    columns: ["head", [place], ["effective tokens"], ["half within"], "family"],
    rows: [...rows, row([lineMark({ class: "ctx-rule" }), "even"], [...even, element("td")])],
  });
  const at = (/** @type {number} */ distance) => {
    place.textContent = `weight ${distance} back`;
    const parts = heads.map((head, k) => {
      weights[k].textContent = weight(kernels[k][distance]);
      return `head ${head} ${weights[k].textContent}`;
    });
    return `${several(distance, "token")} back: ${parts.join(", ")}`;
  };
  return { root, at };
}

// ---------------------------------------------------------------- the picture

/** @param {Float64Array[]} kernels by distance @param {Shown} now @param {string} title
 *  @param {{width: number, distance: number, read: (distance: number) => string}} options */
function kernelDrawing(kernels, { heads, n }, title, { width, distance, read }) {
  const spread = heads.map((head, k) => `head ${head} ${figure(effectiveTokens(kernels[k]), 1)}`);
  const weights = weightAxis(kernels);
  const on = chart({
    alt: `Positional kernels over the distance, ${title}. Effective tokens: ${spread.join(", ")}.`,
    x: { label: TOKENS_BACK, domain: [0, n], flip: true },
    y: { label: "weight in the kernel", ...weights },
    width,
    height: 330,
    title,
  });
  on.add(rule(on, { y: 1 / (n + 1) }));
  const back = kernels[0].map((_, distance) => distance);
  kernels.forEach((kernel, k) => {
    const shown = kernel.map((weight) => Math.max(weight, weights.domain[0]));
    on.add(line(on, back, shown, headStyle(heads[k])));
  });
  const label = "Read the kernels at a distance";
  return readable(on, { label, max: n, value: Math.min(distance, n), read });
}

/** From the faintest weight worth drawing to the largest. @param {Float64Array[]} kernels
 *  @returns {{domain: [number, number], log: boolean}} */
function weightAxis(kernels) {
  const largest = Math.max(...kernels.map((kernel) => kernel.reduce((a, b) => Math.max(a, b))));
  const faint = Math.min(...kernels.map((kernel) => kernel.reduce((a, b) => Math.min(a, b))));
  const low = Math.max(FAINTEST, Math.min(faint, 0.5 / kernels[0].length));
  const decade = 10 ** Math.floor(Math.log10(low) + 1e-9);
  return { domain: [decade, Math.max(1.3 * largest, 10 * decade)], log: true };
}

export default { render, downloaded };
