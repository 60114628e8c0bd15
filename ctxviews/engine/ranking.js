/** Which neurons a set of heads can move far: every neuron's largest contributions. */

import { dotProduct, insertPlace, medianOf, wholeProducts, wholeRows } from "./linalg.js";

const AT_ONCE = 16; // neurons that are ranked in a step
const MULTIPLIED = 12; // neurons whose products with all ranked tokens are taken in a step
const SPARE = 12; // tokens picked by rounded contributions beyond those that the exact ones keep
const STANDS_OUT = 2; // robust deviations above the median neuron, as in ctxlib.neurons
const MAD_TO_DEVIATION = 1.4826; // of normal numbers

/** What one head can contribute before any content weighs it: products of values and readouts, in
 *  int8 levels with one step a neuron. They depend on neither the destination token, nor the
 *  denominators, nor other heads: all of these may change. */
class HeadTable {
  #rows = 0;

  /** @param {Given} given */
  constructor({ V, R, dHead }) {
    this.V = V;
    this.R = R;
    this.dHead = dHead;
    this.size = V.length / dHead;
    this.steps = new Float64Array(R.length / dHead);
    this.levels = new Int8Array(this.steps.length * this.size); // neuron after neuron
  }

  /** How much of the table is there. */
  get share() {
    return this.#rows / this.steps.length;
  }

  /** Goes on where an earlier call has left off. @returns {Generator<number>} */
  *fill() {
    const { V, R, dHead, size, steps } = this;
    if (this.share === 1) return;
    const tokens = wholeRows(V, dHead);
    const products = new Float64Array(MULTIPLIED * size);
    while (this.share < 1) {
      const from = this.#rows;
      const to = Math.min(from + MULTIPLIED, steps.length);
      const some = wholeRows(R.subarray(from * dHead, to * dHead), dHead);
      wholeProducts(some, tokens, dHead, products);
      for (let j = from; j < to; j++)
        steps[j] = roundedRow(products, (j - from) * size, this.levels, j * size, size);
      this.#rows = to;
      yield this.share;
    }
  }
}

/** Rounds a stretch of `from` to int8 levels in `into`. @returns {number} the step
 *  @param {Float64Array} from @param {number} i @param {Int8Array} into @param {number} j
 *  @param {number} size */
function roundedRow(from, i, into, j, size) {
  let most = 0;
  for (let k = i; k < i + size; k++) {
    const far = from[k] < 0 ? -from[k] : from[k];
    if (far > most) most = far;
  }
  const inverse = most ? 127 / most : 0;
  // rounded by cutting off a positive number: Math.round takes five times as long
  for (let k = 0; k < size; k++) into[j + k] = ((from[i + k] * inverse + 128.5) | 0) - 128;
  return most / 127;
}

/** Neurons' contributions of the ranked tokens, rounded, as a running sum over heads: a head that
 *  joins is added, one that leaves is taken off, in one pass over the matrix that picks each neuron's
 *  largest on its way. The rounded ones only say which tokens to work out. It knows no layer, and so
 *  works in a worker as in the page. */
export class Ranking {
  /** @type {HeadTable[]} by head */ #tables = [];
  /** @type {HeadPart[]} that the sums are of */ #summed = [];
  #token = -1; // whose contents weigh them
  #sums = new Float32Array(0); // [neuron, ranked token]; made when first needed

  /** @param {number} head @param {Given} given */
  take(head, given) {
    this.#tables[head] ??= new HeadTable(given);
  }

  /** Fills the table of a head. @param {number} head @returns {Generator<number>} how much of it is there */
  fill(head) {
    return this.#tables[head].fill();
  }

  /** Ranks the neurons, a few at a time, by heads whose tables are filled.
   *  @param {Weighing} how @returns {Generator<number, Ranked>} its tokens by their places among the ranked */
  *rank({ token, parts, largest }) {
    const all = parts.map((part) => ({ ...part, table: this.#tables[part.head], sign: 1 }));
    const summed = this.#token === token ? this.#summed : [];
    this.#token = -1; // until the sums are whole again
    const lacking = (/** @type {HeadPart[]} */ some, /** @type {HeadPart[]} */ others) =>
      some.filter(({ head }) => !others.some((other) => other.head === head));
    const left = lacking(summed, all).map((part) => ({ ...part, sign: -1 }));
    let changes = [...lacking(all, summed), ...left]; // that lead to all the heads
    const anew = !changes.length || changes.length >= all.length;
    if (anew) changes = all;
    const [before, last] = [changes.slice(0, -1), changes[changes.length - 1]];
    const { size, dHead, steps } = last.table;
    const nNeurons = steps.length;
    if (!this.#sums.length) this.#sums = new Float32Array(nNeurons * size);
    const [sums, kept] = [this.#sums, Math.min(largest, size)];
    const picked = new Int32Array(Math.min(kept + SPARE, size));
    const [values, exact] = [new Float64Array(picked.length), new Float64Array(kept)];
    const [top, mean] = [new Float64Array(nNeurons), new Float64Array(nNeurons)];
    const tokens = new Int32Array(nNeurons * kept);
    for (let j = 0; j < nNeurons; j++) {
      if (anew) sums.fill(0, j * size, (j + 1) * size);
      for (const part of before) addBelow(sums, part, j, 0, Infinity);
      addAndPick(sums, last, j, values, picked);
      exact.fill(-Infinity);
      for (const t of picked) {
        const value = workedOut(all, t, j);
        if (value > exact[kept - 1]) insertPlace(exact, tokens, j * kept, kept, value, t);
      }
      for (const { mean: z, table } of all) mean[j] += dotProduct(z, 0, table.R, j * dHead, dHead);
      top[j] = exact.reduce((a, b) => a + b) / kept - mean[j];
      if (j % AT_ONCE === AT_ONCE - 1) yield (j + 1) / nNeurons;
    }
    [this.#token, this.#summed] = [token, all];
    return { top, mean, tokens };
  }
}

/** @typedef {{V: Float64Array, R: Float64Array, dHead: number}} Given values of the ranked tokens, token after
 *    token, and of neurons W_O W_in, neuron after neuron
 *  @typedef {{head: number, weights: Float64Array, mean: Float64Array}} Weighed a head with a circuit's
 *    weights of the ranked tokens and its mean
 *  @typedef {{token: number, parts: Weighed[], largest: number}} Weighing by a token's circuit, of which the
 *    `largest` contributions count
 *  @typedef {Weighed & {table: HeadTable, sign: number}} HeadPart to be added (1) or taken off (-1) */

/** sums[j, t] += weights[t] step[j] levels[j, t] for all t, and picks the largest of what comes out: a
 *  number is compared before it is stored, since to fetch it once more would take twice as long as all
 *  the rest. @param {Float32Array} sums @param {HeadPart} part @param {number} j
 *  @param {Float64Array} values the largest, falling @param {Int32Array} places of these */
function addAndPick(sums, part, j, values, places) {
  const { levels, steps, size } = part.table;
  const factor = part.sign * steps[j];
  const last = values.length - 1;
  values.fill(-Infinity);
  for (let t = 0; ; t++) {
    t = addBelow(sums, part, j, t, values[last]);
    if (t >= size) break;
    const value = sums[j * size + t] + factor * part.weights[t] * levels[j * size + t];
    sums[j * size + t] = value;
    insertPlace(values, places, 0, places.length, value, t);
  }
}

/** Goes on adding so until what comes out is not below a bound. A loop of its own, without a call
 *  inside: only then does V8 keep what it works with in registers.
 *  @param {Float32Array} sums @param {HeadPart} part @param {number} j @param {number} from
 *  @param {number} bound @returns {number} where it stopped */
function addBelow(sums, { weights, table: { levels, steps, size }, sign }, j, from, bound) {
  const factor = sign * steps[j];
  let t = from;
  for (let at = j * size + t; t < size; t++, at++) {
    const value = sums[at] + factor * weights[t] * levels[at];
    if (value >= bound) break;
    sums[at] = value;
  }
  return t;
}

/** What a ranked token contributes to a neuron through some heads.
 *  @param {HeadPart[]} parts @param {number} t @param {number} j */
function workedOut(parts, t, j) {
  let sum = 0;
  for (const { weights, table } of parts)
    sum += weights[t] * dotProduct(table.V, t * table.dHead, table.R, j * table.dHead, table.dHead);
  return sum;
}

/** The tokens that contribute most to a neuron, the largest first.
 *  @param {Ranked} ranked @param {number} neuron @param {number} count at most */
export function firstTokens({ top, tokens }, neuron, count) {
  const kept = tokens.length / top.length;
  return Array.from(tokens.subarray(neuron * kept, neuron * kept + Math.min(count, kept)));
}

// ---------------------------------------------------------------- what stands out

/** A neuron stands out that lies above this: `cx.find_neurons` without a threshold.
 *  @param {Numbers} tops @returns {number} */
export function defaultThreshold(tops) {
  const middle = medianOf(Float64Array.from(tops));
  const far = Float64Array.from(tops).map((top) => Math.abs(top - middle));
  return middle + STANDS_OUT * MAD_TO_DEVIATION * medianOf(far);
}
