/** The state of the reader, and all that its sections show of it. */

import { largest } from "../engine/linalg.js";
import { belowOrLeft, circuitHeads, sound } from "../ui/state.js";

/** @typedef {ReturnType<typeof turned> & {wanted: number[]}} Turned what a reader chose; the heads that are
 *    wanted may not be here yet
 *  @typedef {{neuron: number, figures: string[], tokens: string[]}} Listed a row of a table
 *  @typedef {{auto: number | null, listed: Listed[][],
 *    listedOf: Reading[], points: number}} Found what follows in slices: the neuron that the view chose where it
 *    was left to choose, the rows of both texts' lists and of the one between them, and how often a line has grown
 *  @typedef {{taken: Taken | undefined, names: string[], at: number | null, kept: number | null}} Kept the
 *    state of a text: where it is read, and where when nobody points, null at its end
 *  @typedef {ReturnType<typeof sceneOf>} Scene `shade` is the strength of a full one
 *  @typedef {Scene["texts"][number]} Text one text as it is shown, and where it is read (`at`) */

/** What an address calls the two texts. */
export const OF_TEXTS = [
  { label: "First text", text: "text" },
  { label: "Second text", text: "other" },
];

/** The next round number above a value: the strength of a full shade. @param {number} value @returns {number} */
function roundedUp(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8].find((f) => f * size >= value) ?? 10) * size;
}

/** The traits, where sound; texts are in their boxes. @param {Model} model @param {Layer} layer */
export function turned(model, layer) {
  return {
    heads: circuitHeads(model, layer),
    chosenNeuron: sound(model, "neuron", belowOrLeft(layer.nNeurons), -1),
  };
}

/** Everything the sections show. @param {Turned} now @param {Taken[]} taken @param {{side: Kept}[]} sides @param {Found} found */
export function sceneOf(now, taken, sides, found) {
  const neuron = now.chosenNeuron < 0 ? found.auto : now.chosenNeuron;
  const terms = taken.map(({ reading }) =>
    neuron !== null && reading.hasContext ? reading.terms(neuron) : null,
  );
  const shade = roundedUp(Math.max(...terms.map((of) => largest(of ?? []))));
  const outputs = taken.map(({ reading }) =>
    neuron !== null && reading.hasContext ? reading.outputs(neuron) : [],
  );
  const axes = axesOf(taken, neuron, outputs.flat());
  const texts = taken.map(({ text, reading, pieces, stretches }, i) => {
    const { names, at } = sides[i].side;
    return {
      ...{ text, reading, stretches, names, neuron, shade, axes, terms: terms[i] },
      outputs: outputs[i],
      at: Math.min(at ?? reading.n, reading.n),
      ids: reading.ids,
      counted: pieces.length,
      listed: found.listed[i],
      points: found.points,
    };
  });
  return { ...now, neuron, shade, texts };
}

/** How far the drawings of both texts reach, in words. @param {Taken[]} taken @param {number | null} neuron
 *  @param {ReturnType<Reading["outputs"]>} outputs */
function axesOf(taken, neuron, outputs) {
  if (neuron === null) return "";
  const reach = taken.map(({ reading }) => (reading.hasContext ? reading.n : 0));
  const values = taken.flatMap(({ reading }) => {
    if (!reading.hasContext) return [];
    const { paper, own, truth } = reading.curve(neuron);
    return [0, ...paper, ...own, ...truth];
  });
  const put = outputs.flatMap(({ tables, model }) => [0, tables.post, model.post]);
  const [y, output] = [values, put].map((of) => {
    const [low, high] = [Math.min(...of), Math.max(...of)];
    const room = 0.06 * (high - low || 1);
    return [low - room, high + room];
  });
  return JSON.stringify({ x: Math.max(...reach), y, output });
}

/** Where else this can be looked at. @param {Scene} scene @param {Record<string, any>} given texts that
 *  may stand in an address @returns {Way[]} */
export function waysFrom({ heads, neuron }, given) {
  const state = { heads, ...(neuron === null ? {} : { neuron }) };
  return [
    { page: "explorer", label: "This neuron in the explorer", state },
    { page: "reader", label: "Open the live reader", state: { ...state, ...given } },
  ];
}
