/** What follows in slices, until the next keystroke cuts it short. */

import { leading, mostAdding, standing } from "../engine/reading.js";
import { nextTurn, sliced } from "../engine/slices.js";
import { figure, signed } from "../ui/words.js";

/** @import { Found, Listed, Scene, Text } from "./scene.js" */

const NAMED = 4; // tokens that a list names
const REPAINT = 400; // milliseconds between two drawings of a line that grows

/** Measures the passages, chooses a neuron, makes the lists and completes the lines, until the next
 *  keystroke cuts it short. @param {Scene} scene @param {Found} found
 *  @param {(more: Partial<Found>) => void} learn @param {LayerReader} reader @param {AbortSignal} signal */
export async function follow(scene, found, learn, reader, signal) {
  const { heads, texts } = scene;
  const readings = texts.map(({ reading }) => reading);
  const references = [];
  for (const { n, hasContext } of readings) {
    references.push(hasContext ? await reader.reference(heads, n) : null);
    signal.throwIfAborted();
  }
  // in standard deviations: each text's summaries from the passages' mean, and the first less the second's
  const excited = references.map((of, i) => of && standing(readings[i].whole, of.mean, of.sd));
  const [first, second] = references;
  const both = first && second && (first.n < second.n ? first : second);
  const differing = both && standing(readings[0].whole, readings[1].whole, both.sd);
  const apart = differing?.some((z) => z) ? differing : null; // a text and its copy differ in none
  // where it was left to the view, the neuron in which two texts differ most, or that the only one excites
  // most; it then stays, whatever is typed
  const scores = apart?.map(Math.abs) ?? excited.find((z) => z);
  const neuron = scene.neuron ?? (scores ? leading(scores)[0] : null);
  learn(scene.neuron === null ? { auto: neuron } : {});
  await nextTurn();
  const pause = sliced(signal);
  if (readings.some((reading, i) => reading !== found.listedOf[i]))
    learn({ listed: await listedNeurons(texts, excited, apart, pause), listedOf: readings });
  await sumUp(readings, () => learn({ points: found.points + 1 }), pause);
  learn({});
}

/** The three lists: of each text the neurons that it excites most, and those in which both are most
 *  apart, with the tokens that add more to them in one text than in the other. @param {Text[]} texts
 *  @param {(Float64Array | null)[]} excited @param {Float64Array | null} apart
 *  @param {() => Promise<void>} pause */
async function listedNeurons(texts, excited, apart, pause) {
  const alone = texts.map((text, i) => ({ z: excited[i], of: [text] }));
  /** @type {Listed[][]} */ const listed = [];
  for (const { z, of } of [...alone, { z: apart, of: texts }]) {
    /** @type {Listed[]} */ const rows = [];
    const far = of.length > 1 ? z?.map(Math.abs) : z;
    for (const neuron of far ? leading(far) : []) {
      const value = z?.[neuron] ?? NaN;
      const terms = of.map(({ reading, names }, i) => ({
        terms: reading.terms(neuron),
        names,
        sign: (i ? -1 : 1) * (of.length > 1 ? Math.sign(value) : 1),
      }));
      const summaries = of.map(({ reading }) => figure(reading.whole[neuron]));
      const tokens = mostAdding(terms, NAMED);
      rows.push({ neuron, figures: [signed(value, 1), ...summaries], tokens });
      await pause();
    }
    listed.push(rows);
  }
  return listed;
}

/** Fills in the lines of both texts, in turn. @param {Reading[]} readings
 *  @param {() => void} onPoints @param {() => Promise<void>} pause */
async function sumUp(readings, onPoints, pause) {
  const missing = readings.flatMap((reading) =>
    reading.missing().map((n, turn) => ({ reading, n, turn })),
  );
  let since = performance.now();
  for (const { reading, n } of missing.sort((a, b) => a.turn - b.turn)) {
    reading.sumUp(n);
    if (performance.now() - since > REPAINT) {
      onPoints();
      since = performance.now();
    }
    await pause();
  }
  if (missing.length) onPoints();
}
