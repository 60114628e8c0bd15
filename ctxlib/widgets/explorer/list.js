/** The neurons that are found, loudest first. */

import { firstTokens } from "../engine/ranking.js";
import { button } from "../ui/controls.js";
import { csvButton } from "../ui/csv.js";
import { element, focusIn, fresh, numberCell, quiet, table } from "../ui/dom.js";
import { inStep } from "../ui/state.js";
import { figure, grouped, several } from "../ui/words.js";
import { headsSaid } from "./scene.js";

/** @import { Layer } from "../engine/layer.js"
 *  @import { Table } from "../ui/csv.js"
 *  @import { Ranking, Scene, Tools } from "./scene.js" */

const FIRST_ROWS = 12; // of the list, and as many more at a time
const NAMED_TOKENS = 8; // after a neuron in the list: as many as find room (layerfile.NAMED)

/** The found neurons, loudest first; the arrow keys move from one to the next.
 *  @param {Tools} tools */
export function listSection({ layer, name, go, heading }) {
  const group = fresh("found");
  const title = heading(0, "Found neurons");
  const note = quiet();
  const titles = ["rank", "neuron", "top", "z"].map((figures) => ({ figures }));
  const columns = [...titles, { words: "first tokens" }];
  const list = table({ kind: "ctx-neurons-list", columns, rows: [] });
  const rows = list.tBodies[0];
  const ways = { class: "ctx-neurons-found", role: "radiogroup", "aria-label": "Found neurons" };
  const holder = element("div", ways, list);
  let room = FIRST_ROWS;
  /** @type {Scene | null} */ let last = null;
  const more = button("More", () => show(room + FIRST_ROWS));
  const fewer = button("Fewer", () => show(FIRST_ROWS));
  const turns = element("p", { class: "ctx-turns" }, more, fewer);
  const file = csvButton("Ranking as CSV", () =>
    rankingTable(/** @type {Scene} */ (last).ranking, layer, name),
  );

  const row = (/** @type {Ranking} */ ranking, /** @type {number} */ j, apart = false) => {
    const words = firstTokens(ranking, j, NAMED_TOKENS).map(name).join("  ");
    const made = listRow(ranking, j, { group, words, onPick: () => go({ neuron: j }) });
    made.classList.toggle("ctx-neurons-apart", apart);
    return made;
  };
  const fill = inStep(
    (
      /** @type {{ranking: Ranking, count: number, more: boolean, apart: number}} */ now,
      changed,
    ) => {
      if (!changed("ranking", "count", "more", "apart")) return;
      const { ranking, count, apart } = now;
      const made = Array.from(ranking.order.slice(0, count), (j) => row(ranking, j));
      if (apart >= 0) made.push(row(ranking, apart, true));
      rows.replaceChildren(...made);
      holder.hidden = !made.length;
      more.hidden = !now.more;
      fewer.hidden = room <= FIRST_ROWS;
      turns.hidden = more.hidden && fewer.hidden;
    },
  );
  /** @type {Ranking | null} */ let before = null;
  const paint = (/** @type {Scene} */ scene) => {
    if (scene.ranking !== before) room = FIRST_ROWS; // another list begins at its head
    before = scene.ranking;
    last = scene;
    note.replaceChildren(...foundSaid(scene, layer));
    const focused = /** @type {HTMLInputElement | null} */ (focusIn(holder))?.value;
    const { ranking, found } = scene;
    const count = Math.min(found, room);
    fill({ ranking, count, more: found > room, apart: strayed(scene, room) });
    for (const input of holder.querySelectorAll("input")) {
      input.checked = Number(input.value) === scene.neuron;
      input.closest("tr")?.classList.toggle("ctx-chosen", input.checked);
      if (input.value === focused && !focusIn(holder)) input.focus();
    }
  };
  const show = (/** @type {number} */ count) => {
    room = count;
    if (last) paint(last);
    if (more.hidden && !fewer.hidden) fewer.focus();
    if (fewer.hidden && !more.hidden) more.focus();
  };
  const saved = element("p", {}, file);
  return { root: element("section", {}, title, note, holder, turns, saved), paint };
}

/** @param {Ranking} ranking @param {number} j
 *  @param {{group: string, words: string, onPick: () => void}} options */
function listRow(ranking, j, { group, words, onPick }) {
  const said = { "aria-label": `Neuron ${j}`, onchange: onPick };
  const input = element("input", { type: "radio", name: group, value: j, ...said });
  const within = (/** @type {Event} */ event) => event.stopPropagation();
  return element(
    "tr",
    // the whole row is a target for pointers; what keys reach is the input in it
    { onclick: () => input.click() },
    numberCell(String(ranking.places[j] + 1)),
    numberCell(element("label", { onclick: within }, input, String(j))),
    numberCell(figure(ranking.top[j], 1)),
    numberCell(figure(ranking.z[j], 1)),
    element("td", {}, element("span", {}, words)),
  );
}

/** Every neuron, as a file. @param {Ranking} ranking @param {Layer} layer
 *  @param {(id: number) => string} name @returns {Table} */
function rankingTable(ranking, layer, name) {
  const { order, top, z, mean, heads, circuit } = ranking;
  const titles = ["rank", "neuron", "top", "z", "mean of all", "first tokens"];
  const rows = Array.from(order, (j, place) => {
    const words = firstTokens(ranking, j, NAMED_TOKENS).map(name).join(" ");
    return [place + 1, j, top[j], z[j], mean[j], words];
  });
  const place = [`n-${circuit.n}`, `token-${circuit.token}`];
  return { name: [layer.model, "neurons", headsSaid(heads), ...place], titles, rows };
}

/** The chosen neuron, if the list does not show it; -1 else.
 *  @param {Scene} scene @param {number} room */
function strayed({ ranking, neuron, found }, room) {
  return ranking.places[neuron] < Math.min(found, room) ? -1 : neuron;
}

/** @param {Scene} scene @param {Layer} layer @returns {string[]} */
function foundSaid({ found, ranking, theta }, layer) {
  const loudest = ranking.order[0];
  const some = found
    ? `${grouped(found)} of ${several(ranking.top.length, "neuron")} ${found === 1 ? "has" : "have"} a top above θ: the mean of the ${layer.largest} largest contributions, less the mean of all.`
    : `No neuron passes: the largest top is ${figure(ranking.most, 1)} (neuron ${loudest}), and θ is ${figure(theta, 1)}. Move θ to the left.`;
  const told = layer.told(ranking.circuit, ranking.heads);
  const few = !told && layer.ranked.length < layer.counted.length;
  const looked = ` Looked at are the ${several(layer.ranked.length, "token")} of ${grouped(layer.counted.length)} that can contribute most.`;
  const left =
    ` This page knows ${grouped(layer.counted.length)} of the vocabulary’s ` +
    `${several(layer.trained, "token")}: those of its passages, usual ones, and those that weigh most.`;
  return [some, few ? looked : "", layer.counted.length < layer.trained ? left : ""];
}
