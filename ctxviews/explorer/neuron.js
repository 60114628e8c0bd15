/** One neuron: its label, and the tokens that move it most. */

import { largest, outermost } from "../engine/linalg.js";
import { pick, roving, term } from "../ui/controls.js";
import { element, numberCell, quiet, table } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { inStep } from "../ui/state.js";
import { digitsFor, figure, grouped, headsName, signed, tokenMark } from "../ui/words.js";
import { FOLLOWED, nameOf } from "./cards.js";
import { columnOf } from "./scene.js";
import { sameAgain } from "./search.js";

/** @import { Scene, Tools } from "./scene.js" */

const OUTERMOST = 10; // tokens shown of each end of a neuron
const LABELS =
  "A label names texts, and need not be what the neuron means. It was chosen on half of our texts, and its AUC is that on the other half. A random mixture adds up the input weights of all neurons, each times a random factor. The label rests on tokens that such texts use more often, or more seldom where they lower the neuron. The two lists have the extremes, however rare.";

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
    const { ranking, neuron } = scene;
    if (!changed("ranking", "neuron", "labels")) return;
    const others = changed("ranking", "neuron"); // labels that come leave the tokens where they are
    const { top, heads, circuit, places, most } = ranking;
    const column = columnOf(ranking, neuron);
    const ends = outermost(column, layer.counted, OUTERMOST);
    const far = largest([...ends.up, ...ends.down].map((id) => column[id])) || 1;
    const found = scene.labels.get(neuron);
    label.hidden = named.hidden = !found;
    if (found) {
      const chapter = FOLLOWED[layer.model]?.find((card) => card.neuron === neuron);
      const called = element("b", {}, nameOf(layer.model, neuron, scene.labels));
      const rests = found.words.split(" ").flatMap((word, i) => {
        const id = tools.called(word);
        const adds = id === undefined ? "" : ` ${signed(column[id], digitsFor(far))}`;
        return [i ? ", " : "", tokenMark(word), adds];
      });
      named.classList.toggle("ctx-weak", found.weak);
      const equal = `, no better than a good random mixture of neurons (${figure(found.chance, 3)})`;
      const better = found.chance ? ", better than 95% of random mixtures of neurons" : ""; // or none has it
      named.replaceChildren(
        called,
        chapter ? ` (${chapter.words}); its label is ${found.label}` : " is its label",
        ": texts of this domain raise it most (",
        term("AUC"),
        ` ${figure(found.auc, 3)}, with all stable heads)${found.weak ? equal : better}. The label rests most on `,
        ...rests,
        ".",
      );
    }
    title.textContent = `Neuron ${neuron}`;
    place.replaceChildren(
      `Top ${figure(top[neuron], digitsFor(most))}, rank ${grouped(places[neuron] + 1)} of ` +
        `${grouped(top.length)} in layer ${layer.mlpLayer}; ${headsName(heads)}, n = ${circuit.n}, query token `,
      tokenMark(name(circuit.token)),
    );
    const tables = Object.entries(ends).map(([way, ids]) => {
      const least = way === "down" && ids.every((id) => column[id] > 0); // none pushes down
      const rows = Array.from(ids, (id) => endRow(name(id), column[id], far, press(id)));
      const caption = `Tokens that push ${least ? "up least" : way}`;
      const columns = ["token", ["contribution"]];
      return roving(table({ kind: "ctx-neurons-barred", caption, columns, rows, unseen: true }));
    });
    if (others) held.replaceChildren(...tables);
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
