/** One box that finds a neuron by its number, its name, or a word, while one types. */

import { field, pick, roving } from "../ui/controls.js";
import { element, guarded } from "../ui/dom.js";
import { PLAIN } from "../ui/textbox.js";
import { several } from "../ui/words.js";
import { nameOf } from "./cards.js";
import { LONGEST_SEARCH } from "./scene.js";
import { NEAREST, tokensLike, tokensOf } from "./search.js";

/** @import { Scene, Tools } from "./scene.js" */

const PAUSE = 300; // milliseconds without a key until what was typed is looked up
const OFFERED = 6; // tokens

const NONE = "No neuron, label or single token of that name. ";

/** What neuron and search are meant, in words. @param {string} typed @param {Scene} scene @param {Tools} tools */
function meant(typed, { ranking, labels, neuron }, tools) {
  const { layer, name } = tools;
  const words = typed.trim().toLowerCase();
  if (!/\D/.test(words)) {
    const none = Number(words) < layer.nNeurons ? "" : `Neurons are 0 to ${layer.nNeurons - 1}.`;
    return { neuron: words && !none ? Number(words) : neuron, search: "", said: none };
  }
  const called = (/** @type {number} */ j) => ` ${nameOf(layer.model, j, labels).toLowerCase()}`;
  const alike = ranking.order.filter((j) => words.length > 2 && called(j).includes(` ${words}`));
  const found = `${several(alike.length, "neuron")} with this label; this one lies farthest right.`;
  if (alike.length) return { neuron: alike[0], search: "", said: found };
  const { id, how } = tokensOf(typed, tools);
  if (id < 0 || !layer.hasToken(id)) return { neuron, search: typed, said: id < 0 ? NONE : "" };
  const driven = ranking.circuit.driven(id, ranking.heads);
  const best = driven.indexOf(Math.max(...driven));
  const token = `${["", NEAREST].includes(how) ? how : NONE + how}${name(id)}${how && ", which"}`;
  return { neuron: best, search: typed, said: `${token} pushes this neuron up most.` };
}

/** The box; under it the tokens that are like what is typed. @param {Tools} tools */
export function findBox(tools) {
  const { go, name, text } = tools;
  const said = element("span", { class: "ctx-quiet", role: "status" });
  const ways = { class: "ctx-neurons-offers", role: "group", "aria-label": "Tokens like this" };
  const onmousedown = (/** @type {Event} */ event) => event.preventDefault(); // the box keeps the focus
  const offers = element("p", { ...ways, onmousedown });
  let [at, last] = [-1, ""]; // neuron and search that what is said belongs to
  let done = ""; // what was looked up last, or came with the state: all else is still being typed
  let later = 0;
  const look = guarded(offers, (shown = false) => {
    soon(!tools.scene()?.ranking);
    if (!tools.scene()?.ranking) return;
    done = input.value;
    const { said: words, ...state } = meant(done, tools.scene(), tools);
    [at, last] = [state.neuron, state.search];
    go(state);
    said.textContent = words;
    const take = (/** @type {number} */ id) => () => {
      input.value = text(id);
      input.focus();
      look(true);
    };
    const like = /[^\s\d]/.test(done) ? [...tokensLike(done, tools), tokensOf(done, tools).id] : [];
    const offered = [...new Set(like)].filter((id) => id >= 0);
    offers.replaceChildren(...offered.slice(0, OFFERED).map((id) => pick(name(id), take(id))));
    roving(offers);
    if (shown) tools.show("neuron");
  });
  const soon = (wait = true) => {
    clearTimeout(later);
    if (wait) later = window.setTimeout(look, PAUSE);
  };
  const input = element("input", {
    type: "text",
    maxlength: LONGEST_SEARCH,
    ...PLAIN,
    oninput: () => soon(void said.replaceChildren()),
    onkeydown: (/** @type {KeyboardEvent} */ { key }) => key === "Enter" && look(true),
  });
  const box = field("Neuron, label or word", input);
  return {
    root: element("div", { class: "ctx-neurons-find" }, box, said, offers),
    paint(/** @type {Scene} */ { neuron, search }) {
      if (neuron === at && search === last) return;
      [at, last] = [neuron, search];
      if (input.value !== done) return; // what is being typed is ahead of what is painted
      said.replaceChildren();
      offers.replaceChildren();
      input.value = done = search;
    },
  };
}
