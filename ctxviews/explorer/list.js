/** The neurons that are found, those with the largest `top` first. */

import { firstTokens } from "../engine/ranking.js";
import { button, pick, term } from "../ui/controls.js";
import { element, fresh, numberCell, quiet, table } from "../ui/dom.js";
import { keyed } from "../ui/keyed.js";
import { figure, grouped, several } from "../ui/words.js";
import { nameOf } from "./cards.js";

/** @import { Scene, Tools } from "./scene.js" */

const [FEW, MOST] = [12, 100]; // rows of the list, at first and at most
const NAMED_TOKENS = 8; // after a neuron in the list: as many as find room (layerfile.NAMED)

/** The found neurons, the largest first; the arrow keys move from one to the next. @param {Tools} tools */
export function listSection(tools) {
  const { layer, name, go, heading } = tools;
  const group = fresh("found");
  const [title, note] = [heading("Found neurons"), quiet()];
  const every = pick("Show all found neurons", () => {
    tools.named = "";
    tools.again();
  });
  const columns = [["rank"], ["neuron"], [term("top")], "name", "first tokens"];
  const list = table({ kind: "ctx-neurons-list", columns, rows: [] });
  const ways = { class: "ctx-neurons-found", role: "radiogroup", "aria-label": "Found neurons" };
  const place = element("div", ways, list);
  let rows = FEW;
  const all = button("", () => {
    rows = MOST;
    paint(tools.scene());
  });
  /** @type {number[]} */ let listed = [];
  const fill = keyed(
    list.tBodies[0],
    (/** @type {number} */ j) => j,
    (j) => listRow(j, group, () => go({ neuron: j }), tools),
    (row, j) => {
      const { ranking, labels, neuron, found } = tools.scene();
      const rankOf = ranking.places[j];
      const [rank, number, top, label, first] = row.cells;
      label.textContent = nameOf(layer.model, j, labels);
      label.classList.toggle("ctx-weak", Boolean(labels.get(j)?.weak));
      rank.textContent = String(rankOf + 1);
      top.textContent = figure(ranking.top[j], 1);
      const words = firstTokens(ranking, j, NAMED_TOKENS).map(name).join("  ");
      first.replaceChildren(element("span", {}, words));
      row.classList.toggle("ctx-neurons-apart", rankOf >= found || !listed.includes(j));
      row.classList.toggle("ctx-chosen", j === neuron);
      for (const input of number.getElementsByTagName("input")) input.checked = j === neuron;
    },
  );
  const paint = (/** @type {Scene} */ scene) => {
    const { ranking, labels, found, neuron } = scene;
    list.classList.toggle("ctx-neurons-labelled", labels.size > 0);
    const { named } = tools;
    const those = named
      ? ranking.order.filter((j) => nameOf(layer.model, j, labels) === named)
      : ranking.order.subarray(0, found);
    title.textContent = named ? `Neurons named ${named}` : "Found neurons";
    note.replaceChildren(...(named ? [every] : foundNote(scene, layer)));
    listed = Array.from(those.subarray(0, rows));
    fill(listed.includes(neuron) ? listed : [...listed, neuron]);
    all.textContent = those.length > MOST ? `The first ${MOST}` : `All ${those.length}`;
    all.hidden = those.length <= rows || rows === MOST;
  };
  return { root: element("section", {}, title, note, place, all), paint };
}

/** @param {number} j @param {string} group @param {() => void} onPick @param {Tools} tools */
function listRow(j, group, onPick, tools) {
  const ways = { "aria-label": `Neuron ${j}`, onchange: onPick };
  const input = element("input", { type: "radio", name: group, value: j, ...ways });
  const cells = ["", [input, String(j)], ""].map(numberCell);
  // the whole row is a target for pointers; what keys reach is the input in it
  const onclick = (/** @type {MouseEvent} */ { target, detail }) => {
    if (target !== input) input.click();
    if (detail) tools.show("neuron"); // a pointer, and no arrow key
  };
  return element("tr", { onclick }, cells, element("td"), element("td"));
}

/** @param {Scene} scene @param {Layer} layer @returns {string[]} */
function foundNote({ found, ranking }, layer) {
  const has = `neurons ${found === 1 ? "has" : "have"} a top above the threshold`;
  const some = `${grouped(found)} of ${grouped(ranking.top.length)} ${has}.`;
  const all = grouped(layer.counted.length);
  const packed = layer.packedRanking(ranking.circuit, ranking.heads);
  const few = !packed && layer.ranked.length < layer.counted.length;
  const looked = ` The ${several(layer.ranked.length, "token")} of ${all} that can contribute most are ranked.`;
  const left = ` The page has data for ${all} of ${several(layer.trained, "token")}: usual ones, and those that weigh most.`;
  return [found ? some : "", few ? looked : "", layer.counted.length < layer.trained ? left : ""];
}
