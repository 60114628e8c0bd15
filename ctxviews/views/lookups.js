/** Which heads wake a neuron on a prompt, and what they look up there (chapter 15).
 *
 *  Nothing is computed from weights here: the terms of a pre-activation add up, so to choose heads
 *  is to add other terms, and the chapter's record has them all. */

import { largest } from "../engine/linalg.js";
import { checkbox, chip, chipRow, choice, pick, resetButton } from "../ui/controls.js";
import { element, quiet, renewed, row, table } from "../ui/dom.js";
import { below, kept, sound, turn } from "../ui/state.js";
import { shade, shadeKey, tokenReader } from "../ui/tokens.js";
import { figure, shown, signed, tokenMark, tokenName } from "../ui/words.js";

/** @typedef {{bias: number, embedding: number, mlps: number, heads: number[], rest: number}} Terms `heads` in
 *    the order of the neuron's list, `rest` the sum of the heads that are not listed
 *  @typedef {Terms & {tokens: string[], sources: number[], probability: number}} LookedUp `sources` in
 *    thousandths, token by token for one head after the other
 *  @typedef {{label: string, group: string, token: string, heads: number[], usual: Terms,
 *    prompts: LookedUp[]}} Neuron its heads are counted through all layers
 *  @typedef {{nHeads: number, neurons: Neuron[]}} LookUpRecord
 *  @typedef {{neuron: Neuron, prompt: LookedUp, places: number[]}} Case
 *    `places` are where the chosen heads stand in the neuron's list */

const KIND = "ctx-lookups-table";
const THOUSANDTH = 0.001;
const CHIP = 0.34; // of the shade of the largest rise: figures stay readable on it

/** @param {number[]} values */
const total = (values) => values.reduce((sum, value) => sum + value, 0);

/** What enters the activation function. @param {Terms} terms */
const preActivation = ({ bias, embedding, mlps, heads, rest }) =>
  bias + embedding + mlps + total(heads) + rest;

/** What some heads bring. @param {Terms} terms @param {number[]} places */
const brought = (terms, places) => total(places.map((place) => terms.heads[place]));

/** What each listed head brings here beyond its mean over random places. @param {Case} at */
const headRises = ({ neuron, prompt }) =>
  prompt.heads.map((term, k) => term - neuron.usual.heads[k]);

/** Layer and number of a head. @param {number} head @param {number} nHeads */
const headName = (head, nHeads) => `${Math.floor(head / nHeads)}.${head % nHeads}`;

/** The chosen heads. @param {Case} at @param {number} nHeads */
function inWords({ neuron, places }, nHeads) {
  const names = places.map((place) => headName(neuron.heads[place], nHeads));
  if (names.length > 3) return `${names.length} chosen heads`;
  return `${names.length > 1 ? "heads" : "head"} ${names.join(", ")}`;
}

/** The end of a prompt, for the list of prompts. @param {LookedUp} prompt @param {number} place */
function promptName({ tokens }, place) {
  const text = Array.from(shown(tokens.slice(1).join("")));
  const end = text.length > 34 ? ["…", ...text.slice(-33)] : text;
  return `${place + 1}: ${end.join("")}`;
}

/** A bar in a cell of a table, from one value to another on a scale that the column shares; a
 *  second colour and hatching below zero. @param {number} from @param {number} to
 *  @param {[number, number]} scale @param {string} [kind] */
function barCell(from, to, [low, high], kind = to < from ? "down" : "up") {
  const share = (/** @type {number} */ value) => (100 * (value - low)) / (high - low || 1);
  const bar = element("span", { class: `ctx-lookups-bar ctx-lookups-${kind}` });
  bar.style.left = `${share(Math.min(from, to)).toFixed(2)}%`;
  bar.style.width = `max(1px, ${Math.abs(share(to) - share(from)).toFixed(2)}%)`;
  const zero = element("span", { class: "ctx-lookups-zero" });
  zero.style.left = `${share(0).toFixed(2)}%`;
  const track = element("span", { class: "ctx-lookups-track" }, zero, bar);
  return element("td", { class: "ctx-lookups-bars" }, track);
}

/** What adds up to the pre-activation, part after part. @param {Case} at @param {number} nHeads */
function account(at, nHeads) {
  const { neuron, prompt, places } = at;
  const { usual } = neuron;
  const [ours, usually] = [brought(prompt, places), brought(usual, places)];
  const all = total(prompt.heads) + prompt.rest;
  const allUsually = total(usual.heads) + usual.rest;
  /** @type {[string, number, number][]} */
  const parts = [
    ["bias", prompt.bias, usual.bias],
    ["embedding", prompt.embedding, usual.embedding],
    ["earlier MLPs", prompt.mlps, usual.mlps],
    ["all other heads", all - ours, allUsually - usually],
    [inWords(at, nHeads), ours, usually],
  ];
  const steps = parts.reduce((sums, [, term]) => [...sums, sums[sums.length - 1] + term], [0]);
  const scale = /** @type {[number, number]} */ ([Math.min(...steps), Math.max(...steps)]);
  const rows = parts.map(([name, term, mean], k) => {
    const bar = barCell(steps[k], steps[k + 1], scale);
    const cells = [figure(term), bar, figure(mean), signed(term - mean)];
    return row(name, cells, k === parts.length - 1 && "ctx-chosen");
  });
  const [whole, before] = [preActivation(prompt), preActivation(usual)];
  const bar = barCell(0, whole, scale, "whole");
  const sums = [figure(whole), bar, figure(before), signed(whole - before)];
  rows.push(row("pre-activation", sums, "ctx-lookups-sum"));
  const columns = ["", ["here"], "adding up", ["usually"], ["rise"]];
  return table({ kind: KIND, caption: "The pre-activation, term by term", columns, rows });
}

/** The heads, one row a layer: boxes to tick, shaded by what the head brings beyond its usual.
 *  @param {Case} at @param {number} nHeads @param {(heads: number[]) => void} onChange */
function headGrid(at, nHeads, onChange) {
  const { heads } = at.neuron;
  const rises = headRises(at);
  const most = largest(rises) || 1;
  const ticked = () => onChange(heads.filter((_, k) => boxes[k].checked));
  const boxes = heads.map((head) => checkbox(head, ticked));
  const layers = [...new Set(heads.map((head) => Math.floor(head / nHeads)))];
  const key = (/** @type {number} */ k) => {
    const note = element("small", {}, signed(rises[k]));
    const made = chip(boxes[k], headName(heads[k], nHeads), note);
    const face = /** @type {HTMLElement} */ (made.lastElementChild);
    face.style.backgroundColor = shade(rises[k], (CHIP * Math.abs(rises[k])) / most);
    return made;
  };
  const rows = layers.map((layer) => {
    const own = heads.flatMap((head, k) => (Math.floor(head / nHeads) === layer ? [k] : []));
    const choose = () => onChange(own.map((k) => heads[k]));
    const all = pick(`layer ${layer}`, choose, `Choose the heads of layer ${layer}`);
    return [all, element("div", { class: "ctx-lookups-layer" }, own.map(key))];
  });
  const title = "Heads (layer.head), each with its rise on this prompt";
  const made = chipRow(title, rows, "ctx-lookups-heads");
  return Object.assign(made, {
    update(/** @type {number[]} */ places) {
      boxes.forEach((box, k) => (box.checked = places.includes(k)));
    },
  });
}

/** The prompt, each token shaded by what the chosen heads bring from it. @param {HTMLElement} place
 *  @returns {(prompt: LookedUp, places: number[], chosen: string) => void} draws it */
function promptReader(place) {
  /** @type {LookedUp | undefined} */ let last;
  let at = 0; // where it is read
  return (prompt, places, chosen) => {
    const { tokens, sources } = prompt;
    const from = (/** @type {number} */ u) =>
      total(places.map((place) => sources[place * tokens.length + u] * THOUSANDTH));
    const values = tokens.map((_, u) => from(u));
    if (prompt !== last)
      at = values.reduce((best, v, u) => (Math.abs(v) > Math.abs(values[best]) ? u : best), 0);
    last = prompt;
    const verb = places.length > 1 ? "bring" : "brings";
    const words = `What ${chosen} ${verb} the neuron from each token of the prompt`;
    const reader = tokenReader({
      label: "Read a token: what it brings",
      tokens,
      values,
      at,
      read: (u) => `“${tokenName(tokens[u])}”: ${signed(values[u])}`,
      onMove: (u) => (at = u),
    });
    const note = quiet(shadeKey(largest(values)));
    renewed(place, element("p", { class: "ctx-label" }, words), reader, note);
  };
}

/** @param {{model: Model, el: HTMLElement}} view traits: record, neuron, prompt, heads (counted
 *    through all layers; none: the one with the largest rise) */
async function render({ model, el }) {
  /** @type {LookUpRecord} */ const record = model.get("record");
  const { neurons, nHeads } = record;
  /** @returns {Case & {heads: number[], which: number, nth: number}} */
  const chosen = () => {
    const which = sound(model, "neuron", below(neurons.length), 0);
    const neuron = neurons[which];
    const nth = sound(model, "prompt", below(neuron.prompts.length), 0);
    const prompt = neuron.prompts[nth];
    const listed = (/** @type {any} */ heads) =>
      Array.isArray(heads) && heads.every((head) => neuron.heads.includes(head));
    const heads = sound(model, "heads", listed, /** @type {number[]} */ ([]));
    const rises = headRises({ neuron, prompt, places: [] });
    const places = heads.length
      ? neuron.heads.flatMap((head, k) => (heads.includes(head) ? [k] : []))
      : [rises.indexOf(Math.max(...rises))];
    return { which, neuron, nth, prompt, heads, places };
  };

  const choose = (/** @type {number[]} */ heads) => {
    turn(model, { heads });
    grid?.update(chosen().places); // with none the strongest is ticked, which may be the one that was
  };
  const which = choice({
    label: "Neuron (layer.neuron) and its token",
    options: neurons,
    onChange: (neuron) => turn(model, { neuron, prompt: 0 }),
  });
  const [prompts, heads, summary, text, sums] = Array.from({ length: 5 }, () => element("div"));
  const readPrompt = promptReader(text);
  const strongest = pick("the largest rise", () => choose([]));
  const all = pick("all heads", () => choose(chosen().neuron.heads));
  el.replaceChildren(
    element("div", { class: "ctx-controls" }, which, prompts),
    summary,
    heads,
    quiet("Choose ", strongest, " or ", all, "."),
    text,
    sums,
    quiet(resetButton(model)),
  );

  let grid = /** @type {ReturnType<typeof headGrid> | undefined} */ (undefined);
  let list = /** @type {ReturnType<typeof choice> | undefined} */ (undefined);
  /** @param {ReturnType<typeof chosen>} now @param {Changed} changed */
  const update = (now, changed) => {
    which.update(now.which);
    if (changed("neuron")) {
      list = choice({
        label: "Prompt, by its end",
        options: now.neuron.prompts.map((prompt, i) => ({ label: promptName(prompt, i) })),
        onChange: (prompt) => turn(model, { prompt }),
      });
      prompts.replaceChildren(list);
    }
    list?.update(now.nth);
    if (changed("prompt")) {
      grid = headGrid(now, nHeads, choose);
      heads.replaceChildren(grid);
      summary.replaceChildren(headline(now));
    }
    grid?.update(now.places);
    readPrompt(now.prompt, now.places, inWords(now, nHeads));
    sums.replaceChildren(account(now, nHeads));
  };
  return kept({ model, place: el, traits: ["neuron", "prompt", "heads"], state: chosen, update });
}

/** @param {Case} at */
function headline({ neuron, prompt }) {
  const probable = prompt.probability;
  return element(
    "p",
    {},
    `At the end of this prompt the neuron’s pre-activation is ${figure(preActivation(prompt))} ` +
      `(usually ${figure(preActivation(neuron.usual))}); the probability of its token `,
    tokenMark(tokenName(neuron.token)),
    ` is ${probable < 0.001 ? "below 0.001" : figure(probable, 3)}.`,
  );
}

export default { render };
