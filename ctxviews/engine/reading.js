/** What the heads add to the neurons, prefix by prefix of a text, and how two texts differ (chapters 5 and 11).
 *
 *  A text is read as the model would: its first token, then the text's own, with the destination at
 *  the last one. Of a text longer than the context the beginning is read. */

import { Kept } from "./cache.js";
import { dotProduct, outermost } from "./linalg.js";
import { Prefix } from "./prefix.js";
import { Tokenizer } from "./tokenizer.js";

/** @typedef {{paper: Attended, own: Attended, truth: Attended | null}} Summaries by both circuits, and what the model
 *    computes, where the page has its weights; a neuron's are read from them when it is needed */

const PLACES = 128; // at most so many prefixes of a text are summed up for the drawing
const FEWEST = 8; // tokens of a prefix: before, the token in front of every text contributes most
const LISTED = 8; // neurons in a list
const LOUD = 1 / 4; // of all neurons, those whose summary varies most over texts, may be listed
const KEPT = 64; // neurons whose terms in a text, and lengths whose passages, are remembered
const STREAMS = 4; // that are remembered: they are large
export const CHARACTERS = 16; // per token of the context, that are kept of a text

/** A layer that reads texts; keeps what does not depend on them. */
export class LayerReader {
  /** @param {Layer} layer */
  constructor(layer) {
    this.layer = layer;
    this.tokenizer = new Tokenizer(layer);
    /** Tokens of a text that are read, the first one of every text not counted: the calibration
     *  text has to reach as far. */
    this.room = Math.min(layer.positions, layer.calibration.ids.length + 1) - 1;
    this.characters = CHARACTERS * this.room;
    /** @type {Kept<Circuit>} */
    this.circuits = new Kept(3 * PLACES);
    /** @type {Kept<Promise<Reference>>} */
    this.references = new Kept(KEPT);
    /** @type {Kept<Seen>} */
    this.streams = new Kept(STREAMS);
    this.prefixes = 0; // so far
  }

  /** A text as it is read; what was taken before itself where nothing is another.
   *  @param {string} text @param {number[]} heads @param {Taken} [before] @returns {Taken} */
  take(text, heads, before) {
    const same = before?.text === text;
    if (same && String(heads) === String(before.reading.heads)) return before;
    const { layer, room, tokenizer } = this;
    const pieces = same ? before.pieces : tokenizer.pieces(text);
    const read = pieces.slice(0, room);
    const ids = [layer.bos, ...read.map(({ id }) => id)];
    const reading = new Reading(this, ids, heads, before?.reading);
    const stretches = same ? before.stretches : read.map((piece) => piece.text);
    return { text, pieces, stretches, reading };
  }

  /** A text up to one of its tokens. @param {number[]} ids @param {number} n */
  prefix(ids, n) {
    const key = (this.prefixes += 1);
    return new Prefix(this.at(n), ids, (make) => this.streams.get(key, make));
  }

  /** The circuit whose destination is n. Calibrating one takes as long as reading a text, and both
   *  texts need the same ones again and again. @param {number} n */
  at(n) {
    return this.circuits.get(n, () => this.layer.circuit({ n }));
  }

  /** Every neuron's summaries over the labelled passages, cut about as long as a text with its
   *  last token at n: at the power of two next to it, so that a keystroke seldom needs others.
   *  @param {number[]} heads @param {number} n @returns {Promise<Reference>} */
  reference(heads, n) {
    const most = Math.min(this.room, ...this.layer.passages.map(({ ids }) => ids.length - 1));
    const near = Math.min(2 ** Math.round(Math.log2(n)), most);
    const key = `${heads} ${near}`;
    const reference = this.references.get(key, () => this.#measured(heads, near));
    reference.catch(() => this.references.drop(key));
    return reference;
  }

  /** @param {number[]} heads @param {number} n @returns {Promise<Reference>} */
  async #measured(heads, n) {
    const values = await this.layer.circuit({ n }).responses(heads);
    const size = this.layer.nNeurons;
    const count = values.length / size;
    const [mean, sd] = [new Float64Array(size), new Float64Array(size)];
    for (let i = 0; i < values.length; i++) mean[i % size] += values[i] / count;
    for (let i = 0; i < values.length; i++) sd[i % size] += (values[i] - mean[i % size]) ** 2;
    for (let j = 0; j < size; j++) sd[j] = Math.sqrt(sd[j] / Math.max(count - 1, 1));
    return { heads, n, mean, sd };
  }
}

/** A text's tokens as some heads read them. What another reading before it had in common with it, of
 *  the tokens or of the heads, is not computed again. */
export class Reading {
  /** @type {Map<number, Prefix>} by the place of the last token */ #prefixes;
  /** @type {Map<number, Summaries>} likewise */ #sums;
  /** @type {Float64Array | undefined} */ #whole;
  /** @type {Kept<Float64Array>} terms by neuron */ #terms = new Kept(KEPT);

  /** @param {LayerReader} reader @param {number[]} ids the one in front of every text first
   *  @param {number[]} heads @param {Reading} [before] */
  constructor(reader, ids, heads, before) {
    this.reader = reader;
    this.heads = heads;
    this.waits = reader.layer.waits;
    const other = ids.findIndex((id, i) => id !== before?.ids[i]);
    const shared = other < 0 ? ids.length : other;
    /** @type {number[]} */
    this.ids = before && shared === Math.max(ids.length, before.ids.length) ? before.ids : ids;
    /** @template T @param {Map<number, T> | undefined} earlier @returns {Map<number, T>} */
    const still = (earlier) =>
      new Map([...(earlier ?? [])].filter(([n]) => n < shared && this.drawnAt(n)));
    this.#prefixes = still(before && before.#prefixes);
    this.#sums = still(before && String(heads) === String(before.heads) ? before.#sums : undefined);
    if (this.hasContext) this.sumUp(this.n);
  }

  /** @returns {number} where the last token stands, which is the destination */
  get n() {
    return this.ids.length - 1;
  }

  /** @returns {boolean} whether there is a context, of two tokens of the text's own at least, and the
   *    weights that it takes */
  get hasContext() {
    return this.n > 1 && !this.waits;
  }

  /** Every so many tokens, a power of two so that a longer text still uses what a shorter one left.
   *  @returns {number} */
  get step() {
    return 2 ** Math.max(0, Math.ceil(Math.log2(this.n / PLACES)));
  }

  /** @param {number} n @returns {boolean} whether the drawing has a point for that prefix */
  drawnAt(n) {
    return n === this.n || (n >= FEWEST && n < this.n && n % this.step === 0);
  }

  /** The prefixes that are not summed up yet: few from all over the text first, then those between
   *  them, the longest first. @returns {number[]} */
  missing() {
    const places = Array.from({ length: Math.max(this.n, 0) }, (_, i) => this.n - 1 - i);
    const left = places.filter((n) => this.drawnAt(n) && !this.#sums.has(n));
    return this.hasContext ? left.sort((a, b) => (b & -b) - (a & -a)) : [];
  }

  /** @param {number} n @returns {Prefix} */
  #upTo(n) {
    const prefix = this.#prefixes.get(n) ?? this.reader.prefix(this.ids, n);
    this.#prefixes.set(n, prefix);
    return prefix;
  }

  /** @param {number} n */
  sumUp(n) {
    if (this.#sums.has(n)) return;
    const [prefix, heads] = [this.#upTo(n), this.reader.layer.heads(this.heads)];
    this.#sums.set(n, {
      paper: prefix.paper(heads),
      own: prefix.own(heads),
      truth: prefix.truth(heads),
    });
  }

  /** The paper's circuit of the whole text, for every neuron. @returns {Float64Array} */
  get whole() {
    this.#whole ??= this.#upTo(this.n).summary(this.heads);
    return this.#whole;
  }

  /** What each token adds to a neuron, by the paper's circuit. @param {number} neuron */
  terms(neuron) {
    return this.#terms.get(neuron, () => this.#upTo(this.n).terms(this.heads, neuron));
  }

  /** What one of them adds, head by head. @param {number} neuron @param {number} place */
  parts(neuron, place) {
    return this.#upTo(this.n).parts(this.heads, neuron, place);
  }

  /** The whole neuron at each place where there is a point, from tables and as the model computes it; none where
   *  the page lacks what it takes. @param {number} neuron */
  outputs(neuron) {
    const { layer } = this.reader;
    if (!("wholeNeuron" in layer)) return [];
    const heads = layer.heads(this.heads);
    const sums = [...this.#sums].sort(([a], [b]) => a - b);
    return sums.flatMap(([place, { own, truth }]) => {
      const [tables, model] = [own, truth].map((of) => of && layer.wholeNeuron(neuron, heads, of));
      return tables && model ? [{ place, tables, model }] : [];
    });
  }

  /** A neuron's lines: where there is a point, its summary there by both circuits, and the exact one.
   *  @param {number} neuron */
  curve(neuron) {
    const { layer } = this.reader;
    const places = [...this.#sums.keys()].sort((a, b) => a - b);
    const sums = places.map((n) => /** @type {Summaries} */ (this.#sums.get(n)));
    const rows = layer.heads(this.heads).map((head) => layer.readoutOf(head, neuron));
    const contribution = (/** @type {Attended} */ { inside, scale }) =>
      rows.reduce((sum, row, k) => sum + dotProduct(row, 0, inside[k], 0, layer.dHead), 0) / scale;
    return {
      places,
      paper: sums.map(({ paper }) => contribution(paper)),
      own: sums.map(({ own }) => contribution(own)),
      truth: sums.flatMap(({ truth }) => (truth ? [contribution(truth)] : [])),
    };
  }
}

/** The names whose terms add up to most, each once.
 *  @param {{terms: Float64Array, names: string[], sign: number}[]} texts @param {number} count
 *  @returns {string[]} */
export function mostAdding(texts, count) {
  /** @type {Map<string, number>} */ const sums = new Map();
  for (const { terms, names, sign } of texts)
    terms.forEach((term, i) => sums.set(names[i], (sums.get(names[i]) ?? 0) + sign * term));
  const order = [...sums].filter(([, sum]) => sum > 0).sort(([, a], [, b]) => b - a);
  return order.slice(0, count).map(([name]) => name);
}

/** Distances in standard deviations, of neurons that texts can move far; the others have none:
 *  what little they do is mostly noise, and in standard deviations it would look like much.
 *  @param {Float64Array} from @param {ArrayLike<number>} to @param {Float64Array} sd */
export function standing(from, to, sd) {
  const edge = sd.toSorted()[Math.floor(sd.length * (1 - LOUD))];
  return Float64Array.from(from, (value, j) =>
    sd[j] >= edge && sd[j] > 0 ? (value - to[j]) / sd[j] : 0,
  );
}

/** @param {Float64Array} scores @returns {number[]} where they are largest, in order */
export function leading(scores) {
  return outermost(scores, Array.from(scores.keys()), LISTED).up;
}
