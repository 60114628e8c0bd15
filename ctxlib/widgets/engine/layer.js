/** A model's first layer, computed in the page: ctxlib's numbers, for any heads, any threshold and any
 *  text.
 *
 *  `layer.circuit(...)` is a destination n with a token there; everything a page shows is asked of it.
 *  Where a text is shorter than n + 1 tokens, the destination moves to its last token and all that
 *  depends on n (kernels, contents, values, denominators, LayerNorm-2 scale) is computed there: in
 *  Python `ContextualCircuit.calibrate(..., n=len(text) - 1)`.
 *
 *  Names as in the book's notation. Matrices lie in Float64Arrays, row after row: in Python's order
 *  unless a comment says another. float64, because V8 multiplies numbers of that kind thrice as fast
 *  as float32, which it converts each time. */

import { Circuit } from "./circuit.js";
import { Kept } from "./kept.js";
import {
  addScaled,
  columnMajor,
  dotProduct,
  equalParts,
  rowProducts,
  softmaxInPlace,
  wholeBelow,
} from "./linalg.js";
import { Ranking, TOKENS_AT_ONCE } from "./ranking.js";

/** @typedef {import("./circuit.js").Responses} Responses
 *  @typedef {import("./linalg.js").Numbers} Numbers
 *  @typedef {import("./packed.js").LayerHeader} LayerHeader
 *  @typedef {{name: string, domain: string, title: string, ids: Int32Array}} Passage */

const KEPT_CIRCUITS = 4; // at other destinations: a reader types forth and back

/** A layer's weights, folded and centred, and what stays the same for every destination. */
export class Layer {
  /** @type {Kept<Circuit>} */ #circuits = new Kept(KEPT_CIRCUITS);
  /** @type {Ranking | null} */ #ranking = null;
  /** @type {Float64Array | undefined} */ #inputs;

  /** @param {LayerHeader} header @param {Record<string, any>} tensors */
  constructor(header, tensors) {
    this.model = header.model;
    this.d = header.d_model;
    this.dHead = header.d_head;
    this.nHeads = header.heads;
    this.nNeurons = header.neurons;
    this.nVocab = header.vocab_size;
    this.positions = header.positions; // texts are read up to here
    this.n = header.n; // where the packed denominators were taken
    this.C = header.C;
    this.eps = header.eps;
    this.attnScale = header.attn_scale;
    this.bos = header.bos; // the first token of every text
    this.largest = header.largest; // how many tokens `top` averages over
    this.stable = header.stable;
    this.destinations = header.destinations; // the usual one first
    this.calibration = header.calibration;
    this.families = header.families; // one a head, at n
    this.vocab = header.vocab; // as the tokenizer spells it, "" for unused ids
    this.byteLevel = header.byte_level; // whether `Tokenizer` can read text for this model
    /** @type {Float64Array} */ this.W_pos = tensors.W_pos;
    /** @type {Float64Array} */ this.W_Q = tensors.W_Q;
    /** @type {Float64Array} */ this.W_K = tensors.W_K;
    /** @type {Float64Array} */ this.W_V = tensors.W_V;
    /** @type {Float64Array} */ this.W_O = tensors.W_O;
    /** @type {Float64Array} */ this.W_in = tensors.W_in;
    /** @type {Float64Array} */ this.b_Q = tensors.b_Q;
    /** @type {Float64Array} */ this.b_V = tensors.b_V;
    /** @type {Float64Array} */ this.b_O = tensors.b_O;
    /** Of the average counted token, for every packed destination: `Circuit.meanValues`.
     *  @type {Float64Array} */
    this.means = tensors.means;
    /** W_E in levels of W_E_step, of which there is one a token. */
    this.W_E = embeddingLevels(tensors, this.d, header.finer);
    /** @type {Float64Array} */ this.W_E_step = tensors.W_E_step;
    this.W_E_step.forEach((step, t) => (this.W_E_step[t] = step / header.finer));
    this.merges = this.#spelt(tensors.merges);
    this.passages = labelled(header.passages, tensors);
    const untrained = new Set(header.untrained);
    /** Tokens that a ranking counts: all but glitch tokens. */
    this.counted = Int32Array.from(this.vocab.keys()).filter((id) => !untrained.has(id));
    /** Those of them that it looks at: of a large vocabulary the ones that can matter. */
    this.ranked = this.counted.filter((id) => tensors.ranked[id]);
    this.everyNeuron = Int32Array.from({ length: this.nNeurons }, (_, neuron) => neuron);
    this.everyHead = Array.from({ length: this.nHeads }, (_, head) => head);
    this.sharedScale = this.#scales(this.C);
  }

  /** Merges as `Tokenizer` takes them. @param {Numbers} pairs @returns {[string, string][]} */
  #spelt(pairs) {
    return Array.from({ length: pairs.length / 2 }, (_, i) => [
      this.vocab[pairs[2 * i]],
      this.vocab[pairs[2 * i + 1]],
    ]);
  }

  /** LayerNorm's scale at every position for a token of norm C. @param {number} C */
  #scales(C) {
    const { d, W_pos } = this;
    return new Float64Array(this.positions).map((_, i) =>
      Math.sqrt((dotProduct(W_pos, i * d, W_pos, i * d, d) + C ** 2) / d),
    );
  }

  /** The circuit at a destination. @param {{n?: number, token?: number}} [place] @returns {Circuit} */
  circuit({ n = this.n, token = this.destinations[0].id } = {}) {
    wholeBelow(n, this.positions, "position");
    wholeBelow(token, this.nVocab, "token");
    return this.#circuits.get([n, token], () => new Circuit(this, n, token));
  }

  /** What `top` works with at a destination; of one destination at a time, since it is large.
   *  @param {number} n @returns {Ranking} */
  ranking(n) {
    if (this.#ranking?.n !== n) this.#ranking = new Ranking(this, n);
    return this.#ranking;
  }

  // -------------------------------------------------------------- rows and kernels

  /** Exact attention row of a head at position n of a text, over the sources 0 ... n.
   *  @param {number} head @param {Numbers} ids @param {number} [n] the last token
   *  @returns {Float64Array} */
  attentionRow(head, ids, n = Math.min(ids.length, this.positions) - 1) {
    return this.attentionRows(ids, n)[wholeBelow(head, this.nHeads, "head")];
  }

  /** Every head's. @param {Numbers} ids @param {number} [n] @returns {Float64Array[]} */
  attentionRows(ids, n = Math.min(ids.length, this.positions) - 1) {
    return this.rows(this.stream(this.text(ids, n), n, "exact"));
  }

  /** The row that Equation 1 gives in its place.
   *  @param {number} head @param {Numbers} ids @param {number} [n] the last token
   *  @param {number} [C] the norm that a token embedding is taken to have
   *  @returns {Float64Array} */
  rebuiltRow(head, ids, n = Math.min(ids.length, this.positions) - 1, C = this.C) {
    return this.rebuiltRows(ids, n, C)[wholeBelow(head, this.nHeads, "head")];
  }

  /** Every head's. @param {Numbers} ids @param {number} [n] @param {number} [C]
   *  @returns {Float64Array[]} */
  rebuiltRows(ids, n = Math.min(ids.length, this.positions) - 1, C = this.C) {
    if (!(C > 0)) throw new RangeError(`C = ${C}: the norm of an embedding is a positive number`);
    const scales = C === this.C ? this.sharedScale : this.#scales(C);
    return this.rows(this.stream(this.text(ids, n), n, "split", scales));
  }

  /** Positional kernels of all heads. @param {number} [n] @param {number} [token]
   *  @returns {Float64Array[]} one row a head over the sources 0 ... n */
  kernels(n, token) {
    return this.circuit({ n, token }).kernels;
  }

  // -------------------------------------------------------------- the labelled passages

  /** What the paper's circuit says of every labelled passage: of its own tokens, or with the
   *  destination token at the end of what is read (`Circuit.placed`).
   *  @param {number[]} heads
   *  @param {{n?: number, token?: number, placed?: boolean, signal?: AbortSignal,
   *    onProgress?: (share: number) => void}} [options]
   *  @returns {Promise<Responses>} */
  byDomain(heads, { n, token, placed = false, signal, onProgress } = {}) {
    return this.circuit({ n, token }).responses(heads, placed, signal, onProgress);
  }

  // -------------------------------------------------------------- the pieces

  /** The residual stream as heads read it, source after source: LN(W_E[x_i] + W_pos[i]) for
   *  `exact`; for `here`, with W_pos[n] at every source; for `split`, that plus what Equation 1
   *  says a position adds: (W_pos[i] - W_pos[n]) / scales[i].
   *  @param {Numbers} ids @param {number} n @param {"exact" | "here" | "split"} kind
   *  @param {Float64Array} [scales] */
  stream(ids, n, kind, scales = this.sharedScale) {
    const { d, W_E, W_pos } = this;
    const out = new Float64Array(ids.length * d);
    for (let i = 0, at = 0; i < ids.length; i++, at += d) {
      const token = ids[i] * d;
      const step = this.W_E_step[ids[i]];
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

  /** W_K q / attn_scale for every head: what the query asks of a stream. From a query's side no key
   *  need ever be formed, which saves a factor of d_head. @param {Float64Array} x one source */
  asked(x) {
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

  /** Every head's attention row over a stream whose last source is the destination.
   *  @param {Float64Array} x */
  rows(x) {
    const { d, nHeads } = this;
    const asked = this.asked(x.subarray(x.length - d));
    const scores = rowProducts(asked, x, d, new Float64Array((nHeads * x.length) / d));
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

  /** z W_O of one head, added to `into`.
   *  @param {Float64Array} into @param {number} head @param {Float64Array} z */
  write(into, head, z) {
    const { d, dHead } = this;
    for (let k = 0; k < dHead; k++) addScaled(into, 0, z[k], this.W_O, (head * dHead + k) * d, d);
  }

  /** What each head writes and the LayerNorm-2 scale behind all of them, with the attention of a
   *  stream, at its last source. @param {Float64Array} x @param {Numbers} ids */
  attend(x, ids) {
    const { d } = this;
    const written = this.rows(x).map((row, head) => {
      const [seen, out] = [new Float64Array(d), new Float64Array(d)];
      row.forEach((weight, i) => addScaled(seen, 0, weight, x, i * d, d));
      this.write(out, head, this.inside(head, seen, 1));
      return out;
    });
    const n = ids.length - 1;
    let squared = 0;
    for (let k = 0; k < d; k++) {
      const token = this.W_E[ids[n] * d + k] * this.W_E_step[ids[n]];
      const attended = written.reduce((sum, out) => sum + out[k], 0);
      squared += (token + this.W_pos[n * d + k] + this.b_O[k] + attended) ** 2;
    }
    return { written, scale: Math.sqrt(squared / d + this.eps) };
  }

  /** r W_in / scale @param {Float64Array} r @param {number} scale
   *  @returns {Float64Array} one number a neuron */
  read(r, scale) {
    const { d, nNeurons } = this;
    const out = new Float64Array(nNeurons);
    for (let k = 0; k < d; k++) addScaled(out, 0, r[k] / scale, this.W_in, k * nNeurons, nNeurons);
    return out;
  }

  /** W_in, neuron after neuron. */
  get inputs() {
    return (this.#inputs ??= columnMajor(this.W_in, this.nNeurons));
  }

  /** The tokens 0 ... n, if they are there and in the vocabulary.
   *  @param {Numbers} ids @param {number} n */
  text(ids, n) {
    if (!ids.length) throw new RangeError("no tokens: a text has at least one");
    wholeBelow(n, Math.min(ids.length, this.positions), "destination");
    const seen = Int32Array.from(ids).subarray(0, n + 1);
    for (let i = 0; i <= n; i++) wholeBelow(ids[i], this.nVocab, "token");
    return seen;
  }

  /** The heads in order, if there are any and each exists. @param {number[]} heads */
  heads(heads) {
    if (!heads.length) throw new RangeError("no heads: choose at least one");
    const chosen = [...new Set(heads)].map((head) => wholeBelow(head, this.nHeads, "head"));
    return chosen.sort((a, b) => a - b);
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

/** int8 levels and, of usual tokens, what their rounding left, put together.
 *  @param {Record<string, any>} tensors @param {number} d @param {number} finer */
function embeddingLevels({ W_E, W_E_fine, fine }, d, finer) {
  const out = new Int16Array(W_E.length);
  for (let i = 0; i < out.length; i++) out[i] = finer * W_E[i];
  for (let r = 0; r < fine.length; r++)
    for (let k = 0; k < d; k++) out[fine[r] * d + k] += W_E_fine[r * d + k];
  return out;
}

/** @param {LayerHeader["passages"]} told @param {Record<string, any>} tensors
 *  @returns {Passage[]} */
function labelled(told, { passage_ids, passage_ends }) {
  return told.map((passage, i) => ({
    ...passage,
    ids: Int32Array.from(passage_ids.subarray(i ? passage_ends[i - 1] : 0, passage_ends[i])),
  }));
}
