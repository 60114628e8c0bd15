/** One box that finds a neuron by its number, its label, or a word. */

import { field } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { grouped, several } from "../ui/words.js";
import { LONGEST_SEARCH } from "./scene.js";
import { tokensOf } from "./search.js";

/** @import { Tools } from "./scene.js" */

/** @param {Tools} tools */
export function findBox(tools) {
  const { layer, go, name, text } = tools;
  const said = element("span", { class: "ctx-quiet", role: "status" });
  const input = element("input", {
    type: "text",
    maxlength: LONGEST_SEARCH,
    autocomplete: "off",
    spellcheck: "false",
    onchange: () => (said.textContent = found(input.value.trim())),
  });
  /** Goes to what was typed, and says what it is. @param {string} typed */
  const found = (typed) => {
    const { ranking, labels } = tools.scene() ?? {};
    if (!typed || !ranking) return "";
    if (/^\d+$/.test(typed)) {
      if (Number(typed) >= layer.nNeurons) return `Neurons are 0 to ${layer.nNeurons - 1}.`;
      go({ neuron: Number(typed) });
      return "";
    }
    const label = typed.toLowerCase();
    const alike = ranking.order.filter((j) => labels.get(j)?.label.includes(label));
    if (alike.length) {
      go({ neuron: alike[0] });
      return `${several(alike.length, "neuron")} with this label; this one lies farthest right.`;
    }
    const { id, parts } = tokensOf(typed, tools);
    if (id < 0 || parts.length || !layer.hasToken(id)) {
      go({ search: typed });
      return "No neuron, label or single token of that name; below are the pieces of it.";
    }
    const driven = ranking.circuit.driven(id, ranking.heads);
    go({ neuron: driven.indexOf(Math.max(...driven)), search: text(id) });
    return `${name(id)} pushes this neuron up most, of ${grouped(layer.nNeurons)}.`;
  };
  return element("div", { class: "ctx-neurons-find" }, field("Neuron, label or word", input), said);
}
