/** The packed layer: what `layerfile.py` and `askedfile.py` write, read and checked. */

import { AskedLayer } from "./asked.js";
import { LearnedLayer } from "./learned.js";
import { HeardNeuron } from "./neuron.js";

/** @typedef {import("./layer.js").Layer} Layer
 *  @typedef {{id: number, denominators: number[], scale: number}} Destination
 *  @typedef {{family: string, because: string, effectiveTokens: number, halfMass: number,
 *    unevenness: number, copyPreference: number | null}} Family a head's, and what it was told from
 *  @typedef {{name: string, type: string, shape: number[], offset: number}} TensorEntry
 *  @typedef {{
 *    format: string, version: number, tensors: TensorEntry[], model: string, vocab_size: number,
 *    d_model: number, heads: number, d_head: number, neurons: number, positions: number, eps: number,
 *    n: number, largest: number, stable: number[], destinations: Destination[],
 *    calibration: {name: string, ids: number[]}, families: Family[],
 *    passages: {name: string, domain: string, title: string}[], untrained: number[],
 *    vocab: string[], bos: number, byte_level: boolean, words?: string}} CommonHeader
 *  @typedef {CommonHeader & {C: number, attn_scale: number, finer: number}} LayerHeader of weights
 *  @typedef {CommonHeader & {length: number}} AskedHeader of one destination */

const LAYER = {
  sizes: ["d_model", "d_head", "neurons", "positions", "n", "largest"],
  lists: ["stable", "destinations", "families", "passages", "untrained"],
  tensors: ["ranked", "passage_ids", "passage_ends", "merges"],
};

/** Of each kind of file what makes something of it, and what it must hold: numbers that count, other
 *  positive ones, lists, and tensors. */
const KINDS = {
  "ctxlib layer": {
    Kind: LearnedLayer,
    sizes: [...LAYER.sizes, "finer"],
    reals: ["eps", "C", "attn_scale"],
    lists: LAYER.lists,
    tensors: [
      ..."W_E W_E_step fine W_E_fine W_pos W_Q W_K W_V W_O W_in b_Q b_V b_O means".split(" "),
      ...LAYER.tensors,
    ],
  },
  "ctxlib asked layer": {
    Kind: AskedLayer,
    sizes: [...LAYER.sizes, "length"],
    reals: ["eps"],
    lists: LAYER.lists,
    tensors: [
      ...(
        "known kernels content value_of moved beside means of_token of_token_step of_token_spread " +
        "of_token_mean W_O W_O_step W_O_spread W_O_mean W_in W_in_step W_in_spread W_in_mean told_top told_mean " +
        "told_tokens"
      ).split(" "),
      ...LAYER.tensors,
    ],
  },
  "ctxlib neuron": {
    Kind: HeardNeuron,
    sizes: ["length", "first_merged"],
    reals: [],
    lists: [],
    tensors: ["kernels", "content", "adds", "left"],
  },
};
const LAYER_VERSION = 1;

/** Fetches a packed layer, or whatever a file holds of one (`KINDS`).
 *  @param {string | URL} url @param {(share: number) => void} [onProgress] told 0 to 1
 *  @returns {Promise<any>} or an Error with one sentence for the reader */
export async function loadLayer(url, onProgress = () => {}) {
  const name = new URL(url, globalThis.location?.href).pathname.split("/").pop();
  return layerFrom(name || "layer", () => fetchedBytes(url, onProgress));
}

/** The layer in bytes that are here already: a notebook sends them.
 *  @param {ArrayBuffer | ArrayBufferView} bytes @returns {Promise<any>} or an Error as above */
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
    const { Kind } = KINDS[/** @type {keyof typeof KINDS} */ (header.format)];
    return new Kind(/** @type {any} */ (header), tensors);
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
 *  @returns {{header: LayerHeader & AskedHeader, tensors: Record<string, any>}} tensors by name, float16 widened */
function unpackedLayer(buffer) {
  const { header, start } = layerHeader(buffer);
  if (!Object.hasOwn(KINDS, header.format)) throw new Error("it is another kind of file");
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
  const halves = everyHalf();
  const tensors = header.tensors.map(({ name, type, shape, offset }) => {
    const count = entries(shape);
    const held = new kinds[type](buffer, start + offset, type === "float16" ? 2 * count : count);
    if (type === "float16") return [name, halvesWidened(held, halves)];
    return [name, type === "float32" ? new Float64Array(held) : held];
  });
  return { header, tensors: Object.fromEntries(tensors) };
}

const WIDTHS = /** @type {Record<string, number>} */ ({
  int8: 1, uint16: 2, uint32: 4, float16: 2, float32: 4,
}); // prettier-ignore
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
  const { vocab, tensors } = header;
  const kind = KINDS[/** @type {keyof typeof KINDS} */ (header.format)];
  return (
    ["vocab_size", "heads", ...kind.sizes].find((name) => !isSize(header[name])) ??
    kind.reals.find((name) => !(header[name] > 0)) ??
    ["vocab", ...kind.lists].find((name) => !Array.isArray(header[name])) ??
    (vocab.length === header.vocab_size ? undefined : "vocab") ??
    (kind.lists.length ? malformedLists(header) : undefined) ??
    (Array.isArray(tensors) && tensors.every(isTensor) ? undefined : "tensors") ??
    [
      ...kind.tensors.filter((name) => !tensors.some((/** @type {any} */ t) => t.name === name)),
      ...tensors.flatMap((/** @type {any} */ t) => (fits(t) ? [] : [t.name])),
    ].map((name) => `tensor ${name}`)[0]
  );
}

/** Likewise of what layers hold and a neuron does not. @param {any} header */
function malformedLists({ heads, families, destinations, calibration }) {
  if (families.length !== heads) return "families";
  if (!destinations.length) return "destinations";
  return Array.isArray(calibration?.ids) ? undefined : "calibration";
}

/** @param {ArrayBuffer} buffer @returns {{header: LayerHeader & AskedHeader, start: number}} */
function layerHeader(buffer) {
  try {
    const start = 4 + new DataView(buffer).getUint32(0, true);
    const text = new TextDecoder().decode(new Uint8Array(buffer, 4, start - 4));
    return { header: Object(JSON.parse(text)), start };
  } catch {
    throw new Error("it is another kind of file");
  }
}

/** Every float16 as a float64, because not every browser has numbers of that kind. */
function everyHalf() {
  return new Float64Array(65536).map((_, i) => {
    const exponent = (i >> 10) & 31;
    const fraction = i & 1023;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    return i >> 15 ? -size : size;
  });
}

/** float16 to float64. @param {Uint8Array} bytes all low ones, then all high ones
 *  @param {Float64Array} table */
function halvesWidened(bytes, table) {
  const out = new Float64Array(bytes.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = table[bytes[i] | (bytes[i + out.length] << 8)];
  return out;
}
