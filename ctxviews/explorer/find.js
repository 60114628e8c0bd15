/** One box that finds a neuron by its number, its label, or a word. */

import { field } from "../ui/controls.js";
import { element, focusIn } from "../ui/dom.js";
import { grouped, several } from "../ui/words.js";
import { LONGEST_SEARCH } from "./scene.js";
import { tokensOf } from "./search.js";

/** @import { Scene, Tools } from "./scene.js" */

/** @param {Tools} tools @param {() => void} onToken shows what a token drives */
export function findBox(tools, onToken) {
  const { layer, go, name, text } = tools;
  const said = element("span", { class: "ctx-quiet", role: "status" });
  let at = -1; // the neuron that was found: what is said of it goes with it
  let last = ""; // the token that is looked up
  const choose = (/** @type {number} */ neuron, more = {}) =>
    go({ neuron: (at = neuron), ...more });
  const input = element("input", {
    type: "text",
    maxlength: LONGEST_SEARCH,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    oninput: () => (said.textContent = ""),
    onchange: () => (said.textContent = found(input.value)),
  });
  /** Goes to what was typed, and says what it is. @param {string} words */
  const found = (words) => {
    const typed = words.trim();
    const { ranking, labels, neuron } = tools.scene() ?? {};
    at = neuron;
    if (!typed || !ranking) return "";
    if (/^\d+$/.test(typed)) {
      if (Number(typed) >= layer.nNeurons) return `Neurons are 0 to ${layer.nNeurons - 1}.`;
      choose(Number(typed));
      return "";
    }
    const label = typed.toLowerCase();
    const alike = ranking.order.filter((j) => labels.get(j)?.label.includes(label));
    if (alike.length) {
      choose(alike[0]);
      return `${several(alike.length, "neuron")} with this label; this one lies farthest right.`;
    }
    const { id, parts } = tokensOf(words, tools);
    if (id < 0 || parts > 1 || !layer.hasToken(id)) {
      go({ search: words });
      onToken();
      return id < 0 || parts > 1 ? "No neuron, label or single token of that name." : "";
    }
    const driven = ranking.circuit.driven(id, ranking.heads);
    choose(driven.indexOf(Math.max(...driven)), { search: text(id) });
    return `${name(id)} pushes this neuron up most, of ${grouped(layer.nNeurons)}.`;
  };
  const box = field("Neuron, label or word", input);
  return {
    root: element("div", { class: "ctx-neurons-find" }, box, said),
    paint(/** @type {Scene} */ { neuron, search }) {
      if (neuron !== at) said.textContent = "";
      // what is being typed is ahead of what is painted
      if (!focusIn(input) && search !== last) input.value = search;
      last = search;
    },
  };
}
