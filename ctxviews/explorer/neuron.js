/** One neuron: its label, and the tokens that move it most. */

import { largest, outermost } from "../engine/linalg.js";
import { pick, roving, term } from "../ui/controls.js";
import { element, numberCell, quiet, table } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure, headsName, signed, tokenMark, tokenMarks } from "../ui/words.js";
import { FOLLOWED, nameOf } from "./cards.js";
import { columnOf } from "./scene.js";
import { sameAgain } from "./search.js";

/** @import { Scene, Tools } from "./scene.js" */

const OUTERMOST = 10; // tokens shown of each end of a neuron
const LABELS =
  "A label names the texts that raise a neuron most, and the neuron may respond to something else that they share. We chose it on half of our texts, and tested it on the other half (the AUC). A random mixture, our check, adds up the input weights of all neurons, each times a random factor. The label rests on tokens that such texts use often, or seldom where they lower the neuron; the two lists show the strongest tokens, however rare. A card has the best neuron of a label, if it is better than 95% of random mixtures; the first card is a neuron that chapters follow.";

/** Name, label, outermost tokens, place. @param {Tools} tools @param {HTMLElement} driven the line about a token */
export function neuronSection(tools, driven) {
  const { layer, name, text, go, heading } = tools;
  const title = heading();
  const [named, label, place] = [quiet(), quiet(LABELS), quiet()];
  const adds = "What a token adds at full weight (texts average over tokens), in units of the ";
  const unit = [term("pre-activation"), "; ␣ space, ↵ new line:"];
  const scale = element("p", { class: "ctx-label" }, adds, unit);
  const held = element("div", { class: "ctx-neurons-ends" });
  const press = (/** @type {number} */ id) =>
    sameAgain(id, tools) ? () => (go({ search: text(id) }), tools.show("search")) : null;
  const paint = inStep((/** @type {Scene} */ scene, changed) => {
    const { ranking, neuron, from } = scene;
    if (!changed("ranking", "neuron", "labels")) return;
    // with those before a head was turned, so that the bars keep their scale
    const columns = (from ? [ranking, from.ranking] : [ranking]).map((of) => columnOf(of, neuron));
    const all = columns.map((of) => outermost(of, layer.counted, OUTERMOST));
    const far = largest(all.flatMap((of, k) => [...of.up, ...of.down].map((id) => columns[k][id])));
    const [[column], [ends]] = [columns, all];
    const found = scene.labels.get(neuron);
    label.hidden = named.hidden = !found;
    if (found) {
      const chapter = FOLLOWED[layer.model]?.find((card) => card.neuron === neuron);
      const called = element("b", {}, nameOf(layer.model, neuron, scene.labels));
      named.classList.toggle("ctx-weak", found.weak);
      const equal = `, no better than a good random mixture of neurons (${figure(found.chance, 3)})`;
      const better = found.chance ? ", better than 95% of random mixtures of neurons" : ""; // or none has it
      named.replaceChildren(
        called,
        chapter ? ` (${chapter.words}); its label is ${found.label}` : " is its label",
        ": with all stable heads, texts of this domain raise it most (",
        term("AUC"),
        ` ${figure(found.auc, 3)})${found.weak ? equal : better}. The label rests most on `,
        ...tokenMarks(found.words.split(" ")),
      );
    }
    title.textContent = `Neuron ${neuron}`;
    const where = `Layer ${layer.mlpLayer}, ${headsName(ranking.heads)}, n = ${ranking.circuit.n}, query token `;
    place.replaceChildren(where, tokenMark(name(ranking.circuit.token)));
    const tables = Object.entries(ends).map(([way, ids]) => {
      const least = way === "down" && ids.every((id) => column[id] > 0); // none pushes down
      const rows = Array.from(ids, (id) => endRow(name(id), column[id], far || 1, press(id)));
      const caption = `Tokens that push ${least ? "up least" : way}`;
      const columns = ["token", ["contribution"]];
      return roving(table({ kind: "ctx-neurons-barred", caption, columns, rows, unseen: true }));
    });
    if (changed("ranking", "neuron")) held.replaceChildren(...tables); // labels that come leave them
  });
  const parts = [title, named, scale, driven, held, label, place];
  return { root: element("section", { class: "ctx-neurons-one" }, parts), paint };
}

/** A token to press, with its number and a bar. @param {string} name @param {number} value
 *  @param {number} most that a whole bar stands for @param {(() => void) | null} onPick */
function endRow(name, value, most, onPick) {
  const bar = element("span", { class: "ctx-neurons-bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", (Math.abs(value) / most).toFixed(3));
  bar.style.backgroundColor = value < 0 ? DOWN : UP;
  const means = `Token ${name}: which neurons does it drive?`;
  const named = element("td", {}, onPick ? pick(name, onPick, means) : name, bar);
  return element("tr", {}, named, numberCell(signed(value, digitsFor(most))));
}
