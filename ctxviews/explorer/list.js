/** The neurons that are found, those with the largest `top` first. */

import { firstTokens } from "../engine/ranking.js";
import { button, term } from "../ui/controls.js";
import { saveCsv } from "../ui/csv.js";
import { element, fresh, numberCell, quiet, table } from "../ui/dom.js";
import { keyed } from "../ui/keyed.js";
import { figure, grouped, several } from "../ui/words.js";
import { nameOf } from "./cards.js";
import { headsName } from "./scene.js";

/** @import { Ranking, Scene, Tools } from "./scene.js" */

const FIRST_ROWS = 12; // of the list, and as many more at a time
const NAMED_TOKENS = 8; // after a neuron in the list: as many as find room (layerfile.NAMED)

/** The found neurons, the largest first; the arrow keys move from one to the next. @param {Tools} tools */
export function listSection(tools) {
  const { layer, name, go, heading } = tools;
  const group = fresh("found");
  const note = quiet();
  const columns = [["rank"], ["neuron"], [term("top")], [term("z")], "name", "first tokens"];
  const list = table({ kind: "ctx-neurons-list", columns, rows: [] });
  const ways = { class: "ctx-neurons-found", role: "radiogroup", "aria-label": "Found neurons" };
  const words = (/** @type {number} */ j, between = " ") =>
    firstTokens(tools.scene().ranking, j, NAMED_TOKENS).map(name).join(between);
  let room = FIRST_ROWS;
  /** @type {Ranking | null} */ let last = null;
  const more = button("More", () => {
    room += FIRST_ROWS;
    paint(tools.scene());
  });
  const file = button("Ranking as CSV", () => {
    const { order, top, z, mean, heads, circuit } = tools.scene().ranking;
    const titles = ["rank", "neuron", "top", "z", "mean of all", "first tokens"];
    const rows = Array.from(order, (j, place) => [place + 1, j, top[j], z[j], mean[j], words(j)]);
    const of = `${headsName(heads)} n-${circuit.n} token-${circuit.token}`;
    saveCsv(`${layer.model} neurons ${of}`, [titles, ...rows]);
  });
  const fill = keyed(
    list.tBodies[0],
    (/** @type {number} */ j) => j,
    (j) => listRow(j, group, () => go({ neuron: j }), tools),
    (row, j) => {
      const { ranking, labels, neuron, found } = tools.scene();
      const place = ranking.places[j];
      const [rank, number, top, z, label, first] = row.cells;
      label.textContent = nameOf(layer.model, j, labels);
      rank.textContent = String(place + 1);
      top.textContent = figure(ranking.top[j], 1);
      z.textContent = figure(ranking.z[j], 1);
      first.replaceChildren(element("span", {}, words(j, "  ")));
      row.classList.toggle("ctx-neurons-apart", place >= Math.min(found, room));
      row.classList.toggle("ctx-chosen", j === neuron);
      for (const input of number.getElementsByTagName("input")) input.checked = j === neuron;
    },
  );
  const paint = (/** @type {Scene} */ scene) => {
    const { ranking, labels, found, neuron } = scene;
    list.classList.toggle("ctx-neurons-labelled", labels.size > 0);
    if (ranking !== last) room = FIRST_ROWS; // another list begins at its head
    last = ranking;
    note.replaceChildren(...foundNote(scene, layer));
    const listed = Array.from(ranking.order.slice(0, Math.min(found, room)));
    fill(listed.includes(neuron) ? listed : [...listed, neuron]);
    more.hidden = found <= room;
  };
  const parts = [note, element("div", ways, list), element("p", {}, more, " ", file)];
  return { root: element("section", {}, heading("Found neurons"), parts), paint };
}

/** @param {number} j @param {string} group @param {() => void} onPick @param {Tools} tools */
function listRow(j, group, onPick, tools) {
  const ways = { "aria-label": `Neuron ${j}`, onchange: onPick };
  const input = element("input", { type: "radio", name: group, value: j, ...ways });
  const within = (/** @type {UIEvent} */ event) => {
    event.stopPropagation();
    if (event.detail) tools.show("neuron"); // a pointer, and no arrow key
  };
  const number = element("label", { onclick: within }, input, String(j));
  const cells = ["", number, "", ""].map(numberCell);
  // the whole row is a target for pointers; what keys reach is the input in it
  const onclick = () => (input.click(), tools.show("neuron"));
  return element("tr", { onclick }, cells, element("td"), element("td"));
}

/** @param {Scene} scene @param {Layer} layer @returns {string[]} */
function foundNote({ found, ranking }, layer) {
  const has = `neurons ${found === 1 ? "has" : "have"} a top above θ`;
  const some = `${grouped(found)} of ${grouped(ranking.top.length)} ${has}. Choose one, and see what moves it; ␣ is a space, ↵ a new line.`;
  const packed = layer.packedRanking(ranking.circuit, ranking.heads);
  const few = !packed && layer.ranked.length < layer.counted.length;
  const looked = ` Looked at are the ${several(layer.ranked.length, "token")} of ${grouped(layer.counted.length)} that can contribute most.`;
  const left =
    ` This page has data for ${grouped(layer.counted.length)} of the vocabulary’s ` +
    `${several(layer.trained, "token")}: those of its passages, usual ones, and those that weigh most.`;
  return [found ? some : "", few ? looked : "", layer.counted.length < layer.trained ? left : ""];
}
