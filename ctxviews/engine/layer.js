/** A model's first layer, computed in the page: ctxlib's numbers, for any heads, any threshold and any
 *  text.
 *
 *  `layer.circuit(...)` is the circuit for one query: a token at position n. All that a page shows comes from it.
 *  Where a text is shorter than what is read there, the destination moves with its end and all that
 *  depends on n (kernels, contents, values, denominators, LayerNorm-2 scale) is that of there.
 *
 *  `LearnedLayer` (absolutePositions.js) has a model's weights, and any query; `FixedQueryLayer`
 *  (fixedQuery.js) has one query of any model. Names as in the book's notation. Matrices lie in
 *  Float64Arrays, row after row: in Python's order unless a comment gives another. float64, because V8
 *  multiplies numbers of that kind thrice as fast as float32, which it converts each time. */

import { Circuit } from "./circuit.js";
import { Kept } from "./cache.js";
import { addScaled, wholeBelow } from "./linalg.js";
import { Rankings } from "./workers.js";

const KEPT_CIRCUITS = 4; // at other destinations: a reader types forth and back

/** What pages need of a first layer, and what stays the same for every destination.
 *  @abstract */
export class Layer {
  /** @type {Kept<Circuit>} */ #circuits = new Kept(KEPT_CIRCUITS);
  /** @type {Rankings | undefined} */ #rankings;
  /** @type {Ranked | undefined} */ #packedRanking;

  /** @param {CommonHeader} header @param {Record<string, any>} tensors
   *  @param {FetchPart} [fetch] of a layer that has a folder */
  constructor(header, tensors, fetch) {
    this.fetch = fetch;
    this.model = header.model;
    this.d = header.d_model;
    this.dHead = header.d_head;
    this.nHeads = header.heads;
    this.nNeurons = header.neurons;
    this.mlpLayer = header.layer ?? 0; // whose neurons read the heads: parallel models' next one
    this.nVocab = header.vocab_size;
    this.positions = header.positions; // texts are read up to here
    this.n = header.n; // where the packed denominators were taken
    this.eps = header.eps;
    this.bos = header.bos; // the first token of every text
    this.largest = header.largest; // how many tokens `top` averages over
    this.destinations = header.destinations; // the usual one first
    this.calibration = header.calibration;
    this.families = header.families; // one a head, at n
    this.vocab = header.vocab; // as the tokenizer spells it, "" for unused ids
    /** How `Tokenizer` reads text for this model, if it can. */
    this.words = header.words ?? (header.byte_level ? "gpt2" : undefined);
    this.added = header.added;
    this.own = header.own;
    /** @type {Float64Array} */ this.W_O = tensors.W_O; // as what follows, it may come later
    /** Of the average counted token, for every packed destination: `Circuit.meanValues`.
     *  @type {Float64Array} */
    this.means = tensors.means;
    const spelt = Array.from(tensors.merges, (/** @type {number} */ id) => this.vocab[id]);
    const pairs = spelt.flatMap((left, i) => (i % 2 ? [] : [[left, spelt[i + 1]]]));
    this.merges = /** @type {[string, string][]} */ (pairs); // as `Tokenizer` takes them
    const { passage_ids: ids, passage_ends: ends } = tensors;
    /** @type {Passage[]} */
    this.passages = header.passages.map((passage, i) => ({
      ...passage,
      ids: Int32Array.from(ids.subarray(i ? ends[i - 1] : 0, ends[i])),
    }));
    /** Glitch tokens, which no text has trained. */
    this.untrained = new Set(header.untrained);
    /** Ids of the tokens that the page has data for: of a large vocabulary, those of its texts and
     *  those that can matter most. */
    this.available = Int32Array.from(tensors.token_ids ?? this.vocab.keys());
    this.trained = this.nVocab - this.untrained.size;
    /** Those that a ranking counts: all but glitch tokens. */
    this.counted = this.available.filter((id) => !this.untrained.has(id));
    /** Those of them that it looks at: of a large vocabulary the ones that can matter. */
    this.ranked = this.counted.filter((id) => tensors.ranked[id]);
    this.everyNeuron = Int32Array.from({ length: this.nNeurons }, (_, neuron) => neuron);
    this.everyHead = Array.from({ length: this.nHeads }, (_, head) => head);
    /** The stable heads, or all where none is stable. */
    this.usual = header.stable.length ? header.stable : this.everyHead;
  }

  // -------------------------------------------------------------- what each kind of layer has

  /** Whether the query token is always the same, at one distance from a text's end. */
  fixed = false;
  /** Whether sources stand on both sides of the destination. */
  bothSides = false;

  /** Whether parts have still to come before a text can be read. @returns {boolean} */
  get waits() {
    return false;
  }

  /** Whether the page has data for a token. @param {number} _id */
  hasToken(_id) {
    return true;
  }

  /** The ranking of these heads, where it is the one that the file holds: that of the stable heads at
   *  the usual destination, of all heads if none is stable. @param {Circuit} circuit
   *  @param {number[]} heads @returns {Ranked | undefined} */
  packedRanking({ n, token }, heads) {
    const same = n === this.n && token === this.destinations[0].id;
    return same && String(heads) === String(this.usual) ? this.#packedRanking : undefined;
  }

  /** @param {Record<string, any>} tensors */
  takeRanking({ ranking_top: top, ranking_mean: mean, ranking_tokens: tokens }) {
    this.#packedRanking = { top, mean, tokens: Int32Array.from(tokens) };
  }

  /** Where the destination is in a text of so many tokens. @param {number} length */
  placeIn(length) {
    return length - 1;
  }

  /** What the model itself computes at the last token of a text: the heads' own attention. Null where a
   *  page holds only what predicts it. @param {Numbers} _ids @returns {Attended | null} */
  exact(_ids) {
    return null;
  }

  /** Tokens of a passage that the model can read. @param {number} passage */
  longest(passage) {
    return Math.min(this.passages[passage].ids.length, this.positions);
  }

  /** Fetches parts; what has come stays when a signal ends it.
   *  @param {string[]} parts @param {Bringing} [how] */
  async bring(parts, { onProgress = () => {}, signal } = {}) {
    const [fetch, shares] = [this.fetch, parts.map(() => 0)];
    if (!fetch) return;
    const one = async (/** @type {string} */ part, /** @type {number} */ i) => {
      const report = (/** @type {number} */ share) => {
        shares[i] = share;
        onProgress(shares.reduce((sum, of) => sum + of, 0) / parts.length);
      };
      this.whole.take(part, await fetch(part, report, signal));
    };
    await Promise.all(parts.map(one));
  }

  // -------------------------------------------------------------- what follows

  /** This, as the kind that it is. @returns {import("./absolutePositions.js").LearnedLayer | import("./fixedQuery.js").FixedQueryLayer} */
  get whole() {
    return /** @type {any} */ (this);
  }

  /** The circuit at a destination. @param {{n?: number, token?: number}} [place] @returns {Circuit} */
  circuit({ n = this.n, token = this.destinations[0].id } = {}) {
    wholeBelow(n, this.positions, "position");
    wholeBelow(token, this.nVocab, "token");
    return this.#circuits.get([n, token], () => new Circuit(this.whole, n, token));
  }

  /** Of its neurons, at n. */
  get rankings() {
    return (this.#rankings ??= new Rankings(this.whole));
  }

  /** Positional kernels of all heads. @param {number} [n] @param {number} [token]
   *  @returns {Float64Array[]} one row a head over the sources 0 ... n */
  kernels(n, token) {
    return this.circuit({ n, token }).kernels;
  }

  /** z W_O of one head, added to `into`.
   *  @param {Float64Array} into @param {number} head @param {Float64Array} z */
  write(into, head, z) {
    const { d, dHead } = this;
    for (let k = 0; k < dHead; k++) addScaled(into, 0, z[k], this.W_O, (head * dHead + k) * d, d);
  }

  /** sum over heads of z W_O W_in / scale @param {number[]} heads @param {Attended} attended a z for
   *  each @returns {Float64Array} one number a neuron */
  read(heads, { inside, scale }) {
    const out = new Float64Array(this.nNeurons);
    heads.forEach((head, k) => {
      const z = inside[k].map((x) => x / scale);
      const along = this.whole.readoutAlong(head, z);
      for (let neuron = 0; neuron < out.length; neuron++) out[neuron] += along(neuron);
    });
    return out;
  }

  /** The tokens 0 ... n, if they are there and in the vocabulary. @param {Numbers} ids @param {number} n */
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
}
