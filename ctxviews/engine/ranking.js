/** Which neurons a set of heads can move far: every neuron's largest contributions. */

import { dotProduct, insertPlace, medianOf, wholeProducts, wholeRows } from "./linalg.js";

const AT_ONCE = 16; // neurons that are ranked in a step
const MULTIPLIED = 12; // neurons whose products with all ranked tokens are taken in a step
const SPARE = 12; // tokens picked by rounded contributions beyond those that the exact ones keep
const STANDS_OUT = 2; // robust deviations above the median neuron, as in ctxlib.neurons
const MAD_TO_DEVIATION = 1.4826; // of normal numbers
export const TOKENS_AT_ONCE = 64; // of the vocabulary, in a step of such work
export const NEURONS_AT_ONCE = 64;

/** What one head at n can contribute before any content weighs it: values of the ranked tokens,
 *  readout, and their products in int8 levels with one step a neuron. They depend on neither the
 *  destination token, nor the denominators, nor other heads: all of these may change. */
class HeadTable {
  #rows = 0;
  /** @type {Generator<void> | null} whoever needs the table goes on with it */ #filling = null;

  /** @param {Layer} layer @param {number} n @param {number} head */
  constructor(layer, n, head) {
    const { dHead, nNeurons, ranked } = layer;
    this.layer = layer;
    this.n = n;
    this.head = head;
    this.V = new Float64Array(ranked.length * dHead); // token after token
    this.R = new Float64Array(nNeurons * dHead); // W_O W_in, neuron after neuron
    this.levels = new Int8Array(nNeurons * ranked.length); // neuron after neuron
    this.steps = new Float64Array(nNeurons);
    this.products = new Float64Array(MULTIPLIED * ranked.length);
  }

  /** How much of the table is there. */
  get share() {
    return this.#rows / this.layer.nNeurons;
  }

  /** Goes on where an earlier call, or another one in between, has left off; after one that failed for
   *  want of a part of the layer, from the beginning. */
  *fill() {
    while (this.share < 1) {
      try {
        (this.#filling ??= this.#filled()).next();
      } catch (error) {
        this.#filling = null;
        throw error;
      }
      yield;
    }
  }

  *#filled() {
    const { layer, n, head, V, R } = this;
    const { dHead, nNeurons, ranked } = layer;
    const size = ranked.length;
    V.fill(0);
    yield* layer.values(ranked, n, head, V);
    for (let from = 0; from < nNeurons; from += NEURONS_AT_ONCE) {
      R.set(layer.readout(head, from / NEURONS_AT_ONCE), from * dHead);
      yield;
    }
    const tokens = wholeRows(V, dHead);
    while (this.#rows < nNeurons) {
      const from = this.#rows;
      const to = Math.min(from + MULTIPLIED, nNeurons);
      const some = wholeRows(R.subarray(from * dHead, to * dHead), dHead);
      wholeProducts(some, tokens, dHead, this.products);
      for (let j = from; j < to; j++)
        this.steps[j] = roundedRow(this.products, (j - from) * size, this.levels, j * size, size);
      this.#rows = to;
      yield;
    }
  }

  /** V[t] . R[j] @param {number} t among the ranked @param {number} j */
  exact(t, j) {
    const { dHead } = this.layer;
    return dotProduct(this.V, t * dHead, this.R, j * dHead, dHead);
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

/** All neurons' contributions of the ranked tokens at n, rounded, as a running sum over heads: a
 *  head that joins is added, one that leaves is taken off, in one pass over the matrix that picks
 *  each neuron's extremes on its way. The rounded ones only say which tokens to work out: those that
 *  were worked out before need the one head that changes. */
export class Ranking {
  /** @type {Map<number, HeadTable>} */ #tables = new Map();
  /** @type {Circuit | null} */ #circuit = null;
  /** @type {number[]} */ #heads = [];
  /** @type {Ranked | null} */ #result = null;
  #runs = 0;
  /** @type {Promise<unknown>} */ #turn = Promise.resolve();

  /** @param {Layer} layer @param {number} n */
  constructor(layer, n) {
    const size = layer.ranked.length;
    this.layer = layer;
    this.n = n;
    this.kept = Math.min(layer.largest, size);
    this.sums = new Float32Array(0); // [neuron, ranked token]; made when first needed
    const picked = Math.min(this.kept + SPARE, size);
    this.highest = new Largest(layer.nNeurons, picked);
  }

  /** @param {number} head */
  head(head) {
    const table = this.#tables.get(head) ?? new HeadTable(this.layer, this.n, head);
    this.#tables.set(head, table);
    return table;
  }

  /** The ranking, some neurons at a time; where another one was made meanwhile, from the beginning.
   *  @param {Circuit} circuit weighed @param {number[]} heads in order @returns {Generator<void, Ranked>} */
  *making(circuit, heads) {
    const same = this.#circuit === circuit && String(heads) === String(this.#heads);
    if (same && this.#result) return this.#result;
    for (const head of heads) yield* this.head(head).fill();
    let made;
    while (!made) made = yield* this.#run(circuit, heads);
    return (this.#result = made);
  }

  /** Makes one after the other: two that are made at once, as for two explorers of one layer, would
   *  begin anew for each other without end. @template T @param {() => Promise<T>} make @returns {Promise<T>} */
  inTurn(make) {
    const mine = this.#turn.then(make);
    this.#turn = mine.catch(() => {});
    return mine;
  }

  /** @param {Circuit} circuit @param {number[]} heads
   *  @returns {Generator<void, Ranked | null>} if it came to its end undisturbed */
  *#run(circuit, heads) {
    const { nNeurons, ranked, dHead } = this.layer;
    const size = ranked.length;
    const mine = (this.#runs += 1);
    const summed = this.#circuit === circuit ? this.#heads : [];
    this.#circuit = null; // until the sums are whole again
    const all = heads.map((head) => this.#part(circuit, head, 1));
    const joining = all.filter((_, k) => !summed.includes(heads[k]));
    const leaving = summed.filter((head) => !heads.includes(head));
    const anew = joining.length + leaving.length >= heads.length;
    if (anew) {
      if (!this.sums.length) this.sums = new Float32Array(nNeurons * size);
      this.highest.exact.fill(0); // the picks stay: they are tokens like others
    }
    const left = leaving.map((head) => this.#part(circuit, head, -1));
    const changes = anew ? all : [...joining, ...left]; // that lead to all the heads
    const [before, last] = [changes.slice(0, -1), changes[changes.length - 1]];
    const { highest, kept } = this;
    const [top, mean] = [new Float64Array(nNeurons), new Float64Array(nNeurons)];
    const tokens = new Int32Array(nNeurons * kept);
    for (let j = 0; j < nNeurons; j++) {
      if (anew) this.sums.fill(0, j * size, (j + 1) * size);
      for (const { table, weights, sign } of before)
        addBelow(this.sums, weights, table.levels, sign * table.steps[j], j * size, 0, Infinity);
      addAndPick(this.sums, last, j, highest);
      for (const part of all) mean[j] += dotProduct(part.mean, 0, part.table.R, j * dHead, dHead);
      top[j] = highest.settle(j, all, changes, kept) - mean[j];
      for (let i = 0; i < kept; i++)
        tokens[j * kept + i] = ranked[highest.places[j * highest.size + i]];
      if (j % AT_ONCE < AT_ONCE - 1 && j < nNeurons - 1) continue;
      yield;
      if (mine !== this.#runs) return null;
    }
    [this.#circuit, this.#heads] = [circuit, heads];
    return { top, mean, tokens };
  }

  /** @param {Circuit} circuit @param {number} head @param {1 | -1} sign @returns {HeadPart} */
  #part(circuit, head, sign) {
    const mean = circuit.means[head].map((z) => z / circuit.scale);
    return { table: this.head(head), weights: circuit.weights[head], mean, sign };
  }
}

/** @typedef {{table: HeadTable, weights: Float64Array, mean: Float64Array, sign: 1 | -1}} HeadPart
 *    a head with a circuit's weights of the ranked tokens and its mean, to be added or taken off */

/** sums[j, t] += weights[t] step[j] levels[j, t] for all t, and picks the largest of what comes out: a
 *  number is compared before it is stored, since to fetch it once more would take twice as long as all
 *  the rest. @param {Float32Array} sums @param {HeadPart} part @param {number} j @param {Largest} highest */
function addAndPick(sums, { table, weights, sign }, j, highest) {
  const { levels } = table;
  const factor = sign * table.steps[j];
  const size = weights.length;
  let least = highest.begin(j, sums, levels, weights, factor);
  const first = j * size;
  for (let t = 0; ; t++) {
    t = addBelow(sums, weights, levels, factor, first, t, least);
    if (t >= size) break;
    const value = sums[first + t] + factor * weights[t] * levels[first + t];
    sums[first + t] = value;
    least = highest.offer(value, t);
  }
}

/** Goes on adding so until what comes out is not below a bound. A loop of its own, without a call
 *  inside: only then does V8 keep what it works with in registers.
 *  @param {Float32Array} sums @param {Float64Array} weights @param {Int8Array} levels
 *  @param {number} factor @param {number} first of the row @param {number} from
 *  @param {number} bound @returns {number} where it stopped */
function addBelow(sums, weights, levels, factor, first, from, bound) {
  const size = weights.length;
  let t = from;
  for (let at = first + t; t < size; t++, at++) {
    const value = sums[at] + factor * weights[t] * levels[at];
    if (value >= bound) break;
    sums[at] = value;
  }
  return t;
}

/** Of every row of a matrix the few largest entries. */
class Largest {
  #values; // of the row at hand, falling
  #first = 0; // of the row at hand in `places`
  #least = -Infinity; // so many entries of the row are at least this large
  #before; // places and exact values of the last pick in this row
  #beforeExact;

  /** @param {number} rows @param {number} size */
  constructor(rows, size) {
    this.size = size;
    /** Row after row, the largest first. */
    this.places = new Int32Array(rows * size).map((_, i) => i % size);
    this.exact = new Float64Array(rows * size);
    this.#values = new Float64Array(size);
    this.#before = new Int32Array(size);
    this.#beforeExact = new Float64Array(size);
  }

  /** Starts with a row: none can be picked that is smaller than all of the last pick.
   *  @param {number} row @param {Float32Array} sums @param {Int8Array} levels to be added to them
   *  @param {Float64Array} weights @param {number} factor @returns {number} the least that `offer` takes */
  begin(row, sums, levels, weights, factor) {
    const { exact, places, size } = this;
    this.#first = row * size;
    this.#least = Infinity;
    for (let i = 0; i < size; i++) {
      const place = places[this.#first + i];
      const at = row * weights.length + place;
      this.#before[i] = place;
      this.#beforeExact[i] = exact[this.#first + i];
      this.#least = Math.min(this.#least, sums[at] + factor * weights[place] * levels[at]);
    }
    this.#values.fill(-Infinity);
    return this.#least;
  }

  /** @param {number} value @param {number} place @returns {number} the least that it takes from now on */
  offer(value, place) {
    const { places, size } = this;
    const values = this.#values;
    insertPlace(values, places, this.#first, size, value, place);
    if (values[size - 1] > this.#least) this.#least = values[size - 1];
    return this.#least;
  }

  /** Puts the row's picks in the order of their exact values.
   *  @param {number} row @param {HeadPart[]} all @param {HeadPart[]} changes since the last pick
   *  @param {number} kept @returns {number} the mean of the first `kept` */
  settle(row, all, changes, kept) {
    const { exact, places, size } = this;
    const first = this.#first;
    const picked = places.slice(first, first + size);
    const values = this.#values.fill(-Infinity);
    for (let i = 0; i < size; i++) {
      const before = this.#before.indexOf(picked[i]);
      const value =
        before < 0
          ? workedOut(all, picked[i], row)
          : this.#beforeExact[before] + workedOut(changes, picked[i], row);
      insertPlace(values, places, first, size, value, picked[i]);
    }
    exact.set(values, first);
    let sum = 0;
    for (let i = 0; i < kept; i++) sum += exact[first + i];
    return sum / kept;
  }
}

/** What a ranked token contributes to a neuron through some heads.
 *  @param {HeadPart[]} parts @param {number} t @param {number} j */
function workedOut(parts, t, j) {
  let sum = 0;
  for (let k = 0; k < parts.length; k++)
    sum += parts[k].sign * parts[k].weights[t] * parts[k].table.exact(t, j);
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
  const far = Float64Array.from(tops, (top) => Math.abs(top - middle));
  return middle + STANDS_OUT * MAD_TO_DEVIATION * medianOf(far);
}
