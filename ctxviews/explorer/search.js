/** Which neurons a token drives. */

import { largest, outermost } from "../engine/linalg.js";
import { firstTokens } from "../engine/ranking.js";
import { pick, roving } from "../ui/controls.js";
import { element, focusIn, numberCell, table } from "../ui/dom.js";
import { DOWN, UP } from "../ui/marks.js";
import { inStep } from "../ui/state.js";
import { needed, waitingLine } from "../ui/waiting.js";
import { digitsFor, signed, tokenMark, UNIT } from "../ui/words.js";

/** @import { Ranking, Scene, Section, Tools } from "./scene.js"
 *  @typedef {{id: number, parts: number[], kin: number[]}} Typed what a reader typed: `id` is the
 *  token that is looked up (-1 for none), `parts` are the tokens of what is not a single one, `kin`
 *  are others that spell the same word
 *  @typedef {Typed & {missing: number}} Found and the token, if it is one that the page has no data for */

const DRIVEN = 8; // neurons shown of each end of a token
const OFFERED = 12; // pieces of a word that is no single token

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
  const note = element("div", { role: "status", tabindex: -1 });
  const result = element("div", { class: "ctx-neurons-ends" });
  const counted = new Set(layer.counted);
  const update = inStep((/** @type {Found & {typed: string, ranking: Ranking}} */ now, changed) => {
    const { id, ranking } = now;
    if (changed("ranking", "id"))
      result.replaceChildren(...(id < 0 ? [] : drivenBy(id, ranking, tools)));
    if (!changed("typed", "id", "missing")) return;
    const pressed = focusIn(note);
    note.replaceChildren(...searchNote(now, tools, counted.has(id)));
    if (pressed) note.focus(); // the button is gone
  });
  const paint = (/** @type {Scene} */ { ranking, neuron, search }) => {
    const [first] = firstTokens(ranking, neuron, 1);
    const found = search ? tokensOf(search, tools) : { id: first, parts: [], kin: [] };
    const missing = found.id >= 0 && !layer.hasToken(found.id) ? found.id : -1;
    if (missing >= 0) here([], [missing], `the token ${name(missing)}`);
    update({ ...found, ...(missing >= 0 ? { id: -1 } : {}), missing, typed: search, ranking });
  };
  const title = heading(0, "Which neurons does a token drive?");
  return { root: element("section", {}, title, waiting.root, note, result), paint };
}

/** @param {string} typed @param {Tools} tools @returns {Typed} */
export function tokensOf(typed, tools) {
  const { read } = tools;
  const word = typed.trim();
  // in a text a word has a space before it, and mostly that is a token of its own
  const [exact, inText] = [read(typed), word ? read(` ${word}`) : []];
  const [id] = [exact, inText].find((ids) => ids.length === 1) ?? [-1];
  if (id < 0) {
    const parts = typed.startsWith(" ") || !word ? exact : inText;
    // what a long word is about mostly stands in its longest piece
    const size = (/** @type {number} */ part) => tools.text(part).trim().length;
    const whole = parts.filter((part) => sameAgain(part, tools)).sort((a, b) => size(b) - size(a));
    return { id: whole[0] ?? -1, parts, kin: [] };
  }
  const capital = word.charAt(0).toUpperCase() + word.slice(1);
  const spelt = [word, capital, word.toLowerCase()].flatMap((form) => [` ${form}`, form]);
  const single = spelt.map(read).filter((ids) => ids.length === 1);
  return { id, parts: [], kin: [...new Set(single.flat())].filter((other) => other !== id) };
}

/** @param {Found} found @param {Tools} tools @param {boolean} counted @returns {HTMLElement[]} */
function searchNote({ id, parts, kin, missing }, tools, counted) {
  const { layer, text, name, go } = tools;
  const offered = (/** @type {number} */ other) =>
    sameAgain(other, tools) ? pick(name(other), () => go({ search: text(other) })) : name(other);
  const row = (/** @type {any[]} */ ...held) => {
    const items = held.flat().map((item) => element("span", {}, item));
    return element("p", { class: "ctx-neurons-note" }, items);
  };
  if (missing >= 0)
    return [row("This page has no data for the token ", tokenMark(name(missing)), ".")];
  if (id < 0 && !parts.length) return [row("The vocabulary has no such token.")];
  const made = [];
  if (parts.length) {
    const [some, more] = [parts.slice(0, OFFERED), parts.length > OFFERED ? ["…"] : []];
    made.push(row(`No single token, but ${parts.length}: `, some.map(offered), more));
  }
  if (id >= 0) {
    const why = layer.untrained.has(id) ? "was never trained" : "is rare";
    const left = counted ? "" : ` It ${why}, so no ranking counts it.`;
    const about = ["What ", tokenMark(name(id)), ` contributes, in ${UNIT}:${left}`];
    made.push(element("p", { class: "ctx-neurons-note" }, element("span", {}, about)));
  }
  if (kin.length) made.push(row("Also", kin.map(offered)));
  return made;
}

/** @param {number} token @param {Ranking} ranking @param {Tools} tools */
function drivenBy(token, { circuit, heads }, { layer, text, go }) {
  const all = circuit.driven(token, heads);
  const ends = outermost(all, layer.everyNeuron, DRIVEN);
  const most = largest(all) || 1;
  return endTables("Neurons driven", "neuron", ends, most, (j) => ({
    label: String(j),
    ariaLabel: `Neuron ${j}`,
    value: all[j],
    // the token stays, even if it was only the last neuron's first
    onPick: () => go({ search: text(token), neuron: j }),
  }));
}

/** What is largest and what is smallest: names to press with a number and a bar each.
 *  @param {string} title @param {string} kind @param {ReturnType<typeof outermost>} ends
 *  @param {number} most that a whole bar stands for
 *  @param {(item: number) => {label: string, ariaLabel: string, value: number, onPick: (() => void) | null}} of */
export function endTables(title, kind, ends, most, of) {
  return Object.entries(ends).map(([way, items]) => {
    const rows = items.map(of).map(({ label, ariaLabel, value, onPick }) => {
      const bar = element("span", { class: "ctx-neurons-bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", (Math.abs(value) / most).toFixed(3));
      bar.style.backgroundColor = value < 0 ? DOWN : UP;
      const named = element("td", {}, onPick ? pick(label, onPick, ariaLabel) : label, bar);
      return element("tr", {}, named, numberCell(signed(value, digitsFor(most))));
    });
    const [caption, columns] = [`${title} ${way}`, [kind, "contribution"]];
    return roving(table({ kind: "ctx-neurons-barred", caption, columns, rows, unseen: true }));
  });
}
