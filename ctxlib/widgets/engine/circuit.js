/** The contextual circuit at one destination (Gibson 2025; chapters 5 to 8). */

import {
  addScaled,
  columnMajor,
  dotProduct,
  equalParts,
  rowProducts,
  sharedKernel,
  softmaxInPlace,
  wholeBelow,
} from "./linalg.js";
import { Prefix } from "./prefix.js";
import { TOKENS_AT_ONCE } from "./ranking.js";
import { doneAtOnce, doneInSlices } from "./slices.js";

/** @typedef {import("./layer.js").Layer} Layer
 *  @typedef {import("./linalg.js").Numbers} Numbers
 *  @typedef {import("./packed.js").Destination} Destination
 *  @typedef {import("./ranking.js").Ranked} Ranked
 *  @typedef {{domain: string, mean: number, values: number[], passages: number[]}} DomainResponse */

/** All heads at destination n with `token` there. Made by `layer.circuit`. */
export class Circuit {
  /** @type {{denominators: Numbers, scale: number} | undefined} */ #calibration;
  /** @type {Float64Array[] | undefined} */ #content;
  /** @type {Float64Array[] | undefined} */ #weights;
  /** @type {Float64Array[] | undefined} */ #means;
  /** @type {Map<string, Responses>} */ #responses = new Map();
  /** @type {Map<string, Float64Array>} */ #shared = new Map();

  /** @param {Layer} layer @param {number} n @param {number} token */
  constructor(layer, n, token) {
    const { d, nHeads } = layer;
    this.layer = layer;
    this.n = n;
    this.token = token;
    /** W_K q_n / attn_scale, head after head */
    this.asked = layer.asked(layer.stream([token], n, "here"));
    const shift = new Float64Array((n + 1) * d);
    for (let i = 0; i <= n; i++) {
      addScaled(shift, i * d, 1 / layer.sharedScale[i], layer.W_pos, i * d, d);
      addScaled(shift, i * d, -1 / layer.sharedScale[i], layer.W_pos, n * d, d);
    }
    const scores = rowProducts(this.asked, shift, d, new Float64Array(nHeads * (n + 1)));
    /** Positional kernels: one row a head over the sources 0 ... n. */
    this.kernels = equalParts(scores, nHeads).map(softmaxInPlace);
  }

  /** One a head. @returns {Numbers} */
  get denominators() {
    return this.#read().denominators;
  }

  /** LayerNorm 2's. @returns {number} */
  get scale() {
    return this.#read().scale;
  }

  /** What the calibration text says; of a kernel alone it is not asked, which may be longer. */
  #read() {
    return (this.#calibration ??= this.#packed() ?? this.#calibrated());
  }

  /** What the file says of this destination, if it does. @returns {Destination | undefined} */
  #packed() {
    return this.layer.destinations.find(({ id }) => this.n === this.layer.n && id === this.token);
  }

  /** Denominators of all heads and the LayerNorm-2 scale from the calibration text, cut here. */
  #calibrated() {
    const { layer, n, token } = this;
    if (layer.calibration.ids.length < n)
      throw new RangeError(`position ${n} lies behind the calibration text`);
    const ids = [...layer.calibration.ids.slice(0, n), token];
    const contents = this.contents(layer.stream(ids, n, "here"), layer.everyHead);
    const denominators = contents.map((row, h) => dotProduct(this.kernels[h], 0, row, 0, n + 1));
    return { denominators, scale: layer.attend(layer.stream(ids, n, "exact"), ids).scale };
  }

  /** content_h of every source of a stream `here`, one row for each of these heads.
   *  @param {Float64Array} x @param {number[]} heads */
  contents(x, heads) {
    const { d } = this.layer;
    const asked = new Float64Array(heads.length * d);
    heads.forEach((h, k) => asked.set(this.asked.subarray(h * d, (h + 1) * d), k * d));
    const scores = rowProducts(asked, x, d, new Float64Array((heads.length * x.length) / d));
    return equalParts(scores.map(Math.exp), heads.length);
  }

  /** The kernel that these heads share. @param {number[]} heads */
  kernelOf(heads) {
    const known = this.#shared.get(String(heads));
    const kernel = known ?? sharedKernel(heads.map((h) => this.kernels[h]));
    this.#shared.set(String(heads), kernel);
    return kernel;
  }

  // -------------------------------------------------------------- tokens

  /** log content_h(t) of the vocabulary, in nats; head after head. @returns {Float64Array[]} */
  contentScores() {
    return (this.#content ??= this.#scored());
  }

  #scored() {
    const { nHeads, nVocab } = this.layer;
    const out = new Float64Array(nVocab * nHeads);
    doneAtOnce(this.layer.ofTokens(everyToken(nVocab), this.n, this.asked, out));
    return equalParts(columnMajor(out, nHeads), nHeads);
  }

  /** content_h(t) / denom_h of the vocabulary: a token's weight in a head, per unit of kernel.
   *  @param {number} head @returns {Float64Array} */
  tokenWeights(head) {
    wholeBelow(head, this.layer.nHeads, "head");
    return this.contentScores()[head].map((score) => Math.exp(score) / this.denominators[head]);
  }

  /** content_h(t) / denom_h (LN(W_E[t] + W_pos[n]) W_V + b_V): what each token of the vocabulary
   *  puts into a head, per unit of kernel; token after token.
   *  @param {number} head @returns {Float64Array} */
  weightedValues(head) {
    const { dHead, nVocab } = this.layer;
    const weights = this.tokenWeights(head);
    const out = new Float64Array(nVocab * dHead);
    doneAtOnce(this.layer.values(everyToken(nVocab), this.n, head, out));
    return out.map((value, i) => value * weights[Math.floor(i / dHead)]);
  }

  /** From a stream to one neuron through each head: W_V W_O W_in[:, j] / s, and b_V by the way.
   *  @param {number} neuron @param {number[]} heads */
  paths(neuron, heads) {
    const { layer } = this;
    const { d, dHead } = layer;
    wholeBelow(neuron, layer.nNeurons, "neuron");
    const input = new Float64Array(d).map((_, k) => layer.W_in[k * layer.nNeurons + neuron]);
    const directions = new Float64Array(heads.length * d);
    const biases = heads.map((h, i) => {
      const z = new Float64Array(dHead).map(
        (_, k) => dotProduct(input, 0, layer.W_O, (h * dHead + k) * d, d) / this.scale,
      );
      for (let k = 0; k < d; k++)
        directions[i * d + k] = dotProduct(z, 0, layer.W_V, (h * d + k) * dHead, dHead);
      return dotProduct(z, 0, layer.b_V, h * dHead, dHead);
    });
    return { directions, biases };
  }

  /** What each token of the vocabulary adds to a neuron's pre-activation, per unit of kernel.
   *  @param {number} neuron @param {number[]} heads @returns {Float64Array} */
  contribution(neuron, heads) {
    const { layer } = this;
    const chosen = layer.heads(heads);
    const { directions, biases } = this.paths(neuron, chosen);
    const through = new Float64Array(layer.nVocab * chosen.length);
    doneAtOnce(layer.ofTokens(everyToken(layer.nVocab), this.n, directions, through));
    const out = new Float64Array(layer.nVocab);
    chosen.forEach((head, i) => {
      const weights = this.tokenWeights(head);
      for (let t = 0; t < out.length; t++)
        out[t] += weights[t] * (through[t * chosen.length + i] + biases[i]);
    });
    return out;
  }

  /** What one token adds to every neuron's pre-activation, per unit of kernel.
   *  @param {number} token @param {number[]} heads @returns {Float64Array} */
  driven(token, heads) {
    const { layer } = this;
    const x = layer.stream([wholeBelow(token, layer.nVocab, "token")], this.n, "here");
    const chosen = layer.heads(heads);
    const contents = this.contents(x, chosen);
    const written = new Float64Array(layer.d);
    chosen.forEach((head, k) => {
      const weight = contents[k][0] / this.denominators[head];
      layer.write(
        written,
        head,
        layer.inside(head, x, 1).map((z) => z * weight),
      );
    });
    return layer.read(written, this.scale);
  }

  // -------------------------------------------------------------- texts

  /** This circuit, or for a shorter text the one whose destination is its last token.
   *  @param {Numbers} ids @returns {Circuit} */
  for(ids) {
    if (!ids.length) throw new RangeError("no tokens: a text has at least one");
    if (ids.length > this.n) return this;
    return this.layer.circuit({ n: ids.length - 1, token: this.token });
  }

  /** What is read of a text, up to n or its last token, with the destination token there: what a
   *  passage is compared by is what stands before it.
   *  @param {Numbers} ids @returns {Int32Array} */
  placed(ids) {
    const read = Int32Array.from(ids).slice(0, this.n + 1);
    read[read.length - 1] = this.token;
    return read;
  }

  /** A text up to n, or to its last token if that comes first. @param {Numbers} ids */
  read(ids) {
    return new Prefix(this.for(ids), ids);
  }

  /** The paper's circuit of a text for every neuron. @param {Numbers} ids @param {number[]} heads */
  summary(ids, heads) {
    return this.read(ids).summary(heads);
  }

  /** The terms of the summary for one neuron, one a source.
   *  @param {Numbers} ids @param {number[]} heads @param {number} neuron */
  bySource(ids, heads, neuron) {
    return this.read(ids).terms(heads, neuron);
  }

  /** The self-normalised circuit of a text. @param {Numbers} ids @param {number[]} heads */
  selfNormalised(ids, heads) {
    return this.read(ids).selfNormalised(heads);
  }

  /** `layer.byDomain` here.
   *  @param {number[]} heads @param {boolean} placed @param {AbortSignal} [signal]
   *  @param {(share: number) => void} [onProgress] @returns {Promise<Responses>} */
  async responses(heads, placed, signal, onProgress = () => {}) {
    const chosen = this.layer.heads(heads);
    const key = `${chosen} ${placed}`;
    const known = this.#responses.get(key);
    if (known) return known;
    const { d, passages, nNeurons } = this.layer;
    const scaled = new Float64Array(passages.length * d);
    let done = 0;
    const work = this.#readPassages(chosen, placed, scaled, () => (done += 1));
    await doneInSlices(work, signal, () => onProgress(done / passages.length));
    const values = new Float64Array(passages.length * nNeurons);
    const some = TOKENS_AT_ONCE / 8;
    await doneInSlices(readOut(this.layer, scaled, values, some), signal);
    onProgress(1);
    const responses = new Responses(this.layer, values);
    this.#responses.set(key, responses);
    return responses;
  }

  /** @param {number[]} heads @param {boolean} placed @param {Float64Array} scaled what is written,
   *  over LayerNorm 2's scale, passage after passage @param {() => void} onEach */
  *#readPassages(heads, placed, scaled, onEach) {
    const { d, passages } = this.layer;
    for (const [i, { ids }] of passages.entries()) {
      const read = this.read(placed ? this.placed(ids) : ids);
      addScaled(scaled, i * d, 1 / read.circuit.scale, read.written(heads), 0, d);
      onEach();
      yield;
    }
  }

  // -------------------------------------------------------------- which neurons

  /** Whether `top` is fast for these heads. @param {number[]} heads @returns {boolean} */
  prepared(heads) {
    const ranking = this.layer.ranking(this.n);
    return Boolean(this.#weights && this.#means) && heads.every((h) => ranking.head(h).share === 1);
  }

  /** Does beforehand what makes `top` slow, a few milliseconds at a time: for a head and n once, and
   *  a little for a token. What is done stays done when a signal ends it.
   *  @param {number[]} heads
   *  @param {{onProgress?: (share: number) => void, signal?: AbortSignal}} [options] */
  async prepare(heads, { onProgress = () => {}, signal } = {}) {
    const chosen = this.layer.heads(heads);
    const ranking = this.layer.ranking(this.n);
    const tables = chosen.map((head) => ranking.head(head));
    const tell = () => onProgress(tables.reduce((sum, t) => sum + t.share, 0) / tables.length);
    for (const table of tables) await doneInSlices(table.fill(), signal, tell);
    await doneInSlices(this.weigh(), signal);
    onProgress(1);
  }

  /** The ranking of `cx.find_neurons`: for every neuron the mean of its largest contributions less
   *  the mean over tokens, glitch tokens left out; which tokens those are, and which are smallest.
   *  @param {number[]} heads @returns {Ranked} */
  top(heads) {
    const chosen = this.layer.heads(heads);
    doneAtOnce(this.weigh());
    return this.layer.ranking(this.n).of(this, chosen);
  }

  /** The same where a page has to stay alive meanwhile.
   *  @param {number[]} heads @param {AbortSignal} signal @returns {Promise<Ranked>} */
  async topInSlices(heads, signal) {
    const chosen = this.layer.heads(heads);
    await doneInSlices(this.weigh(), signal);
    await doneInSlices(this.layer.ranking(this.n).making(this, chosen), signal);
    return this.top(chosen);
  }

  /** What a ranking needs of this circuit: `rankedWeights` and `meanValues`. */
  *weigh() {
    this.#means ??= this.#packedMeans() ?? (yield* this.#averaged());
    this.#weights ??= yield* this.#weighed();
  }

  /** content_h(t) / (denom_h s) of the ranked tokens. @param {number} head */
  rankedWeights(head) {
    return /** @type {Float64Array[]} */ (this.#weights)[head];
  }

  /** What the average counted token puts into a head, per unit of kernel. @param {number} head */
  meanValues(head) {
    return /** @type {Float64Array[]} */ (this.#means)[head];
  }

  *#weighed() {
    const { layer, scale } = this;
    const out = new Float64Array(layer.ranked.length * layer.nHeads);
    yield* layer.ofTokens(layer.ranked, this.n, this.asked, out);
    const scores = equalParts(columnMajor(out, layer.nHeads), layer.nHeads);
    return scores.map((row, h) =>
      row.map((score) => Math.exp(score) / this.denominators[h] / scale),
    );
  }

  #packedMeans() {
    const { destinations, means, nHeads } = this.layer;
    const known = this.#packed();
    if (!known) return undefined;
    return equalParts(equalParts(means, destinations.length)[destinations.indexOf(known)], nHeads);
  }

  /** The means of a destination that the file says nothing about. */
  *#averaged() {
    const { layer, n } = this;
    const { counted, d, nHeads } = layer;
    const seen = equalParts(new Float64Array(nHeads * d), nHeads);
    const mass = new Float64Array(nHeads);
    for (let from = 0; from < counted.length; from += TOKENS_AT_ONCE) {
      const x = layer.stream(counted.subarray(from, from + TOKENS_AT_ONCE), n, "here");
      this.contents(x, layer.everyHead).forEach((row, h) => {
        row.forEach((content, i) => addScaled(seen[h], 0, content, x, i * d, d));
        mass[h] += row.reduce((a, b) => a + b);
      });
      yield;
    }
    return seen.map((sum, h) => {
      const share = 1 / (this.denominators[h] * counted.length);
      return layer.inside(h, sum, mass[h]).map((z) => z * share);
    });
  }
}

/** @param {number} size @returns {Int32Array} */
function everyToken(size) {
  return Int32Array.from({ length: size }, (_, id) => id);
}

/** rows W_in, a few rows at a time.
 *  @param {Layer} layer @param {Float64Array} rows @param {Float64Array} out @param {number} some */
function* readOut({ d, inputs, nNeurons }, rows, out, some) {
  for (let from = 0; from * d < rows.length; from += some) {
    const part = rows.subarray(from * d, (from + some) * d);
    rowProducts(part, inputs, d, out.subarray(from * nNeurons));
    yield;
  }
}

/** The paper's circuit on every labelled passage, for all neurons. */
export class Responses {
  /** @param {Layer} layer @param {Float64Array} values */
  constructor(layer, values) {
    this.layer = layer;
    /** Passage after passage. */
    this.values = values;
  }

  /** One neuron's, domain by domain in the passages' order. @param {number} neuron
   *  @returns {DomainResponse[]} */
  of(neuron) {
    const { nNeurons, passages } = this.layer;
    wholeBelow(neuron, nNeurons, "neuron");
    /** @type {Map<string, DomainResponse>} */
    const found = new Map();
    passages.forEach(({ domain }, i) => {
      const entry = found.get(domain) ?? { domain, mean: 0, values: [], passages: [] };
      entry.values.push(this.values[i * nNeurons + neuron]);
      entry.passages.push(i);
      found.set(domain, entry);
    });
    for (const entry of found.values())
      entry.mean = entry.values.reduce((a, b) => a + b) / entry.values.length;
    return [...found.values()];
  }
}
