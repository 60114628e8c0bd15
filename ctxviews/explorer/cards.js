/** Named neurons to begin with: behind those of the chapters, of all that pass chapter 6's threshold each label's
 *  with the largest AUC, if more than random mixtures reach and if two of its tokens are words. */

import { defaultThreshold } from "../engine/ranking.js";
import { roving } from "../ui/controls.js";
import { element, quiet } from "../ui/dom.js";
import { inStep } from "../ui/state.js";
import { several } from "../ui/words.js";

/** @import { Scene, Tools } from "./scene.js"
 *  @import { Label } from "../ui/labels.js"
 *  @typedef {{neuron: number, title: string, words: string}} Card */

const [MOST, WORDS] = [12, 3]; // cards, and words on each
const FADE = 40; // pixels at the right end of the row, where an arrow shows that there are more
const NONE =
  "This model has no cards: none of the neurons that pass fits a label that rests on words better than random mixtures do. Heads and line work as ever. For named neurons, choose another model.";
/** What chapters follow, by model. @type {Record<string, Card[]>} */
export const FOLLOWED = {
  mini: [{ neuron: 496, title: "planets", words: "chapters 1 to 6" }],
  qwen: [{ neuron: 6419, title: "British spelling", words: "chapter 9" }],
};

/** What a neuron is called. @param {string} model @param {number} neuron @param {Map<number, Label>} labels */
export function nameOf(model, neuron, labels) {
  const followed = FOLLOWED[model]?.find((card) => card.neuron === neuron);
  return followed?.title ?? labels.get(neuron)?.label ?? "";
}

/** @param {Map<number, Label>} labels @param {string} model @returns {Card[]} */
export function namedNeurons(labels, model) {
  const rule = defaultThreshold(Float64Array.from(labels.values(), ({ top }) => top));
  /** @type {Map<string, Label & {neuron: number}>} */ const best = new Map();
  for (const [neuron, found] of labels) {
    const { label, auc, chance, top } = found;
    const least = Math.max(best.get(label)?.auc ?? 0, chance || 0);
    if (top > rule && auc > least) best.set(label, { ...found, neuron });
  }
  const order = [...best.values()].sort((a, b) => b.auc - a.auc);
  const cards = order.flatMap(({ neuron, label, words }) => {
    const letters = words.replaceAll("␣", "").split(" ");
    const some = letters.filter((word) => /^\p{L}{3,}$/u.test(word)).slice(0, WORDS);
    return some.length > 1 ? [{ neuron, title: label, words: some.join(", ") }] : [];
  });
  return [...(FOLLOWED[model] ?? []), ...cards].slice(0, MOST);
}

/** The neurons of every name: first the one with its card, then as they lie, the farthest right first.
 *  @param {Pick<Scene, "labels" | "ranking">} scene @param {string} model */
export function neuronsByName({ labels, ranking }, model) {
  const cards = namedNeurons(labels, model).map(({ neuron }) => neuron);
  const names = Map.groupBy(new Set([...cards, ...ranking.order]), (j) => nameOf(model, j, labels));
  names.delete("");
  return names;
}

/** A row of cards. @param {Tools} tools @param {boolean} comes whether labels are on their way: it keeps its place */
export function cardsSection(tools, comes) {
  const { layer, go } = tools;
  const ways = { role: "group", "aria-label": "Named neurons" };
  const row = element("div", { class: "ctx-neurons-cards", ...ways });
  row.onclick = ({ target }) => target === row && row.scrollBy(row.clientWidth / 2, 0); // the arrow
  const rule = quiet("Neurons to begin with:");
  const root = element("div", { class: "ctx-neurons-named", hidden: !comes }, rule, row);
  const paint = inStep((/** @type {Scene} */ { labels, neuron, left }, changed) => {
    if (changed("labels") && labels.size) {
      const made = namedNeurons(labels, layer.model).map(({ neuron, title, words }) => {
        const parts = [element("b", {}, title), element("span", {}, `${neuron} · ${words}`)];
        const ways = { value: neuron, class: labels.get(neuron)?.weak && "ctx-weak" };
        const onclick = () => go({ neuron, search: "" });
        return element("button", { type: "button", ...ways, onclick }, parts);
      });
      rule.textContent = made.length ? `${several(made.length, "neuron")} to begin with:` : NONE;
      row.replaceChildren(...made);
      roving(row);
    }
    for (const card of row.querySelectorAll("button")) {
      card.setAttribute("aria-pressed", String(Number(card.value) === neuron));
      if (Number(card.value) !== neuron || left || !changed("labels", "neuron")) continue;
      const hidden = card.offsetLeft + card.offsetWidth + FADE - row.clientWidth; // the row starts at its left end
      if (hidden > row.scrollLeft || card.offsetLeft < row.scrollLeft)
        row.scrollLeft = card.offsetLeft - 2;
    }
  });
  return { root, paint };
}
