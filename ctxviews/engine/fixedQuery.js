/** The first layer of any model for one fixed query (fixedfile.py): its kernels, content and values,
 *  and how what heads write reaches the neurons.
 *
 *  There are no other queries here. A shorter text is read as if it stood right before the query:
 *  what a source gets depends on how far away it is. Of a large vocabulary the file has some tokens;
 *  the others contribute nothing. */

import { Layer } from "./layer.js";
import { addScaled, dotProduct, equalParts } from "./linalg.js";
import { NEURONS_AT_ONCE, TOKENS_AT_ONCE } from "./slices.js";

/** A matrix in int8 levels, as ctxlib.store keeps it: a step a row, and of every column its mean and spread. */
class Table {
  /** @param {Record<string, any>} tensors @param {string} name */
  constructor(tensors, name) {
    const part = (/** @type {string} */ of) => tensors[`${name}_${of}`];
    /** @type {Int8Array} */ this.levels = tensors[name];
    /** @type {Float64Array} */ this.step = part("step");
    /** @type {Float64Array} */ this.spread = part("spread");
    /** @type {Float64Array} */ this.mean = part("mean");
    this.width = this.spread.length;
  }

  /** into[at:] += factor times `size` columns of a row, from `column` on. @param {Float64Array} into
   *  @param {number} at @param {number} factor @param {number} row @param {number} column
   *  @param {number} size */
  addTo(into, at, factor, row, column, size) {
    const { levels, spread, mean } = this;
    const step = factor * this.step[row];
    let from = row * this.width + column;
    for (const end = at + size; at < end; at++, from++, column++)
      into[at] += factor * mean[column] + step * levels[from] * spread[column];
  }

  /** The rows from ... to - 1. @param {number} from @param {number} to */
  rows(from, to) {
    const out = new Float64Array((to - from) * this.width);
    for (let r = from; r < to; r++) this.addTo(out, (r - from) * this.width, 1, r, 0, this.width);
    return out;
  }

  /** A function that multiplies a row with a vector that begins at a column.
   *  @param {Float64Array} vector @param {number} column @returns {(row: number) => number} */
  along(vector, column) {
    const { levels, step, spread, mean, width } = this;
    const spreading = vector.map((value, k) => value * spread[column + k]);
    const always = dotProduct(vector, 0, mean, column, vector.length);
    return (row) => {
      const from = row * width + column;
      let sum = 0;
      for (let k = 0; k < spreading.length; k++) sum += spreading[k] * levels[from + k];
      return always + step[row] * sum;
    };
  }
}

/** Tokens that came in one file: content (its log, a row a head) and values.
 *  @param {Record<string, any>} tensors @param {number} heads */
function tokenTable({ token_ids, content, ...tensors }, heads) {
  const ids = Int32Array.from(token_ids);
  return { ids, values: new Table(tensors, "of_token"), content: equalParts(content, heads) };
}

/** The heads at one query. Large tables stay in levels. The data of other heads and of rarer tokens
 *  may lie in files of its own, which are fetched when they are needed. */
export class FixedQueryLayer extends Layer {
  /** @type {ReturnType<typeof tokenTable>[]} */ #files = [];
  /** @type {Int16Array} of a token the file, -1 for one that is in none */ #file;
  /** @type {Int32Array} and its row there */ #row;
  /** @type {Int32Array} of a token in no file of the first, its place among these; -1 */ #left;
  /** @type {(Table | undefined)[]} W_O W_in of a head, neuron after neuron */ #readouts;
  /** @type {Numbers} of each head, which of the values it reads */ #valueOf;

  /** @param {FixedQueryHeader} header @param {Record<string, any>} tensors @param {FetchPart} [fetch] */
  constructor(header, tensors, fetch) {
    super(
      header,
      { ...tensors, W_O: new Table(tensors, "W_O").rows(0, tensors.W_O_step.length) },
      fetch,
    );
    this.length = header.length; // tokens of a text that are read
    this.shared = header.shared ?? 0;
    this.fixed = true;
    this.bothSides = this.length > this.n + 1;
    this.#file = new Int16Array(this.nVocab).fill(-1);
    this.#row = new Int32Array(this.nVocab);
    this.#take(tensors);
    let left = 0;
    this.#left = new Int32Array(this.nVocab).map((_, id) => (this.hasToken(id) ? -1 : left++));
    this.#readouts = this.everyHead.map((head) => readoutTable(tensors, head));
    this.#valueOf = tensors.value_of;
    /** @type {Float64Array[]} one row a head over the sources */
    this.wholeKernels = equalParts(tensors.kernels, this.nHeads);
    /** @type {Float64Array[]} what standing at a source adds to its value, a row a head */
    this.moved = equalParts(tensors.moved, this.nHeads);
    /** @type {Float64Array} of the stream that neurons read, what is no head's */
    this.beside = tensors.beside;
    /** @type {Float64Array | undefined} of a norm behind the heads, which W_O leaves out */
    this.gain = tensors.gain;
    this.norms = header.norms ?? true; // whether one stands in front of the neurons
    this.takeRanking(tensors);
  }

  /** @param {number} id */
  hasToken(id) {
    return this.#file[id] >= 0;
  }

  /** Adds the tokens of a file. @param {Record<string, any>} tensors */
  #take(tensors) {
    const table = tokenTable(tensors, this.nHeads);
    const file = this.#files.push(table) - 1;
    table.ids.forEach((id, row) => {
      this.#row[id] = row;
      this.#file[id] = file;
    });
  }

  /** The parts that have still to be fetched for these heads and tokens (`bring`).
   *  @param {Numbers} heads @param {Numbers} ids */
  lacks(heads, ids) {
    if (!this.fetch) return [];
    const ofHeads = Array.from(heads).filter((head) => !this.#readouts[head]);
    const ofTokens = Array.from(ids).filter((id) => !this.hasToken(id));
    const parts = [
      ...ofHeads.map((head) => `head-${head}`),
      ...ofTokens.map((id) => `tokens-${Math.floor(this.#left[id] / this.shared)}`),
    ];
    return [...new Set(parts)];
  }

  /** A part has come. @param {string} part @param {Record<string, any>} tensors */
  take(part, tensors) {
    const [kind, number] = part.split("-");
    if (kind === "head") this.#readouts[Number(number)] ??= readoutTable(tensors, Number(number));
    else if (!this.hasToken(tensors.token_ids[0])) this.#take(tensors);
  }

  /** @param {number} length */
  placeIn(length) {
    return this.bothSides ? length >> 1 : length - 1;
  }

  /** @param {number} n @param {number} token @returns {Split} */
  split(n, token) {
    const [{ id }] = this.destinations;
    if (token !== id) throw new RangeError(`token ${token}: the query token here is ${id}`);
    if (n > this.n) throw new RangeError(`position ${n}: there are 0 to ${this.n}`);
    return splitAtFixedQuery(this, n, token);
  }

  /** @param {number} head @param {number} block */
  readout(head, block) {
    const from = block * NEURONS_AT_ONCE;
    return this.#readoutTable(head).rows(from, Math.min(from + NEURONS_AT_ONCE, this.nNeurons));
  }

  /** @param {number} head @param {Float64Array} z */
  readoutAlong(head, z) {
    return this.#readoutTable(head).along(z, 0);
  }

  /** @param {number} head @param {number} neuron */
  readoutOf(head, neuron) {
    return this.#readoutTable(head).rows(neuron, neuron + 1);
  }

  /** @param {number} head */
  #readoutTable(head) {
    const table = this.#readouts[head];
    if (!table) throw new RangeError(`head ${head}: its part of the layer is not here yet`);
    return table;
  }

  /** @param {Numbers} ids @param {number} _n @param {number} head @param {Float64Array} out */
  *values(ids, _n, head, out) {
    yield* inTurn(ids, (id, i) => this.addValue(out, i * this.dHead, 1, id, head));
  }

  /** into[at:] += factor times a token's value. @param {Float64Array} into @param {number} at
   *  @param {number} factor @param {number} id @param {number} head */
  addValue(into, at, factor, id, head) {
    if (!this.hasToken(id)) return;
    const { values } = this.#files[this.#file[id]];
    const column = this.#valueOf[head] * this.dHead;
    values.addTo(into, at, factor, this.#row[id], column, this.dHead);
  }

  /** A function that gives a token's value in a direction inside a head.
   *  @param {number} head @param {Float64Array} inner @returns {(id: number) => number} */
  valuesAlong(head, inner) {
    const column = this.#valueOf[head] * this.dHead;
    const along = this.#files.map(({ values }) => values.along(inner, column));
    return (id) => (this.hasToken(id) ? along[this.#file[id]](this.#row[id]) : 0);
  }

  /** log content_h of a token. @param {number} id @param {number} head */
  contentOf(id, head) {
    if (!this.hasToken(id)) return -Infinity;
    return this.#files[this.#file[id]].content[head][this.#row[id]];
  }
}

/** The split at the destination, or at an earlier one.
 *  @param {FixedQueryLayer} layer @param {number} n @param {number} token @returns {Split} */
function splitAtFixedQuery(layer, n, token) {
  const { everyHead, nHeads } = layer;
  const reach = layer.bothSides ? 2 * n : n + 1; // tokens of a text that are read
  const from = layer.n - n; // whatever is nearer to the destination
  const kernels = layer.wholeKernels.map((row) => summingToOne(row.subarray(from, from + reach)));
  const seen = (/** @type {Numbers} */ ids) => seenTokens(layer, kernels, from, ids);
  return {
    reach,
    kernels,
    seen,
    // the file's constants, as far as the calibration text's change when it is cut
    calibrated() {
      const text = (/** @type {number} */ reach, /** @type {number} */ at) => {
        const ids = Int32Array.from(layer.calibration.ids).slice(0, reach);
        ids[at] = token;
        return ids;
      };
      const here = seen(text(reach, n));
      const [{ scale }] = layer.destinations;
      const whole = layer.split(layer.n, token).seen(text(layer.length, layer.n)).own().scale;
      const contents = here.contents(everyHead);
      return {
        denominators: contents.map((row, h) => dotProduct(kernels[h], 0, row, 0, row.length)),
        scale: (scale * here.own().scale) / whole,
      };
    },
    *scores(ids, out) {
      yield* inTurn(ids, (id, i) => {
        for (let h = 0; h < nHeads; h++) out[i * nHeads + h] = layer.contentOf(id, h);
      });
    },
    *through(ids, heads, inner, out) {
      const along = heads.map((head, k) => layer.valuesAlong(head, inner[k]));
      yield* inTurn(ids, (id, i) => {
        for (let k = 0; k < along.length; k++) out[i * along.length + k] = along[k](id);
      });
    },
  };
}

/** A text as tokens whose content and values are here. @param {FixedQueryLayer} layer
 *  @param {Float64Array[]} kernels @param {number} from of the sources, where the text begins
 *  @param {Numbers} ids @returns {Seen} */
function seenTokens(layer, kernels, from, ids) {
  const { d, dHead } = layer;
  const contents = (/** @type {number[]} */ heads) =>
    heads.map((head) => Float64Array.from(ids, (id) => Math.exp(layer.contentOf(id, head))));
  const inside = (/** @type {number} */ head, /** @type {Numbers} */ weights) => {
    const z = new Float64Array(dHead);
    for (let i = 0; i < weights.length; i++) layer.addValue(z, 0, weights[i], ids[i], head);
    return z;
  };
  return {
    contents,
    inside,
    along(heads, inner) {
      const along = heads.map((head, k) => layer.valuesAlong(head, inner[k]));
      return (i, k) => along[k](ids[i]);
    },
    own() {
      const written = new Float64Array(d);
      const all = contents(layer.everyHead).map((contents, head) => {
        const row = summingToOne(contents.map((content, i) => content * kernels[head][i]));
        const z = inside(head, row);
        for (let i = 0; i < row.length; i++)
          addScaled(z, 0, row[i], layer.moved[head], (from + i) * dHead, dHead);
        layer.write(written, head, z);
        return z;
      });
      const behind = layer.gain ? rootMeanSquare(written, layer.eps) : 1;
      const attended = layer.beside.map(
        (x, k) => x + (written[k] * (layer.gain?.[k] ?? 1)) / behind,
      );
      const before = layer.norms ? rootMeanSquare(attended, layer.eps) : 1;
      return { inside: all, scale: before * behind };
    },
  };
}

/** What a norm divides by. @param {Float64Array} x @param {number} eps */
function rootMeanSquare(x, eps) {
  return Math.sqrt(dotProduct(x, 0, x, 0, x.length) / x.length + eps);
}

/** Does something with each token, with pauses. @param {Numbers} ids
 *  @param {(id: number, i: number) => void} each */
function* inTurn(ids, each) {
  for (let i = 0; i < ids.length; i++) {
    each(ids[i], i);
    if (i % TOKENS_AT_ONCE === 0) yield;
  }
}

/** A row over its sum; one that is zero everywhere stays so. @param {Float64Array} row */
function summingToOne(row) {
  const sum = row.reduce((a, b) => a + b, 0);
  return row.map((value) => value / (sum || 1));
}

/** W_O W_in of a head, if these tensors hold it. @param {Record<string, any>} tensors @param {number} head */
function readoutTable(tensors, head) {
  const name = `readout_${head}`;
  return tensors[name] ? new Table(tensors, name) : undefined;
}
