/** The first layer of a model with learned positions, from its weights: every destination, by Equation
 *  1 (ctxlib.decompose.LayerNormDecomposition). In Python a text that is shorter than n + 1 tokens is that of
 *  `cx.fix_query(weights, n=len(text) - 1)`. */

import { Layer } from "./layer.js";
import { addScaled, columnMajor, dotProduct } from "./linalg.js";
import { equalParts, rowProducts, softmaxInPlace } from "./linalg.js";
import { NEURONS_AT_ONCE, TOKENS_AT_ONCE } from "./slices.js";

/** A layer's weights, folded and centred. A page that has a folder of parts opens with what kernels and a
 *  few tokens need; the other tokens, and the neurons' weights, are fetched when they are needed. */
export class LearnedLayer extends Layer {
  /** @type {Float64Array | undefined} W_in, neuron after neuron */ #inputs;
  /** @type {Float64Array | undefined} b_in */ #biases;
  /** @type {Map<string, Promise<void>>} parts */ #coming = new Map();
  #report = (/** @type {number} */ _) => {}; // how far they are, to whoever waits
  #left; // tokens that are not here yet
  /** @type {Map<string, Float64Array>} by head and block */ #readouts = new Map();

  /** @param {LayerHeader} header @param {Record<string, any>} tensors @param {FetchPart} [fetch] */
  constructor(header, tensors, fetch) {
    super(header, tensors, fetch);
    this.finer = header.finer;
    this.C = header.C;
    this.attnScale = header.attn_scale;
    this.activation = ACTIVATIONS[header.act_fn ?? ""];
    /** @type {Float64Array} */ this.W_pos = tensors.W_pos;
    /** @type {Float64Array} */ this.W_Q = tensors.W_Q;
    /** @type {Float64Array} */ this.W_K = tensors.W_K;
    /** @type {Float64Array} */ this.W_V = tensors.W_V;
    /** @type {Float64Array} */ this.b_Q = tensors.b_Q;
    /** @type {Float64Array} */ this.b_V = tensors.b_V;
    /** @type {Float64Array} */ this.b_O = tensors.b_O;
    /** W_E in levels of W_E_step, of which there is one a token; none of one that is not here. */
    this.W_E = new Int16Array(this.nVocab * this.d);
    this.W_E_step = new Float64Array(this.nVocab).fill(NaN);
    this.#left = this.nVocab;
    this.#takeTokens(tensors);
    if (tensors.W_in) this.#takeNeurons(tensors);
    this.sharedScale = this.#scales(this.C);
  }

  // -------------------------------------------------------------- parts

  /** Tokens: int8 levels around each column's middle and, of usual ones, what their rounding left, put
   *  together. @param {Record<string, any>} tensors */
  #takeTokens({ here, W_E, W_E_step, middle, W_E_fine, fine }) {
    const { d, finer } = this;
    let row = 0;
    for (let id = 0; id < this.nVocab; id++) {
      if (!here[id]) continue;
      this.W_E_step[id] = W_E_step[row] / finer;
      for (let k = 0; k < d; k++)
        this.W_E[id * d + k] = finer * (((W_E[row * d + k] + middle[k]) << 24) >> 24); // as an int8
      row += 1;
    }
    for (let r = 0; r < fine.length; r++)
      for (let k = 0; k < d; k++) this.W_E[fine[r] * d + k] += W_E_fine[r * d + k];
    this.#left -= row;
  }

  /** The weights on the way to the neurons. @param {Record<string, any>} tensors */
  #takeNeurons({ W_in, W_V, W_O, b_V, b_O, b_in, means, ...tensors }) {
    Object.assign(this, { W_V, W_O, b_V, b_O, means });
    this.#biases = b_in;
    this.takeRanking(tensors);
    this.#inputs = columnMajor(W_in, this.nNeurons);
  }

  get waits() {
    return !this.#inputs || this.#left > 0;
  }

  /** The parts that have still to be fetched for these heads and tokens (`bring`).
   *  @param {Numbers} heads @param {Numbers} ids */
  lacks(heads, ids) {
    const rare = this.#left > 0 && Array.from(ids).some((id) => Number.isNaN(this.W_E_step[id]));
    return [...(heads.length && !this.#inputs ? ["neurons"] : []), ...(rare ? ["tokens"] : [])];
  }

  /** A part has come. @param {string} part @param {Record<string, any>} tensors */
  take(part, tensors) {
    if (part === "tokens") this.#takeTokens(tensors);
    else this.#takeNeurons(tensors);
  }

  /** A part that is requested comes, whoever stops waiting: every text will need it. @param {string[]} parts
   *  @param {{onProgress?: (share: number) => void, signal?: AbortSignal}} [options] */
  async bring(parts, { onProgress = () => {}, signal } = {}) {
    const ended = new Promise((_, fail) =>
      signal?.addEventListener("abort", () => fail(signal.reason)),
    );
    this.#report = onProgress;
    for (const part of parts) {
      const all = { onProgress: (/** @type {number} */ share) => this.#report(share) };
      const coming = this.#coming.get(part) ?? super.bring([part], all);
      this.#coming.set(part, coming);
      coming.catch(() => this.#coming.delete(part)); // it can be requested again
      await Promise.race([coming, ended]);
    }
  }

  // -------------------------------------------------------------- the split

  /** @param {number} n @param {number} token @returns {Split} */
  split(n, token) {
    return equation1(this, n, token);
  }

  /** W_O W_in of one head, for the neurons of one block of NEURONS_AT_ONCE; neuron after neuron.
   *  @param {number} head @param {number} block */
  readout(head, block) {
    const key = `${head} ${block}`;
    const cached = this.#readouts.get(key);
    if (cached) return cached;
    const { d, dHead, W_O } = this;
    if (!this.#inputs) throw new RangeError("the layer’s neurons are not here yet");
    const size = NEURONS_AT_ONCE * d;
    const some = this.#inputs.subarray(block * size, (block + 1) * size);
    const out = W_O.subarray(head * dHead * d, (head + 1) * dHead * d);
    const made = rowProducts(some, out, d, new Float64Array((some.length / d) * dHead));
    this.#readouts.set(key, made);
    return made;
  }

  /** A function that gives z W_O W_in of one head, for a neuron.
   *  @param {number} head @param {Float64Array} z @returns {(neuron: number) => number} */
  readoutAlong(head, z) {
    let read = -1;
    /** @type {Float64Array} */ let rows;
    return (neuron) => {
      const block = Math.floor(neuron / NEURONS_AT_ONCE);
      if (block !== read) [read, rows] = [block, this.readout(head, block)];
      return dotProduct(rows, (neuron % NEURONS_AT_ONCE) * this.dHead, z, 0, this.dHead);
    };
  }

  /** W_O W_in of one head for one neuron. @param {number} head @param {number} neuron */
  readoutOf(head, neuron) {
    const at = (neuron % NEURONS_AT_ONCE) * this.dHead;
    const block = Math.floor(neuron / NEURONS_AT_ONCE);
    return this.readout(head, block).subarray(at, at + this.dHead);
  }

  /** LayerNorm's scale at every position for a token of norm C. @param {number} C */
  #scales(C) {
    const { d, W_pos } = this;
    return new Float64Array(this.positions).map((_, i) =>
      Math.sqrt((dotProduct(W_pos, i * d, W_pos, i * d, d) + C ** 2) / d),
    );
  }

  // -------------------------------------------------------------- rows and kernels

  /** Every head's exact attention row at position n of a text, over the sources 0 ... n.
   *  @param {Numbers} ids @param {number} [n] the last token @returns {Float64Array[]} */
  attentionRows(ids, n = Math.min(ids.length, this.positions) - 1) {
    return this.rows(this.stream(this.text(ids, n), n, "exact"));
  }

  /** The rows that Equation 1 gives in their place. @param {Numbers} ids @param {number} [n] the last token
   *  @param {number} [C] the norm that a token embedding is taken to have @returns {Float64Array[]} */
  rebuiltRows(ids, n = Math.min(ids.length, this.positions) - 1, C = this.C) {
    if (!(C > 0)) throw new RangeError(`C = ${C}: the norm of an embedding is a positive number`);
    const scales = C === this.C ? this.sharedScale : this.#scales(C);
    return this.rows(this.stream(this.text(ids, n), n, "split", scales));
  }

  // -------------------------------------------------------------- the pieces

  /** The residual stream as heads read it, source after source: LN(W_E[x_i] + W_pos[i]) for
   *  `exact`; for `here`, with W_pos[n] at every source; for `split`, that plus what a position
   *  adds by Equation 1: (W_pos[i] - W_pos[n]) / scales[i].
   *  @param {Numbers} ids @param {number} n @param {"exact" | "here" | "split"} kind
   *  @param {Float64Array} [scales] */
  stream(ids, n, kind, scales = this.sharedScale) {
    const { d, W_E, W_pos } = this;
    const out = new Float64Array(ids.length * d);
    for (let i = 0, at = 0; i < ids.length; i++, at += d) {
      const token = ids[i] * d;
      const step = this.W_E_step[ids[i]];
      if (Number.isNaN(step)) throw new RangeError(`token ${ids[i]} is not here yet`);
      const place = kind === "exact" ? i * d : n * d;
      let squared = 0;
      for (let k = 0; k < d; k++) {
        const x = W_E[token + k] * step + W_pos[place + k];
        squared += x * x;
        out[at + k] = x;
      }
      const inverse = 1 / Math.sqrt(squared / d + this.eps);
      for (let k = 0; k < d; k++) out[at + k] *= inverse;
      if (kind !== "split") continue;
      addScaled(out, at, 1 / scales[i], W_pos, i * d, d);
      addScaled(out, at, -1 / scales[i], W_pos, n * d, d);
    }
    return out;
  }

  /** W_K q / attn_scale of every head: the direction along which a stream is scored. With it no key
   *  need ever be formed, which saves a factor of d_head. @param {Float64Array} x one source */
  qkDirection(x) {
    const { d, dHead, nHeads } = this;
    const out = new Float64Array(nHeads * d);
    for (let h = 0; h < nHeads; h++) {
      const q = this.b_Q.slice(h * dHead, (h + 1) * dHead);
      for (let k = 0; k < d; k++) addScaled(q, 0, x[k], this.W_Q, (h * d + k) * dHead, dHead);
      for (let k = 0; k < d; k++)
        out[h * d + k] = dotProduct(q, 0, this.W_K, (h * d + k) * dHead, dHead) / this.attnScale;
    }
    return out;
  }

  /** Every head's attention row over a stream whose last source is the destination. @param {Float64Array} x */
  rows(x) {
    const { d, nHeads } = this;
    const qkDirection = this.qkDirection(x.subarray(x.length - d));
    const scores = rowProducts(qkDirection, x, d, new Float64Array((nHeads * x.length) / d));
    return equalParts(scores, nHeads).map(softmaxInPlace);
  }

  /** seen W_V + mass b_V, inside one head. @param {number} head @param {Float64Array} seen
   *  @param {number} mass */
  inside(head, seen, mass) {
    const { d, dHead } = this;
    const z = this.b_V.slice(head * dHead, (head + 1) * dHead).map((b) => b * mass);
    for (let k = 0; k < d; k++) addScaled(z, 0, seen[k], this.W_V, (head * d + k) * dHead, dHead);
    return z;
  }

  /** From a stream to a direction inside each head: W_V z, and b_V z by the way.
   *  @param {number[]} heads @param {Float64Array[]} inner */
  outwards(heads, inner) {
    const { d, dHead } = this;
    const directions = new Float64Array(heads.length * d);
    const biases = heads.map((h, i) => {
      for (let k = 0; k < d; k++)
        directions[i * d + k] = dotProduct(inner[i], 0, this.W_V, (h * d + k) * dHead, dHead);
      return dotProduct(inner[i], 0, this.b_V, h * dHead, dHead);
    });
    return { directions, biases };
  }

  /** @param {Numbers} ids @returns {Attended} */
  exact(ids) {
    return this.attend(this.stream(ids, ids.length - 1, "exact"), ids);
  }

  /** What each head puts together and the LayerNorm-2 scale behind all of them, with the attention of
   *  a stream, at its last source. @param {Float64Array} x @param {Numbers} ids */
  attend(x, ids) {
    const { d, W_pos, W_E, b_O } = this;
    const n = ids.length - 1;
    const step = this.W_E_step[ids[n]];
    const beside = b_O.map((b, k) => W_E[ids[n] * d + k] * step + W_pos[n * d + k] + b);
    const stream = beside.slice();
    const inside = this.rows(x).map((row, head) => {
      const seen = new Float64Array(d);
      row.forEach((weight, i) => addScaled(seen, 0, weight, x, i * d, d));
      const z = this.inside(head, seen, 1);
      this.write(stream, head, z);
      return z;
    });
    const squared = dotProduct(stream, 0, stream, 0, d);
    return { inside, scale: Math.sqrt(squared / d + this.eps), beside, stream };
  }

  /** All that a neuron reads where these heads are the chosen ones, and its output.
   *  @param {number} neuron @param {number[]} heads @param {Attended} attended what these put together
   *  @returns {Whole | null} null where its weights are not here */
  wholeNeuron(neuron, heads, { inside, scale, beside, stream }) {
    if (!this.#inputs || !this.#biases || !this.activation || !beside || !stream) return null;
    const { d, dHead } = this;
    const [weights, bias] = [this.#inputs.subarray(neuron * d), this.#biases[neuron]];
    const [own, all] = [beside, stream].map((x) => dotProduct(x, 0, weights, 0, d) / scale);
    let chosen = 0;
    for (const [k, head] of heads.entries())
      chosen += dotProduct(this.readoutOf(head, neuron), 0, inside[k], 0, dHead) / scale;
    const pre = all + bias;
    return { chosen, others: all - own - chosen, own, bias, pre, post: this.activation(pre) };
  }

  /** x B for the stream x of tokens that all stand at n, token after token, a few at a time: for a
   *  large vocabulary the stream itself would not fit.
   *  @param {Numbers} ids @param {number} n @param {Float64Array} B column after column
   *  @param {Float64Array} out */
  *ofTokens(ids, n, B, out) {
    const columns = B.length / this.d;
    for (let from = 0; from < ids.length; from += TOKENS_AT_ONCE) {
      const some = Array.prototype.slice.call(ids, from, from + TOKENS_AT_ONCE);
      rowProducts(this.stream(some, n, "here"), B, this.d, out.subarray(from * columns));
      yield;
    }
  }

  /** LN(W_E[t] + W_pos[n]) W_V + b_V of one head, token after token.
   *  @param {Numbers} ids @param {number} n @param {number} head @param {Float64Array} out */
  *values(ids, n, head, out) {
    const { d, dHead } = this;
    const W_V = this.W_V.subarray(head * d * dHead, (head + 1) * d * dHead);
    yield* this.ofTokens(ids, n, columnMajor(W_V, dHead), out);
    for (let i = 0; i < out.length; i++) out[i] += this.b_V[head * dHead + (i % dHead)];
  }
}

/** Activation functions, by the names that models' configurations have for them.
 *  @type {Record<string, (x: number) => number>} */
const ACTIVATIONS = {
  gelu_new: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x) => Math.max(x, 0),
};

/** The split at n where `token` stands.
 *  @param {LearnedLayer} layer @param {number} n @param {number} token @returns {Split} */
function equation1(layer, n, token) {
  const { d, nHeads } = layer;
  const qkDirection = layer.qkDirection(layer.stream([token], n, "here"));
  const shift = new Float64Array((n + 1) * d);
  for (let i = 0; i <= n; i++) {
    addScaled(shift, i * d, 1 / layer.sharedScale[i], layer.W_pos, i * d, d);
    addScaled(shift, i * d, -1 / layer.sharedScale[i], layer.W_pos, n * d, d);
  }
  const scores = rowProducts(qkDirection, shift, d, new Float64Array(nHeads * (n + 1)));
  const kernels = equalParts(scores, nHeads).map(softmaxInPlace);
  const seen = (/** @type {Numbers} */ ids) => seenStream(layer, n, qkDirection, ids);
  return {
    reach: n + 1,
    kernels,
    seen,
    calibrated() {
      if (layer.calibration.ids.length < n)
        throw new RangeError(`position ${n} lies behind the calibration text`);
      const ids = [...layer.calibration.ids.slice(0, n), token];
      const contents = seen(ids).contents(layer.everyHead);
      const denominators = contents.map((row, h) => dotProduct(kernels[h], 0, row, 0, n + 1));
      return { denominators, scale: layer.exact(ids).scale };
    },
    scores: (ids, out) => layer.ofTokens(ids, n, qkDirection, out),
    *through(ids, heads, inner, out) {
      const { directions, biases } = layer.outwards(heads, inner);
      yield* layer.ofTokens(ids, n, directions, out);
      for (let i = 0; i < out.length; i++) out[i] += biases[i % heads.length];
    },
  };
}

/** A text as a residual stream in which every token stands at n.
 *  @param {LearnedLayer} layer @param {number} n @param {Float64Array} qkDirection W_K q_n / attn_scale, head
 *  after head @param {Numbers} ids @returns {Seen} */
function seenStream(layer, n, qkDirection, ids) {
  const { d } = layer;
  const x = layer.stream(ids, n, "here");
  return {
    contents(heads) {
      const some = new Float64Array(heads.length * d);
      heads.forEach((h, k) => some.set(qkDirection.subarray(h * d, (h + 1) * d), k * d));
      const out = new Float64Array((heads.length * x.length) / d);
      return equalParts(rowProducts(some, x, d, out).map(Math.exp), heads.length);
    },
    inside(head, weights) {
      const seen = new Float64Array(d);
      let mass = 0;
      for (let i = 0; i < weights.length; i++) {
        addScaled(seen, 0, weights[i], x, i * d, d);
        mass += weights[i];
      }
      return layer.inside(head, seen, mass);
    },
    along(heads, inner) {
      const { directions, biases } = layer.outwards(heads, inner);
      return (i, k) => dotProduct(x, i * d, directions, k * d, d) + biases[k];
    },
    own: () => layer.attend(layer.stream(ids, n, "split"), ids),
  };
}
