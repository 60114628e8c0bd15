/** Which neurons a token drives. */

import { largest, outermost } from "../engine/linalg.js";
import { firstTokens } from "../engine/ranking.js";
import { pick, roving } from "../ui/controls.js";
import { element, numberCell, table } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { inStep } from "../ui/state.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { digitsFor, signed, tokenMark, UNIT } from "../ui/words.js";

/** @import { Ranking, Scene, Section, Tools } from "./scene.js"
 *  @typedef {{id: number, how: string}} Typed what a reader typed: `id` is the token that is looked up (-1
 *    for none), `how` it comes to be that one; empty if it is what was typed */

const DRIVEN = 8; // neurons shown of each end of a token
export const NEAREST = "The nearest token is ";

/** Whether a token's text is read as that token again; pieces of a character are not.
 *  @param {number} id @param {Tools} tools */
export function sameAgain(id, { read, text }) {
  const again = text(id) ? read(text(id)) : [];
  return again.length === 1 && again[0] === id;
}

/** Which neurons a typed token drives; before one is typed, the chosen neuron's first.
 *  @param {Tools} tools @returns {Section} */
export function searchSection(tools) {
  const { name, layer, heading } = tools;
  const waiting = waitingLine();
  const here = needed(layer, waiting, () => tools.again());
  const note = element("p", { class: "ctx-neurons-note", role: "status" });
  const result = element("div", { class: "ctx-neurons-ends" });
  const counted = new Set(layer.counted);
  const update = inStep(
    (/** @type {Typed & {ranking: Ranking, there: boolean}} */ now, changed) => {
      const { id, how, there, ranking } = now;
      if (!changed("ranking", "id", "how", "there")) return;
      result.replaceChildren(...(there ? drivenBy(id, ranking, tools) : []));
      const named = tokenMark(name(Math.max(id, 0)));
      const why = layer.untrained.has(id) ? "was never trained" : "is rare";
      const left = counted.has(id) ? "" : ` It ${why}, so no ranking counts it.`;
      const words = there
        ? [how || "What ", named, `${how && ". What it"} contributes, in ${UNIT}:${left}`]
        : ["This page has no data for the token ", named, "."];
      const said = id < 0 ? ["The vocabulary has no such token."] : words;
      note.replaceChildren(element("span", {}, said));
    },
  );
  const paint = (/** @type {Scene} */ { ranking, neuron, search }) => {
    const [first] = firstTokens(ranking, neuron, 1);
    const found = search ? tokensOf(search, tools) : { id: first, how: "" };
    const there = found.id >= 0 && layer.hasToken(found.id);
    if (found.id >= 0 && !there) here([], [found.id], `the token ${name(found.id)}`);
    update({ ...found, there, ranking });
  };
  const title = heading("Which neurons does a token drive?");
  return { root: element("section", {}, title, waiting.root, note, result), paint };
}

/** @param {string} typed @param {Tools} tools @returns {Typed} */
export function tokensOf(typed, tools) {
  const { read } = tools;
  const word = typed.trim();
  // in a text a word has a space before it, and mostly that is a token of its own
  const [exact, inText] = [read(typed), word ? read(` ${word}`) : []];
  const single = [exact, inText].flatMap((ids) => (ids.length === 1 ? [ids[0]] : []));
  const here = single.find((id) => tools.layer.hasToken(id)) ?? single[0]; // of a word's two, that of the page
  if (here !== undefined) return { id: here, how: "" };
  const [near] = word.length > 2 ? tokensLike(word, tools) : [];
  if (near !== undefined) return { id: near, how: NEAREST };
  const parts = typed.startsWith(" ") || !word ? exact : inText;
  // what a long word is about mostly stands in its longest piece
  const size = (/** @type {number} */ part) => tools.text(part).trim().length;
  const whole = parts.filter((part) => sameAgain(part, tools)).sort((a, b) => size(b) - size(a));
  const most = (whole.length ? tools.text(whole[0]) : "").trim();
  const stem = word.startsWith(most) && 2 * most.length >= word.length;
  return { id: whole[0] ?? -1, how: stem ? NEAREST : `The longest of ${parts.length} pieces is ` };
}

/** Tokens that begin so, then those that contain it, the shortest first. @param {string} typed @param {Tools} tools */
export function tokensLike(typed, { letters }) {
  const word = typed.trim().toLowerCase();
  const like = letters().filter(([, token]) => token.includes(word));
  const far = (/** @type {[number, string]} */ [, token]) =>
    token.length + (token.trim().startsWith(word) ? 0 : 1000);
  return like.sort((a, b) => far(a) - far(b)).map(([id]) => id);
}

/** @param {number} token @param {Ranking} ranking @param {Tools} tools */
function drivenBy(token, { circuit, heads }, { layer, text, go, show }) {
  const all = circuit.driven(token, heads);
  const ends = outermost(all, layer.everyNeuron, DRIVEN);
  const most = largest(all) || 1;
  return endTables("Neurons driven", "neuron", ends, most, (j) => ({
    label: String(j),
    ariaLabel: `Neuron ${j}`,
    value: all[j],
    // the token stays, even if it was only the last neuron's first
    onPick: () => (go({ search: text(token), neuron: j }), show("neuron")),
  }));
}

/** What is largest and what is smallest: names to press with a number and a bar each.
 *  @param {string} title @param {string} kind @param {ReturnType<typeof outermost>} ends
 *  @param {number} most that a whole bar stands for
 *  @param {(item: number) => {label: string, ariaLabel: string, value: number, onPick: (() => void) | null}} of */
export function endTables(title, kind, ends, most, of) {
  return Object.entries(ends).map(([way, items]) => {
    const made = items.map(of);
    const least = way === "down" && made.every(({ value }) => value > 0); // none pushes down
    const rows = made.map(({ label, ariaLabel, value, onPick }) => {
      const bar = element("span", { class: "ctx-neurons-bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", (Math.abs(value) / most).toFixed(3));
      bar.style.backgroundColor = value < 0 ? DOWN : UP;
      const named = element("td", {}, onPick ? pick(label, onPick, ariaLabel) : label, bar);
      return element("tr", {}, named, numberCell(signed(value, digitsFor(most))));
    });
    const [caption, columns] = [`${title} ${least ? "up least" : way}`, [kind, "contribution"]];
    return roving(table({ kind: "ctx-neurons-barred", caption, columns, rows, unseen: true }));
  });
}
