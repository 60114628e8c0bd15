/** The contextual circuit of a model's first layer, computed in the page (Gibson 2025; chapters 2 to
 *  8): ctxlib's numbers, for any heads, any threshold and any text.
 *
 *  `loadLayer` and `readLayer` read what `layerfile.py` packs. `layer.circuit(...)` is a destination
 *  n with a token there; everything a page shows is asked of it. Where a text is shorter than n + 1
 *  tokens, the destination moves to its last token and all that depends on n (kernels, contents,
 *  values, denominators, LayerNorm-2 scale) is computed there: in Python
 *  `ContextualCircuit.calibrate(..., n=len(text) - 1)`.
 *
 *  Names as in the book's notation. Matrices lie in Float64Arrays, row after row: in Python's order
 *  unless a comment says another. float64, because V8 multiplies numbers of that kind thrice as fast
 *  as float32, which it converts each time. */

/** @typedef {ArrayLike<number>} Numbers */
/** @typedef {{id: number, denominators: number[], scale: number}} Destination */
/** @typedef {{name: string, domain: string, title: string, ids: Int32Array}} Passage */
/** @typedef {{family: string, because: string, effectiveTokens: number, halfMass: number,
 *    unevenness: number, copyPreference: number}} Family a head's, and what it was told from */
/** @typedef {{head: number, kernel: number, content: number, denominator: number, value: number,
 *    adds: number}} Part what a source gives a neuron through one head: `value` is what the token would add
 *    if the head attended to nothing else */
/** @typedef {{domain: string, mean: number, values: number[], passages: number[]}} DomainResponse */
/** @typedef {{top: Float64Array, mean: Float64Array, tokens: Int32Array}} Ranked
 *    `top` and `mean` neuron by neuron; of tokens `layer.largest` a neuron, the largest first */
/** @typedef {{name: string, type: string, shape: number[], offset: number}} TensorEntry */
/** @typedef {{
 *    format: string, version: number, tensors: TensorEntry[], model: string, vocab_size: number,
 *    d_model: number, heads: number, d_head: number, neurons: number, positions: number, eps: number,
 *    C: number, attn_scale: number, n: number, largest: number, finer: number, stable: number[],
 *    destinations: Destination[], calibration: {name: string, ids: number[]}, families: Family[],
 *    passages: {name: string, domain: string, title: string}[], untrained: number[],
 *    vocab: string[], bos: number, byte_level: boolean}} LayerHeader */

const LAYER_FILE = "ctxlib layer";
const LAYER_VERSION = 1;
const SLICE = 6; // ms of work before the page is let breathe
const TOKENS_AT_ONCE = 64; // of the vocabulary, in a step of such work
const SPARE = 4; // tokens picked by rounded contributions beyond those that the exact ones keep
const KEPT_CIRCUITS = 4; // at other destinations: a reader types forth and back
const STANDS_OUT = 2; // robust deviations above the median neuron, as in ctxlib.neurons
const MAD_TO_DEVIATION = 1.4826; // of normal numbers

// ---------------------------------------------------------------- the file

/** Fetches a packed layer.
 *  @param {string | URL} url @param {(share: number) => void} [onProgress] told 0 to 1
 *  @returns {Promise<Layer>} or an Error with one sentence for the reader */
export async function loadLayer(url, onProgress = () => {}) {
  const name = new URL(url, globalThis.location?.href).pathname.split("/").pop();
  return layerFrom(name || "layer", () => fetchedBytes(url, onProgress));
}

/** The layer in bytes that are here already: a notebook sends them.
 *  @param {ArrayBuffer | ArrayBufferView} bytes @returns {Promise<Layer>} or an Error as above */
export async function readLayer(bytes) {
  const whole = ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
  return layerFrom("layer", async () => /** @type {Uint8Array<ArrayBuffer>} */ (whole));
}

/** @param {string} name @param {() => Promise<Uint8Array<ArrayBuffer>>} source */
async function layerFrom(name, source) {
  try {
    const { header, tensors } = unpackedLayer(await unzippedBytes(await source()));
    return new Layer(header, tensors);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`This view's data (${name}) cannot be used: ${reason}.`);
  }
}

/** @param {string | URL} url @param {(share: number) => void} onProgress */
async function fetchedBytes(url, onProgress) {
  const response = await fetch(url).catch(() => {
    throw new Error("the server does not answer");
  });
  if (!response.ok || !response.body) throw new Error(`the server answers ${response.status}`);
  const size = Number(response.headers.get("Content-Length")) || Infinity;
  const reader = response.body.getReader();
  const parts = [];
  for (let received = 0; ;) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error("the connection broke off");
    });
    if (done) break;
    parts.push(value);
    received += value.length;
    onProgress(Math.min(received / size, 1));
  }
  onProgress(1);
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** What gzip packed; its own checksum and length say whether all of it is there.
 *  @param {Uint8Array<ArrayBuffer>} bytes */
async function unzippedBytes(bytes) {
  if (!bytes.length) throw new Error("it is empty");
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) throw new Error("it is another kind of file");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer().catch(() => {
    throw new Error("it is damaged or cut off");
  });
}

/** @param {ArrayBuffer} buffer
 *  @returns {{header: LayerHeader, tensors: Record<string, any>}} tensors by name, float16 widened */
function unpackedLayer(buffer) {
  const { header, start } = layerHeader(buffer);
  if (header.format !== LAYER_FILE) throw new Error("it is another kind of file");
  if (header.version !== LAYER_VERSION)
    throw new Error(
      `it has version ${header.version} and this page reads version ${LAYER_VERSION}`,
    );
  const malformed = malformedPart(header, buffer.byteLength - start);
  if (malformed) throw new Error(`its header is damaged (${malformed})`);
  /** @type {Record<string, any>} */
  const kinds = {
    int8: Int8Array,
    uint16: Uint16Array,
    uint32: Uint32Array,
    float16: Uint8Array, // two bytes each
    float32: Float32Array,
  };
  const tensors = header.tensors.map(({ name, type, shape, offset }) => {
    const count = entries(shape);
    const held = new kinds[type](buffer, start + offset, type === "float16" ? 2 * count : count);
    if (type === "float16") return [name, halvesWidened(held)];
    return [name, type === "float32" ? new Float64Array(held) : held];
  });
  return { header, tensors: Object.fromEntries(tensors) };
}

const WIDTHS = /** @type {Record<string, number>} */ ({
  int8: 1, uint16: 2, uint32: 4, float16: 2, float32: 4,
}); // prettier-ignore
const SIZES = /** @type {const} */ ([
  "vocab_size", "d_model", "heads", "d_head", "neurons", "positions", "n", "largest", "finer",
]); // prettier-ignore
const REALS = /** @type {const} */ (["eps", "C", "attn_scale"]);
const LISTS = /** @type {const} */ (["stable", "destinations", "families", "passages", "untrained", "vocab"]);
const TENSORS = ("W_E W_E_step fine W_E_fine W_pos W_Q W_K W_V W_O W_in b_Q b_V b_O means ranked " +
  "passage_ids passage_ends merges").split(" "); // prettier-ignore

/** @param {number[]} shape */
function entries(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** The first part of a header that is not what this page can work with. @param {any} header
 *  @param {number} room bytes of tensors @returns {string | undefined} */
function malformedPart(header, room) {
  const isSize = (/** @type {any} */ v) => Number.isInteger(v) && v > 0;
  const isTensor = (/** @type {any} */ t) =>
    typeof t?.name === "string" &&
    t.type in WIDTHS &&
    Array.isArray(t.shape) &&
    t.shape.every((/** @type {any} */ v) => v === 0 || isSize(v)) &&
    Number.isInteger(t.offset);
  const fits = (/** @type {TensorEntry} */ { type, shape, offset }) =>
    offset >= 0 && offset + WIDTHS[type] * entries(shape) <= room;
  const { vocab, families, destinations, calibration, tensors } = header;
  return (
    SIZES.find((name) => !isSize(header[name])) ??
    REALS.find((name) => !(header[name] > 0)) ??
    LISTS.find((name) => !Array.isArray(header[name])) ??
    (vocab.length === header.vocab_size ? undefined : "vocab") ??
    (families.length === header.heads ? undefined : "families") ??
    (destinations.length ? undefined : "destinations") ??
    (Array.isArray(calibration?.ids) ? undefined : "calibration") ??
    (Array.isArray(tensors) && tensors.every(isTensor) ? undefined : "tensors") ??
    [
      ...TENSORS.filter((name) => !tensors.some((/** @type {any} */ t) => t.name === name)),
      ...tensors.flatMap((/** @type {any} */ t) => (fits(t) ? [] : [t.name])),
    ].map((name) => `tensor ${name}`)[0]
  );
}

/** @param {ArrayBuffer} buffer @returns {{header: LayerHeader, start: number}} */
function layerHeader(buffer) {
  try {
    const start = 4 + new DataView(buffer).getUint32(0, true);
    const text = new TextDecoder().decode(new Uint8Array(buffer, 4, start - 4));
    return { header: Object(JSON.parse(text)), start };
  } catch {
    throw new Error("it is another kind of file");
  }
}

/** float16 to float64: by table, because not every browser has numbers of that kind.
 *  @param {Uint8Array} bytes all low ones, then all high ones */
function halvesWidened(bytes) {
  const table = new Float64Array(65536);
  for (let i = 0; i < 65536; i++) {
    const exponent = (i >> 10) & 31;
    const fraction = i & 1023;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    table[i] = i >> 15 ? -size : size;
  }
  const out = new Float64Array(bytes.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = table[bytes[i] | (bytes[i + out.length] << 8)];
  return out;
}

// ---------------------------------------------------------------- linear algebra

/** a[i:i+size] . b[j:j+size]
 *  @param {Float64Array} a @param {number} i @param {Float64Array} b @param {number} j
 *  @param {number} size */
function dotProduct(a, i, b, j, size) {
  let sum = 0;
  for (const end = i + size; i < end;) sum += a[i++] * b[j++];
  return sum;
}

/** into[i:i+size] += factor * a[j:j+size]
 *  @param {Float64Array} into @param {number} i @param {number} factor @param {Float64Array} a
 *  @param {number} j @param {number} size */
function addScaled(into, i, factor, a, j, size) {
  for (const end = i + size; i < end;) into[i++] += factor * a[j++];
}

/** out[r, c] = A[r] . B[c] for the rows of two matrices. Four rows at a time meet two, so that a
 *  number once fetched is used more than once.
 *  @param {Float64Array} A @param {Float64Array} B @param {number} depth @param {Float64Array} out */
function rowProducts(A, B, depth, out) {
  const rows = Math.floor(A.length / depth);
  const columns = Math.floor(B.length / depth);
  for (let r = 0; r + 3 < rows; r += 4)
    for (let c = 0; c + 1 < columns; c += 2) fourByTwo(A, r, B, c, depth, out, columns);
  for (let r = 0; r < rows; r++) {
    const done = r < rows - (rows % 4) ? columns - (columns % 2) : 0;
    for (let c = done; c < columns; c++)
      out[r * columns + c] = dotProduct(A, r * depth, B, c * depth, depth);
  }
  return out;
}

/** Four rows of A with two of B. No array is taken apart here: that would cost more than the sums.
 *  @param {Float64Array} A @param {number} r @param {Float64Array} B @param {number} c
 *  @param {number} depth @param {Float64Array} out @param {number} columns */
function fourByTwo(A, r, B, c, depth, out, columns) {
  let p = 0, q = 0, s = 0, t = 0, u = 0, v = 0, w = 0, x = 0; // prettier-ignore
  let i = r * depth;
  let j = i + depth;
  let k = j + depth;
  let l = k + depth;
  let m = c * depth;
  let n = m + depth;
  for (const end = n; m < end; i++, j++, k++, l++, m++, n++) {
    const d = B[m];
    const e = B[n];
    const a = A[i];
    p += a * d;
    q += a * e;
    const b = A[j];
    s += b * d;
    t += b * e;
    const g = A[k];
    u += g * d;
    v += g * e;
    const h = A[l];
    w += h * d;
    x += h * e;
  }
  let at = r * columns + c;
  out[at] = p;
  out[at + 1] = q;
  out[(at += columns)] = s;
  out[at + 1] = t;
  out[(at += columns)] = u;
  out[at + 1] = v;
  out[(at += columns)] = w;
  out[at + 1] = x;
}

/** A matrix with this many columns, column after column.
 *  @param {Float64Array} W @param {number} columns */
function columnMajor(W, columns) {
  const rows = W.length / columns;
  const out = new Float64Array(W.length);
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) out[c * rows + r] = W[r * columns + c];
  return out;
}

/** @param {Float64Array} values @param {number} parts @returns {Float64Array[]} views, no copies */
function equalParts(values, parts) {
  const size = values.length / parts;
  return Array.from({ length: parts }, (_, i) => values.subarray(i * size, (i + 1) * size));
}

/** Softmax of one row, in place. @param {Float64Array} row */
function softmaxInPlace(row) {
  const most = row.reduce((a, b) => Math.max(a, b));
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp(row[i] - most);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
  return row;
}

/** Of an even number of values the mean of the two middle ones.
 *  @param {Float64Array} values sorted in place */
function medianOf(values) {
  values.sort();
  return (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2;
}

/** One kernel for several heads: the median at each source, renormalised.
 *  @param {Float64Array[]} kernels */
function sharedKernel(kernels) {
  const here = new Float64Array(kernels.length);
  const middle = kernels[0].map((_, i) => medianOf(here.map((_, h) => kernels[h][i])));
  const sum = middle.reduce((a, b) => a + b);
  return middle.map((value) => value / sum);
}

/** The share of the attention that one row has elsewhere than the other: 0 to 1.
 *  @param {Numbers} a @param {Numbers} b @returns {number} */
export function totalVariation(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += Math.abs(a[i] - b[i]);
  return sum / 2;
}

/** The number, if it is one of 0 ... size - 1.
 *  @param {number} number @param {number} size @param {string} name */
function wholeBelow(number, size, name) {
  if (Number.isInteger(number) && number >= 0 && number < size) return number;
  throw new RangeError(`${name} ${number}: there are ${size < 1 ? "none" : `0 to ${size - 1}`}`);
}

// ---------------------------------------------------------------- work in slices

/** Does all of a work that pauses now and then. @param {Iterator<void>} work */
function doneAtOnce(work) {
  while (!work.next().done);
}

/** Does it a few milliseconds at a time, so that the page stays alive.
 *  @param {Iterator<void>} work @param {AbortSignal} [signal] @param {() => void} [onPause] */
async function doneInSlices(work, signal, onPause = () => {}) {
  signal?.throwIfAborted();
  for (let until = performance.now() + SLICE; !work.next().done;) {
    if (performance.now() < until) continue;
    onPause();
    await nextTurn();
    signal?.throwIfAborted();
    until = performance.now() + SLICE;
  }
}

/** When the page has done what waits. By a message, since browsers make a timer wait 4 ms.
 *  @returns {Promise<void>} */
function nextTurn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

// ---------------------------------------------------------------- the layer

/** A layer's weights, folded and centred, and what stays the same for every destination. */
export class Layer {
  /** @type {Map<string, Circuit>} */ #circuits = new Map();
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
    const key = `${n} ${token}`;
    const known = this.#circuits.get(key) ?? new Circuit(this, n, token);
    this.#circuits.delete(key); // to the end of the line
    this.#circuits.set(key, known);
    if (this.#circuits.size > KEPT_CIRCUITS)
      this.#circuits.delete(/** @type {string} */ (this.#circuits.keys().next().value));
    return known;
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

  /** What the chosen heads write and the LayerNorm-2 scale behind all of them, with the attention
   *  of a stream, at its last source.
   *  @param {Float64Array} x @param {Numbers} ids @param {number[]} heads */
  attend(x, ids, heads) {
    const { d } = this;
    const chosen = new Float64Array(d);
    const others = new Float64Array(d);
    this.rows(x).forEach((row, h) => {
      const seen = new Float64Array(d);
      row.forEach((weight, i) => addScaled(seen, 0, weight, x, i * d, d));
      this.write(heads.includes(h) ? chosen : others, h, this.inside(h, seen, 1));
    });
    const n = ids.length - 1;
    let squared = 0;
    for (let k = 0; k < d; k++) {
      const token = this.W_E[ids[n] * d + k] * this.W_E_step[ids[n]];
      squared += (token + this.W_pos[n * d + k] + this.b_O[k] + chosen[k] + others[k]) ** 2;
    }
    return { written: chosen, scale: Math.sqrt(squared / d + this.eps) };
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

// ---------------------------------------------------------------- the circuit

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
    return { denominators, scale: layer.attend(layer.stream(ids, n, "exact"), ids, []).scale };
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
  #kernelOf(heads) {
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
  #paths(neuron, heads) {
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
    const { directions, biases } = this.#paths(neuron, chosen);
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

  /** The paper's circuit: sum_i pos_i contribution[j, x_i] for every neuron. Of a text longer than
   *  n + 1 tokens the first n + 1 are read.
   *  @param {Numbers} ids @param {number[]} heads @returns {Float64Array} */
  summary(ids, heads) {
    const circuit = this.for(ids);
    return this.layer.read(circuit.written(ids, this.layer.heads(heads)), circuit.scale);
  }

  /** What the circuit says that the heads write to the residual stream.
   *  @param {Numbers} ids of at least n + 1 tokens @param {number[]} heads */
  written(ids, heads) {
    const { layer, n } = this;
    const x = layer.stream(layer.text(ids, n), n, "here");
    const kernel = this.#kernelOf(heads);
    const out = new Float64Array(layer.d);
    this.contents(x, heads).forEach((contents, k) => {
      const seen = new Float64Array(layer.d);
      let mass = 0;
      for (let i = 0; i <= n; i++) {
        const weight = (kernel[i] * contents[i]) / this.denominators[heads[k]];
        addScaled(seen, 0, weight, x, i * layer.d, layer.d);
        mass += weight;
      }
      layer.write(out, heads[k], layer.inside(heads[k], seen, mass));
    });
    return out;
  }

  /** The terms of the summary for one neuron, one a source.
   *  @param {Numbers} ids @param {number[]} heads @param {number} neuron @returns {Float64Array} */
  bySource(ids, heads, neuron) {
    if (ids.length <= this.n) return this.for(ids).bySource(ids, heads, neuron);
    const partOf = this.#parted(ids, heads, neuron);
    return new Float64Array(this.n + 1).map((_, i) => {
      let sum = 0;
      for (const { adds } of partOf(i)) sum += adds;
      return sum;
    });
  }

  /** One of these terms, head by head: kernel times content over denominator times value.
   *  @param {Numbers} ids @param {number[]} heads @param {number} neuron @param {number} source
   *  @returns {Part[]} in the order of the heads; what they add sums to the term */
  parts(ids, heads, neuron, source) {
    const circuit = this.for(ids);
    wholeBelow(source, circuit.n + 1, "source");
    return circuit.#parted(ids, heads, neuron)(source);
  }

  /** @param {Numbers} ids of at least n + 1 tokens @param {number[]} heads @param {number} neuron
   *  @returns {(source: number) => Part[]} */
  #parted(ids, heads, neuron) {
    const { layer, n } = this;
    const chosen = layer.heads(heads);
    const x = layer.stream(layer.text(ids, n), n, "here");
    const { directions, biases } = this.#paths(neuron, chosen);
    const contents = this.contents(x, chosen);
    const kernels = this.#kernelOf(chosen);
    return (i) =>
      chosen.map((head, k) => {
        const [kernel, content, denominator] = [kernels[i], contents[k][i], this.denominators[head]];
        const value = dotProduct(x, i * layer.d, directions, k * layer.d, layer.d) + biases[k];
        return { head, kernel, content, denominator, value, adds: (kernel * content * value) / denominator };
      });
  }

  /** The self-normalised circuit (chapter 8): the text's own denominators, scale and token at n.
   *  Texts are placed as in `summary`.
   *  @param {Numbers} ids @param {number[]} heads @returns {Float64Array} */
  selfNormalised(ids, heads) {
    const { layer } = this;
    const text = layer.text(ids, Math.min(ids.length - 1, this.n));
    const x = layer.stream(text, text.length - 1, "split");
    const { written, scale } = layer.attend(x, text, layer.heads(heads));
    return layer.read(written, scale);
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
      const circuit = this.for(ids);
      const written = circuit.written(placed ? this.placed(ids) : ids, heads);
      addScaled(scaled, i * d, 1 / circuit.scale, written, 0, d);
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

// ---------------------------------------------------------------- the ranking

/** What one head at n can contribute before any content weighs it: values of the ranked tokens,
 *  readout, and their products in int8 levels with one step a neuron. They depend on neither the
 *  destination token, nor the denominators, nor other heads: all of these may change. */
class HeadTable {
  #values = false;
  #readouts = 0;
  #rows = 0;

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
    this.products = new Float64Array(4 * ranked.length);
  }

  /** How much of the table is there. */
  get share() {
    return this.#rows / this.layer.nNeurons;
  }

  /** Goes on where an earlier call, or another one in between, has left off. */
  *fill() {
    const { layer, n, head, V } = this;
    if (!this.#values) {
      const made = new Float64Array(V.length);
      yield* layer.values(layer.ranked, n, head, made);
      if (!this.#values) V.set(made);
      this.#values = true;
    }
    while (this.#readouts < layer.nNeurons) {
      this.#nextReadouts();
      yield;
    }
    while (this.#rows < layer.nNeurons) {
      this.#nextRows();
      yield;
    }
  }

  #nextReadouts() {
    const { d, dHead, inputs, W_O, nNeurons } = this.layer;
    const from = this.#readouts;
    this.#readouts = Math.min(from + TOKENS_AT_ONCE, nNeurons);
    const out = W_O.subarray(this.head * dHead * d, (this.head + 1) * dHead * d);
    const some = inputs.subarray(from * d, this.#readouts * d);
    rowProducts(some, out, d, this.R.subarray(from * dHead));
  }

  #nextRows() {
    const { dHead, nNeurons, ranked } = this.layer;
    const from = this.#rows;
    const size = ranked.length;
    this.#rows = Math.min(from + 4, nNeurons);
    rowProducts(this.R.subarray(from * dHead, this.#rows * dHead), this.V, dHead, this.products);
    for (let j = from; j < this.#rows; j++)
      this.steps[j] = roundedRow(this.products, (j - from) * size, this.levels, j * size, size);
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
class Ranking {
  /** @type {Map<number, HeadTable>} */ #tables = new Map();
  /** @type {Circuit | null} */ #circuit = null;
  /** @type {number[]} */ #heads = [];
  /** @type {Ranked | null} */ #result = null;

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
    const known = this.#tables.get(head) ?? new HeadTable(this.layer, this.n, head);
    this.#tables.set(head, known);
    return known;
  }

  /** @param {Circuit} circuit weighed @param {number[]} heads in order @returns {Ranked} */
  of(circuit, heads) {
    if (this.#result && this.#circuit === circuit && String(heads) === String(this.#heads))
      return this.#result;
    for (const head of heads) doneAtOnce(this.head(head).fill());
    const known = this.#circuit === circuit ? this.#heads : [];
    const joining = heads.filter((h) => !known.includes(h));
    const leaving = known.filter((h) => !heads.includes(h));
    const anew = joining.length + leaving.length >= heads.length;
    if (anew) this.#clear();
    const changes = anew
      ? heads.map((head) => this.#part(circuit, head, 1))
      : [
          ...joining.map((head) => this.#part(circuit, head, 1)),
          ...leaving.map((head) => this.#part(circuit, head, -1)),
        ];
    const all = heads.map((head) => this.#part(circuit, head, 1));
    this.#result = this.#ranked(all, changes);
    this.highest.remember();
    this.#circuit = circuit;
    this.#heads = heads;
    return this.#result;
  }

  #clear() {
    const size = this.layer.nNeurons * this.layer.ranked.length;
    if (this.sums.length) this.sums.fill(0);
    else this.sums = new Float32Array(size);
    this.highest.forget();
  }

  /** @param {Circuit} circuit @param {number} head @param {1 | -1} sign @returns {HeadPart} */
  #part(circuit, head, sign) {
    const mean = circuit.meanValues(head).map((z) => z / circuit.scale);
    return { table: this.head(head), weights: circuit.rankedWeights(head), mean, sign };
  }

  /** @param {HeadPart[]} all the heads @param {HeadPart[]} changes that lead to them
   *  @returns {Ranked} */
  #ranked(all, changes) {
    const { nNeurons, ranked, dHead } = this.layer;
    const { highest, kept } = this;
    const before = changes.slice(0, -1);
    const last = changes[changes.length - 1];
    const top = new Float64Array(nNeurons);
    const mean = new Float64Array(nNeurons);
    const tokens = new Int32Array(nNeurons * kept);
    for (let j = 0; j < nNeurons; j++) {
      for (let k = 0; k < before.length; k++) addLevels(this.sums, before[k], j);
      addAndPick(this.sums, last, j, highest);
      for (const part of all) mean[j] += dotProduct(part.mean, 0, part.table.R, j * dHead, dHead);
      top[j] = highest.settle(j, all, changes, kept) - mean[j];
      for (let i = 0; i < kept; i++)
        tokens[j * kept + i] = ranked[highest.places[j * highest.size + i]];
    }
    return { top, mean, tokens };
  }
}

/** @typedef {{table: HeadTable, weights: Float64Array, mean: Float64Array, sign: 1 | -1}} HeadPart
 *    a head with a circuit's weights of the ranked tokens and its mean, to be added or taken off */

/** sums[j, t] += weights[t] step[j] levels[j, t] for all t
 *  @param {Float32Array} sums @param {HeadPart} part @param {number} j */
function addLevels(sums, { table, weights, sign }, j) {
  const { levels } = table;
  const factor = sign * table.steps[j];
  const size = weights.length;
  for (let t = 0, at = j * size; t < size; t++, at++) sums[at] += factor * weights[t] * levels[at];
}

/** The same, and picks the largest of what comes out: a number is compared before it is stored,
 *  since to fetch it once more would take twice as long as all the rest.
 *  @param {Float32Array} sums @param {HeadPart} part @param {number} j @param {Largest} highest */
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

/** Goes on adding until what comes out is not below a bound. A loop of its own, without a call
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
  #known; // whether `exact` holds anything
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
    this.#known = false;
  }

  /** The next exact values are of other heads. The places may stay: they are tokens like others. */
  forget() {
    this.#known = false;
  }

  /** Starts with a row: none can be picked that is smaller than all of the last pick.
   *  @param {number} row @param {Float32Array} sums @param {Int8Array} levels to be added to them
   *  @param {Float64Array} weights @param {number} factor
   *  @returns {number} the least that `offer` takes */
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

  /** @param {number} value @param {number} place
   *  @returns {number} the least that it takes from now on */
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
      const before = this.#known ? this.#before.indexOf(picked[i]) : -1;
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

  /** The picks are of the heads at hand: the next ones may start from them. */
  remember() {
    this.#known = true;
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

/** Puts a value and its place where they belong in a falling list; the last one drops out.
 *  @param {Float64Array} values @param {Int32Array} places @param {number} first of the places
 *  @param {number} size @param {number} value @param {number} place */
function insertPlace(values, places, first, size, value, place) {
  let at = size - 1;
  for (; at > 0 && values[at - 1] < value; at--) {
    values[at] = values[at - 1];
    places[first + at] = places[first + at - 1];
  }
  values[at] = value;
  places[first + at] = place;
}

// ---------------------------------------------------------------- what stands out

/** Distance from the median in robust standard deviations, as in `cx.find_neurons`.
 *  @param {Numbers} tops @returns {Float64Array} */
export function robustZ(tops) {
  const { middle, deviation } = robustSpread(tops);
  // where most values are alike the spread is zero: the median itself still scores zero
  return Float64Array.from(tops, (top) => (top === middle ? 0 : (top - middle) / deviation));
}

/** A neuron stands out that lies above this: `cx.find_neurons` without a threshold.
 *  @param {Numbers} tops @returns {number} */
export function defaultThreshold(tops) {
  const { middle, deviation } = robustSpread(tops);
  return middle + STANDS_OUT * deviation;
}

/** @param {Numbers} values */
function robustSpread(values) {
  const middle = medianOf(Float64Array.from(values));
  const far = Float64Array.from(values, (value) => Math.abs(value - middle));
  return { middle, deviation: MAD_TO_DEVIATION * medianOf(far) };
}
