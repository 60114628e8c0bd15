/** Neurons in a list. */

import { pick } from "../ui/controls.js";
import { element, numberCell, scrolling, table } from "../ui/dom.js";
import { keyed } from "../ui/keyed.js";
import { tokenMarks } from "../ui/words.js";

/** @import { Listed } from "./scene.js" */

/** A list of neurons. @param {string} caption @param {string} whose @param {string[]} figures titles
 *  @param {string} words title of the tokens @param {(neuron: number) => void} onChoose */
export function neuronTable(caption, whose, figures, words, onChoose) {
  const columns = ["neuron", ...figures.map((title) => [title]), words];
  const made = table({ kind: "ctx-reader-table", caption, columns, rows: [] });
  /** @type {number | null} */ let chosen = null;
  const fill = keyed(
    made.tBodies[0],
    (/** @type {Listed} */ { neuron }) => neuron,
    ({ neuron }) => {
      const choose = pick(String(neuron), () => onChoose(neuron), `Read neuron ${neuron}`);
      return element("tr", {}, element("td", {}, choose), figures.map(numberCell), element("td"));
    },
    (row, { neuron, figures, tokens }) => {
      const [choose, ...cells] = [...row.children];
      choose.firstElementChild?.setAttribute("aria-pressed", String(neuron === chosen));
      figures.forEach((said, i) => (cells[i].textContent = said));
      cells[figures.length].replaceChildren(...tokenMarks(tokens));
      row.classList.toggle("ctx-chosen", neuron === chosen);
    },
  );
  const root = scrolling(`${whose}: ${caption}`, made);
  /** @type {Listed[] | null} */ let shown = null;
  const show = (/** @type {Listed[]} */ listed, /** @type {number | null} */ now) => {
    if (listed === shown && chosen === now) return;
    [shown, chosen] = [listed, now];
    fill(listed);
    root.hidden = !listed.length;
  };
  return { root, show };
}
