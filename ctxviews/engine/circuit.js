/** The contextual circuit at one destination (Gibson 2025; chapters 4 to 11). */

import { addScaled, columnMajor, equalParts } from "./linalg.js";
import { rowProducts, sharedKernel, wholeBelow } from "./linalg.js";
import { Kept } from "./cache.js";
import { Prefix } from "./prefix.js";
import { doneAtOnce, doneInSlices, NEURONS_AT_ONCE } from "./slices.js";

/** All heads at destination n with `token` there. Made by `layer.circuit`. */
export class Circuit {
  /** @type {Calibration | undefined} */ #calibration;
  /** @type {Float64Array[] | undefined} of the layer's `available` tokens */ #content;
  /** By head, content_h(t) / (denom_h s) of the ranked tokens. @type {Float64Array[]} */
  weights = [];
  /** By head, what the average counted token puts into it, over LayerNorm 2's scale. @type {Float64Array[]} */
  means = [];
  /** @type {Kept<Float64Array>} by heads */ #shared = new Kept(64);

  /** @param {Layer} layer @param {number} n @param {number} token */
  constructor(layer, n, token) {
    this.layer = layer;
    this.n = n;
    this.token = token;
    this.split = layer.split(n, token);
    this.reach = this.split.reach; // tokens of a text that are read
    this.kernels = this.split.kernels; // one row a head over the sources
    if (n === layer.n) this.#calibration = layer.destinations.find(({ id }) => id === token);
  }

  /** One a head. @returns {Numbers} */
  get denominators() {
    return this.#read().denominators;
  }

  /** LayerNorm 2's. @returns {number} */
  get scale() {
    return this.#read().scale;
  }

  /** The constants of the calibration text. A kernel alone does not need them, and may be longer. */
  #read() {
    return (this.#calibration ??= this.split.calibrated());
  }

  /** The kernel that these heads share. @param {number[]} heads */
  kernelOf(heads) {
    return this.#shared.get(heads, () => sharedKernel(heads.map((h) => this.kernels[h])));
  }

  // -------------------------------------------------------------- tokens

  /** log content_h of some tokens, in nats; a row a head. @param {Numbers} ids */
  *#scores(ids) {
    const { nHeads } = this.layer;
    const out = new Float64Array(ids.length * nHeads);
    yield* this.split.scores(ids, out);
    return equalParts(columnMajor(out, nHeads), nHeads);
  }

  /** W_O W_in[:, j] / s: the direction inside each head that one neuron reads.
   *  @param {number} neuron @param {number[]} heads */
  directions(neuron, heads) {
    wholeBelow(neuron, this.layer.nNeurons, "neuron");
    return heads.map((h) => this.layer.readoutOf(h, neuron).map((value) => value / this.scale));
  }

  /** What each token of the vocabulary adds to a neuron's pre-activation, per unit of kernel; zero
   *  for one that the page has no data for.
   *  @param {number} neuron @param {number[]} heads @returns {Float64Array} */
  contribution(neuron, heads) {
    return doneAtOnce(this.contributing(neuron, heads));
  }

  /** The same, some tokens at a time. @param {number} neuron @param {number[]} heads */
  *contributing(neuron, heads) {
    const { layer, split } = this;
    const { available } = layer;
    const chosen = layer.heads(heads);
    const out = new Float64Array(layer.nVocab);
    const through = new Float64Array(available.length * chosen.length);
    const scores = (this.#content ??= yield* this.#scores(available));
    yield* split.through(available, chosen, this.directions(neuron, chosen), through);
    for (const [k, head] of chosen.entries()) {
      const denominator = this.denominators[head];
      for (let i = 0; i < available.length; i++)
        out[available[i]] +=
          (Math.exp(scores[head][i]) / denominator) * through[i * chosen.length + k];
      yield;
    }
    return out;
  }

  /** What one token adds to every neuron's pre-activation, per unit of kernel.
   *  @param {number} token @param {number[]} heads @returns {Float64Array} */
  driven(token, heads) {
    const { layer } = this;
    const seen = this.split.seen([wholeBelow(token, layer.nVocab, "token")]);
    const chosen = layer.heads(heads);
    const contents = seen.contents(chosen);
    const inside = chosen.map((head, k) =>
      seen.inside(head, [contents[k][0] / this.denominators[head]]),
    );
    return layer.read(chosen, { inside, scale: this.scale });
  }

  // -------------------------------------------------------------- texts

  /** This circuit, or for a shorter text the one whose destination is its last token.
   *  @param {Numbers} ids @returns {Circuit} */
  for(ids) {
    if (!ids.length) throw new RangeError("no tokens: a text has at least one");
    if (ids.length >= this.reach) return this;
    return this.layer.circuit({ n: this.layer.placeIn(ids.length), token: this.token });
  }

  /** What is read of a text, with the destination token at the destination: what a passage is
   *  compared by is what stands around it. @param {Numbers} ids @returns {Int32Array} */
  placed(ids) {
    const { n, reach } = this.for(ids);
    const read = Int32Array.from(ids).slice(0, reach);
    read[n] = this.token;
    return read;
  }

  /** A text up to n, or to its last token if that comes first. @param {Numbers} ids */
  read(ids) {
    return new Prefix(this.for(ids), ids);
  }

  /** The terms of one neuron's summary of every labelled passage, with the destination token at the end of what
   *  is read (`placed`). Each is as long as that: so its `contribution` is all it takes.
   *  @param {Float64Array} contribution @param {number[]} heads @returns {Float64Array[]} */
  passageTerms(contribution, heads) {
    const kernel = this.kernelOf(heads);
    const term = (/** @type {number} */ id, /** @type {number} */ i) =>
      kernel[i] * contribution[id];
    return this.layer.passages.map(({ ids }) => Float64Array.from(this.placed(ids), term));
  }

  /** The summary of every labelled passage, of its own tokens, by the paper's circuit. @param {number[]} heads
   *  @returns {Promise<Float64Array>} for all neurons, passage after passage */
  async responses(heads) {
    const chosen = this.layer.heads(heads);
    const scaled = await doneInSlices(this.#readPassages(chosen));
    return doneInSlices(readOut(this.layer, chosen, scaled));
  }

  /** What each head puts together, over LayerNorm 2's scale, passage after passage.
   *  @param {number[]} heads */
  *#readPassages(heads) {
    const { dHead, passages } = this.layer;
    const scaled = heads.map(() => new Float64Array(passages.length * dHead));
    for (const [i, { ids }] of passages.entries()) {
      const { inside, scale } = this.read(ids).paper(heads);
      inside.forEach((z, k) => addScaled(scaled[k], i * dHead, 1 / scale, z, 0, dHead));
      yield;
    }
    return scaled;
  }

  // -------------------------------------------------------------- which neurons

  /** The ranking of `cx.find_neurons`: for every neuron the mean of its largest contributions less
   *  the mean over tokens, glitch tokens left out; and which tokens those are.
   *  @param {number[]} heads @param {Bringing} [how] @returns {Promise<Ranked>} */
  async rank(heads, how) {
    return this.layer.rankings.rank(this, this.layer.heads(heads), how);
  }

  /** What a ranking needs of this circuit. */
  *weigh() {
    if (this.weights.length) return;
    const { destinations, means, nHeads, ranked } = this.layer;
    const at = this.n === this.layer.n ? destinations.findIndex(({ id }) => id === this.token) : -1;
    if (at < 0) throw new RangeError("neurons are ranked at a query that the file has");
    const average = equalParts(means, destinations.length)[at].map((z) => z / this.scale);
    this.means = equalParts(average, nHeads);
    const scores = yield* this.#scores(ranked);
    this.weights = scores.map((row, h) =>
      row.map((score) => Math.exp(score) / this.denominators[h] / this.scale),
    );
  }
}

/** sum over heads of rows W_O W_in, some neurons at a time.
 *  @param {Layer} layer @param {number[]} heads @param {Float64Array[]} rows a head's each */
function* readOut(layer, heads, rows) {
  const { dHead, nNeurons } = layer;
  const count = rows[0].length / dHead;
  const out = new Float64Array(count * nNeurons);
  for (let from = 0; from < nNeurons; from += NEURONS_AT_ONCE) {
    const some = Math.min(NEURONS_AT_ONCE, nNeurons - from);
    const part = new Float64Array(count * some);
    for (const [k, head] of heads.entries()) {
      rowProducts(rows[k], layer.readout(head, from / NEURONS_AT_ONCE), dHead, part);
      for (let i = 0; i < count; i++) addScaled(out, i * nNeurons + from, 1, part, i * some, some);
    }
    yield;
  }
  return out;
}
