/** Two neurons side by side. */

import { dotProduct } from "../engine/linalg.js";
import { firstTokens } from "../engine/ranking.js";
import { button, pick } from "../ui/controls.js";
import { element, quiet, row, scrolling, table } from "../ui/dom.js";
import { byDomain, domainTable } from "../ui/domains.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure, grouped, several, tokenMarks, UNIT } from "../ui/words.js";
import { columnOf } from "./scene.js";

/** @import { Scene, Section, Tools } from "./scene.js" */

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b @returns {number} Pearson's */
function correlation(a, b) {
  const [x, y] = [a, b].map((values) => {
    const all = Float64Array.from(values);
    const mean = all.reduce((sum, value) => sum + value, 0) / all.length;
    return all.map((value) => value - mean);
  });
  const product = (/** @type {Float64Array} */ p, /** @type {Float64Array} */ q) =>
    dotProduct(p, 0, q, 0, p.length);
  return product(x, y) / Math.sqrt(product(x, x) * product(y, y));
}

/** A pinned neuron beside the chosen one: their numbers, and their domains on one scale.
 *  @param {Tools} tools @param {HTMLElement} one the section of the chosen one @returns {Section} */
export function comparedSection(tools, one) {
  const { layer, go, heading } = tools;
  const title = heading(0);
  const held = element("div");
  const unpin = button("Unpin", () => {
    go({ pinned: -1 });
    one.focus(); // the button goes
  });
  const root = element("section", { hidden: true }, title, held, element("p", {}, unpin));
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { neuron, pinned, responses } = scene;
    root.hidden = pinned < 0;
    if (root.hidden || !responses) return;
    if (!changed("ranking", "responses", "neuron", "pinned", "read", "width")) return;
    const alone = pinned === neuron;
    title.textContent = alone
      ? `Neuron ${pinned} is pinned`
      : `Neuron ${neuron} beside neuron ${pinned}`;
    const hint = "Choose another neuron, and both stand here side by side.";
    if (alone) return held.replaceChildren(quiet(hint));
    const mine = byDomain(layer.passages, scene.summariesOf(neuron));
    const places = new Map(mine.map(({ domain }, place) => [domain, place]));
    const placeOf = (/** @type {{domain: string}} */ { domain }) => Number(places.get(domain));
    const other = byDomain(layer.passages, scene.summariesOf(pinned)).sort(
      (a, b) => placeOf(a) - placeOf(b),
    ); // row by row
    const values = [mine, other].map((answers) => answers.flatMap(({ values }) => values));
    const columns = [neuron, pinned].map((j) => {
      const column = columnOf(scene.ranking, j);
      return Array.from(layer.counted, (id) => column[id]);
    });
    const reach = { low: Math.min(...values.flat()), high: Math.max(...values.flat()) };
    const width = Math.min(scene.width, Math.max(scene.width / 2 - 20, 320));
    const options = { passages: layer.passages, chosen: scene.read, width, reach };
    const tables = [
      domainTable(mine, { ...options, caption: `Neuron ${neuron}` }),
      domainTable(other, { ...options, caption: `Neuron ${pinned}, pinned` }),
    ];
    held.replaceChildren(
      scrolling(title.textContent, comparedTable(scene, tools, one)),
      quiet(
        `Over ${several(layer.counted.length, "token")} their contributions correlate at ` +
          `${figure(correlation(columns[0], columns[1]))}, over ` +
          `${several(values[0].length, "passage")} their summaries at ` +
          `${figure(correlation(values[0], values[1]))}. Below, both on one scale, in ${UNIT}.`,
      ),
      element("div", { class: "ctx-split" }, tables),
    );
    return undefined;
  });
  return { root, paint };
}

/** @param {Scene} scene @param {Tools} tools @param {HTMLElement} one */
function comparedTable({ ranking, neuron, pinned }, { name, go }, one) {
  const { top, z, mean, places } = ranking;
  const digits = digitsFor(ranking.most);
  const rows = [neuron, pinned].map((j) => {
    const first = firstTokens(ranking, j, 4).map(name);
    const choose = () => {
      go({ neuron: j });
      one.focus(); // the table goes
    };
    const number = j === pinned ? pick(String(j), choose, `Neuron ${j}`) : String(j);
    const numbers = [grouped(places[j] + 1), figure(top[j], digits), figure(z[j], 1)];
    const marks = element("td", {}, tokenMarks(first));
    const title = [number, j === pinned ? ", pinned" : ""];
    return row(title, [...numbers, figure(mean[j], digits), marks]);
  });
  const columns = ["neuron", ["rank"], ["top"], ["z"], ["mean of all"], "first tokens"];
  return table({ kind: "ctx-figures", columns, rows });
}
