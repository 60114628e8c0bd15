/** Tokens by what is typed, and which neurons a token drives. */

import { largest, outermost } from "../engine/linalg.js";
import { pick } from "../ui/controls.js";
import { element } from "../ui/dom.js";
import { inStep } from "../ui/state.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { digitsFor, signed, tokenMark } from "../ui/words.js";

/** @import { Ranking, Scene, Section, Tools } from "./scene.js"
 *  @typedef {{id: number, search: string, ranking: Ranking, there: boolean}} Sought */

const DRIVEN = 3; // neurons shown of each end of a token
const HINT = "Press a token to see which neurons it drives.";

/** Whether a token's text is read as that token again. @param {number} id @param {Tools} tools */
export function sameAgain(id, { read, text }) {
  const again = text(id) ? read(text(id)) : [];
  return again.length === 1 && again[0] === id;
}

/** The token that is typed, as it stands or behind a space; or -1. @param {string} typed @param {Tools} tools */
export function tokenOf(typed, { read, layer }) {
  // in a text a word has a space before it, and mostly that is a token of its own
  const forms = typed.trim() ? [typed, ` ${typed.trim()}`] : [typed];
  const single = forms.map(read).flatMap((ids) => (ids.length === 1 ? [ids[0]] : []));
  return single.find((id) => layer.hasToken(id)) ?? single[0] ?? -1;
}

/** Tokens that begin so, then those that contain it, the shortest first; last the pieces of which a text
 *  has it. @param {string} typed @param {Tools} tools @returns {number[]} */
export function tokensLike(typed, tools) {
  const word = typed.trim().toLowerCase();
  const like = tools.letters().filter(([, token]) => token.includes(word));
  const far = (/** @type {[number, string]} */ [, token]) =>
    token.length + (token.trim().startsWith(word) ? 0 : 1000);
  const pieces = tools.read(` ${typed.trim()}`).filter((id) => sameAgain(id, tools));
  return [...like.sort((a, b) => far(a) - far(b)).map(([id]) => id), ...pieces];
}

/** A line that says which neurons the chosen token drives. @param {Tools} tools @returns {Section} */
export function drivenLine(tools) {
  const { name, layer } = tools;
  const waiting = waitingLine();
  const here = needed(layer, waiting, () => tools.again());
  const line = element("p", { role: "status" });
  const update = inStep((/** @type {Sought} */ { id, search, there, ranking }, changed) => {
    if (!changed("ranking", "id", "search", "there")) return;
    const none = search ? `No token is “${search.trim()}”.` : HINT;
    const token = tokenMark(name(Math.max(id, 0)));
    const words = there
      ? drivenBy(id, token, ranking, tools)
      : ["The page has no data for ", token, "."];
    line.replaceChildren(...(id < 0 ? [none] : words));
  });
  const paint = (/** @type {Scene} */ { ranking, search, neuron }) => {
    const id = search ? tokenOf(search, tools) : -1;
    const there = id >= 0 && layer.hasToken(id);
    if (id >= 0 && !there) here([], [id], `the token ${name(id)}`);
    update({ id, search, there, ranking });
    for (const button of line.querySelectorAll("button"))
      button.ariaCurrent = String(button.textContent === String(neuron)); // the one that is shown
  };
  return { root: element("div", { class: "ctx-neurons-driven" }, line, waiting.root), paint };
}

/** @param {number} id @param {HTMLElement} token @param {Ranking} ranking @param {Tools} tools */
function drivenBy(id, token, { circuit, heads }, { layer, go, show }) {
  const all = circuit.driven(id, heads);
  const ends = outermost(all, layer.everyNeuron, DRIVEN);
  const digits = digitsFor(largest(all) || 1);
  const named = Object.values(ends).map((neurons) =>
    Array.from(neurons, (j, i) => {
      const choose = () => (go({ neuron: j }), show("neuron")); // the token stays
      return [i ? " · " : "", pick(String(j), choose, `Neuron ${j}`), ` ${signed(all[j], digits)}`];
    }),
  );
  const why = layer.untrained.has(id) ? "was never trained" : "is rare";
  const left = layer.counted.includes(id) ? "." : `. It ${why}, so no ranking counts it.`;
  return [token, " drives up ", named[0], "; down ", named[1], left].flat(3);
}
