/** The state of the explorer, and all that its sections show of it. */

import { Kept } from "../engine/cache.js";
import { largest } from "../engine/linalg.js";
import { defaultThreshold } from "../engine/ranking.js";
import { doneInSlices } from "../engine/slices.js";
import { headingsIn } from "../ui/dom.js";
import { spelling } from "../ui/source.js";
import { belowOrLeft, circuitHeads, sound, turn } from "../ui/state.js";

/** @import { Label } from "../ui/labels.js"
 *  @typedef {ReturnType<typeof turned>} Turned what the reader has chosen; heads are settled,
 *    the others may still leave the choice to the view
 *  @typedef {ReturnType<typeof rankingOf>} Ranking
 *  @typedef {ReturnType<typeof toolsOf>} Tools
 *  @typedef {{ranking: Ranking, found: number}} Before the last turn of a head
 *  @typedef {ReturnType<typeof withPassages>} Scene `from` is what was there before a head was turned, until
 *    something else is chosen, `left` whether the neuron is left to the view, and `read` the passage shown
 *  @typedef {{root: HTMLElement, paint: (scene: Scene) => void}} Section */

export const LONGEST_SEARCH = 200; // characters

/** What the view needs at every turn. @param {Model} model @param {Layer} layer @param {HTMLElement} el */
export function toolsOf(model, layer, el) {
  const { tokenizer, text, name, inText } = spelling(layer);
  // a token that begins no text (##ing), or any without a tokenizer, is looked up as it is spelt
  const read = (/** @type {string} */ typed) => {
    const ids = tokenizer ? Array.from(tokenizer.encode(typed)) : [];
    if (ids.length === 1 || tokenizer?.kind === "bytes" || !typed) return ids;
    const forms = tokenizer ? [typed] : [typed, `▁${typed.trim()}`];
    const id = forms.map((word) => layer.vocab.indexOf(word)).find((id) => id >= 0);
    return id === undefined ? ids : [id];
  };
  /** @type {[number, string][] | undefined} */ let spelt;
  return {
    layer,
    text,
    /** The tokens that rankings count, in small letters. */
    letters: () => (spelt ??= Array.from(layer.counted, (id) => [id, text(id).toLowerCase()])),
    name,
    inText,
    heading: headingsIn(el),
    read,
    go: (/** @type {Record<string, any>} */ values) => turn(model, values),
    again: () => {}, // before there is anything, as are what brings a section into sight, what finds a name as
    show: (/** @type {string} */ _section) => {},
    find: (/** @type {string} */ _typed) => {}, // if it were typed, and what is shown
    named: "", // the neurons that the list shows; all that are found, if they have no name
    hand: "", // the heads that were turned last by hand, and not by an address
    scene: () => /** @type {Scene} */ ({}),
  };
}

/** The traits, where sound. No heads mean the layer's stable ones (all, if none is). @param {Model} model @param {Layer} layer */
export function turned(model, layer) {
  return {
    heads: circuitHeads(model, layer),
    threshold: sound(model, "threshold", (v) => Number.isFinite(v) && v >= 0, 0),
    neuron: sound(model, "neuron", belowOrLeft(layer.nNeurons), -1),
    passage: sound(model, "passage", belowOrLeft(layer.passages.length), -1),
    search: sound(model, "search", (v) => typeof v === "string", "").slice(0, LONGEST_SEARCH),
  };
}

/** Everything the sections show, with all that was left to the view chosen, but for passages.
 *  @param {Turned & {width: number}} now @param {Ranking} ranking @param {Map<number, Label>} labels of neurons
 *  @param {(Before & {theta: number, neuron: number, from: Before | null}) | null} before the scene that was shown last */
export function sceneOf(now, ranking, labels, before) {
  const theta = now.threshold || ranking.rule;
  const { order, top } = ranking;
  let found = order.findIndex((j) => !(top[j] > theta));
  if (found < 0) found = order.length;
  const neuron = now.neuron === -1 ? ranking.order[0] : now.neuron;
  const kept = before?.neuron === neuron && before.theta === theta ? before.from : null;
  const turned = before && before.ranking !== ranking;
  const from = turned ? { ranking: before.ranking, found: before.found } : kept;
  return { ...now, neuron, left: now.neuron === -1, theta, ranking, from, labels, found };
}

/** With the neuron's summaries of the passages, the largest read unless one is chosen, and the most that a word adds to
 *  any, before and after a head was turned: the scale of all shades. @param {ReturnType<typeof sceneOf>} scene */
export function withPassages(scene) {
  const { ranking, neuron, passage } = scene;
  const both = scene.from ? [ranking, scene.from.ranking] : [ranking];
  const terms = both.map((of) => of.circuit.passageTerms(columnOf(of, neuron), of.heads));
  const [summaries, before = []] = terms.map((of) => of.map((one) => one.reduce((a, b) => a + b)));
  const most = largest(terms.flat().map((one) => largest(one.subarray(1))));
  const read = passage === -1 ? summaries.indexOf(Math.max(...summaries)) : passage;
  return { ...scene, summaries, before, most, read };
}

/** @param {Circuit} circuit @param {number[]} heads @param {Ranked} found by them */
export function rankingOf(circuit, heads, found) {
  const { top } = found;
  const order = Int32Array.from(top.keys()).sort((a, b) => top[b] - top[a] || a - b);
  const places = new Int32Array(order.length);
  order.forEach((j, place) => (places[j] = place));
  const most = top[order[0]];
  // a round step with fifty to five hundred of them on the slider, whatever the model's unit
  const step = 10 ** (Math.floor(Math.log10(Math.max(most, 1e-9) / 5)) - 1);
  const [rule, columns] = [defaultThreshold(top), new Kept(2)];
  return { ...found, circuit, heads, order, places, rule, most, step, columns };
}

/** Where else this neuron can be looked at. @param {Scene} scene @param {Tools} tools @returns {Way[]} */
export function waysFrom({ heads, threshold, neuron, read, passage, search }, { layer, inText }) {
  const turned = Object.entries({ threshold, passage, search });
  const chosen = Object.fromEntries(turned.filter(([, value]) => ![-1, 0, ""].includes(value)));
  const text = inText(layer.passages[read].ids.slice(1)).tokens.join("");
  return [
    { page: "explorer", label: "Open in the explorer", state: { heads, neuron, ...chosen } },
    {
      page: "reader",
      label: "Read this passage in the live reader",
      state: { heads, neuron, text },
    },
  ];
}

/** A neuron's contributions over the vocabulary, kept while it is looked at.
 *  @param {Ranking} ranking @param {number} neuron @returns {Float64Array} */
export function columnOf(ranking, neuron) {
  const { circuit, heads, columns } = ranking;
  return columns.get(neuron, () => circuit.contribution(neuron, heads));
}

/** Computes what `columnOf` needs first, while the page stays alive.
 *  @param {Ranking} ranking @param {number} neuron @param {AbortSignal} signal */
export async function firstColumn({ circuit, heads, columns }, neuron, signal) {
  if (columns.peek(neuron)) return;
  const column = await doneInSlices(circuit.contributing(neuron, heads), signal);
  columns.get(neuron, () => column);
}
