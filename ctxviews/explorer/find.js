/** One box that finds a neuron by its number, its name, or a word, while one types. */

import { field, pick, roving, PLAIN } from "../ui/controls.js";
import { element, guarded } from "../ui/dom.js";
import { digitsFor, grouped, several, signed } from "../ui/words.js";
import { nameOf, neuronsByName } from "./cards.js";
import { LONGEST_SEARCH } from "./scene.js";
import { tokenOf, tokensLike } from "./search.js";

/** @import { Scene, Tools } from "./scene.js" */

const PAUSE = 300; // milliseconds without a key until what was typed is looked up
const OFFERED = 6; // names and tokens

/** What is chosen by what is typed, null where that is not clear, and what is said of it.
 *  @param {string} typed @param {Scene} scene @param {Tools} tools
 *  @param {Map<string, number[]>} names the neurons of each, that to begin with first
 *  @returns {[{neuron: number, search: string} | null, string, string?]} with a name, if it is one */
function meant(typed, { ranking, neuron, labels }, tools, names) {
  const { layer, name } = tools;
  const word = typed.trim().toLowerCase();
  if (!word) return [{ neuron, search: "" }, ""];
  if (!/\D/.test(word)) {
    const there = Number(word) < layer.nNeurons;
    return there
      ? [{ neuron: Number(word), search: "" }, ""]
      : [null, `Neurons are 0 to ${layer.nNeurons - 1}.`];
  }
  const id = tokenOf(typed, tools);
  const part = id < 0 && word.length > 2; // a word goes before a part of a name
  const small = Array.from(names, ([name, of]) => ({ of, name: ` ${name.toLowerCase()}` }));
  const found =
    small.find(({ name }) => name === ` ${word}`) ??
    small.find(({ name }) => part && name.includes(` ${word}`));
  if (found) {
    const many = `${several(found.of.length, "neuron")} named${found.name}`;
    const [first] = found.of;
    const named = nameOf(layer.model, first, labels);
    return [{ neuron: first, search: "" }, `${many}, below the dots. Grey: doubtful.`, named];
  }
  const pieces = tools.read(` ${typed.trim()}`).map(name);
  if (id < 0 && pieces.length > 1)
    return [null, `No such name or token; read as the pieces ${pieces.join(" + ")}.`];
  if (id < 0) return [null, `No neuron, label or token is called “${typed.trim()}”.`];
  if (!layer.hasToken(id)) return [{ neuron, search: typed }, ""]; // it is on its way
  const driven = ranking.circuit.driven(id, ranking.heads);
  const best = driven.indexOf(Math.max(...driven));
  const far = signed(driven[best], digitsFor(driven[best]));
  const said = `Of ${grouped(driven.length)} neurons, ${name(id)} pushes ${best} most (${far}).`;
  return [{ neuron: best, search: typed }, said];
}

/** The box; under it names and tokens that are like what is typed. @param {Tools} tools */
export function findBox(tools) {
  const { go, name, text } = tools;
  const said = element("p", { class: "ctx-quiet", role: "status" });
  const offers = element("p", { class: "ctx-quiet", role: "group", "aria-label": "Like this" });
  let [at, last] = [-1, ""]; // neuron and search that what is said belongs to
  let done = ""; // what was looked up last, or came with the state: all else is still being typed
  let later = 0;
  const look = guarded(offers, (shown = false) => {
    const scene = tools.scene();
    soon(!scene?.ranking);
    if (!scene?.ranking) return;
    done = input.value;
    const names = neuronsByName(scene, tools.layer.model);
    const [chosen, words, named = ""] = meant(done, scene, tools, names);
    ({ neuron: at, search: last } = chosen ?? scene);
    tools.named = named;
    if (chosen) go(chosen);
    tools.again(); // the list, even if the neuron is the same
    said.textContent = words;
    offers.replaceChildren(...like(done.trim().toLowerCase(), [...names.keys()]));
    roving(offers);
    if (shown && chosen) tools.show(named ? "list" : "neuron");
  });
  /** Names and tokens that have a word in them, to press. @param {string} word @param {string[]} names */
  const like = (word, names) => {
    if (!/[^\s\d]/.test(word)) return [];
    const alike = names.filter((other) => other.toLowerCase().includes(word));
    const tokens = new Set(tokensLike(word, tools).slice(0, OFFERED));
    const pairs = alike.slice(0, 2).map((other) => [other, other]);
    const offered = [...pairs, ...Array.from(tokens, (id) => [name(id), text(id)])];
    return offered.slice(0, OFFERED).map(([called, typed]) =>
      pick(called, () => {
        input.focus();
        tools.find(typed);
      }),
    );
  };
  const soon = (wait = true) => {
    clearTimeout(later);
    if (wait) later = window.setTimeout(look, PAUSE);
  };
  const input = element("input", {
    maxlength: LONGEST_SEARCH,
    ...PLAIN,
    onfocus: () => input.select(),
    oninput: () => soon(void said.replaceChildren()),
    onkeydown: (/** @type {KeyboardEvent} */ { key }) => key === "Enter" && look(true),
  });
  tools.find = (typed) => {
    input.value = typed;
    look(true);
  };
  const parts = [field("Neuron, label or word", input), said, offers];
  return {
    root: element("div", { class: "ctx-neurons-find" }, parts),
    paint(/** @type {Scene} */ { neuron, search, left, labels }) {
      if (neuron === at && search === last) return;
      if (left || nameOf(tools.layer.model, neuron, labels) !== tools.named) tools.named = "";
      if (at < 0 && left && search) soon(); // typed for another model, say
      [at, last] = [neuron, search];
      if (input.value !== done) return; // what is being typed is ahead of what is painted
      said.replaceChildren();
      offers.replaceChildren();
      input.value = done = search;
    },
  };
}
