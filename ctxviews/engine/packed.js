/** Reads the files that `layerfile.py`, `fixedfile.py` and `neuronfile.py` pack. */

import { FixedQueryLayer } from "./fixedQuery.js";
import { LearnedLayer } from "./absolutePositions.js";
import { NeuronPredictor } from "./neuron.js";
import { nextTurn } from "./slices.js";

/** What makes something of each kind of file; a part of a layer is tensors alone. */
const KINDS = {
  "ctxlib layer": LearnedLayer,
  "ctxlib fixed-query layer": FixedQueryLayer,
  "ctxlib neuron": NeuronPredictor,
};
const PART = "ctxlib layer part";
const LAYER_VERSION = 3;

/** Fetches a packed layer, or whatever a file holds of one (`KINDS`).
 *  @param {string | URL} url @param {Bringing} [how] `onProgress` gets 0 to 1
 *  @returns {Promise<any>} or an Error with one sentence for the reader */
export async function loadLayer(url, { onProgress = () => {}, signal } = {}) {
  const place = new URL(url, globalThis.location?.href);
  const unpacked = await opened(place, fetchedBytes(place, onProgress, signal));
  const { folder } = unpacked.header;
  /** @type {FetchPart} */
  const part = async (name, onProgress, signal) => {
    const file = new URL(`${folder}/${name}.bin`, place);
    return (await opened(file, fetchedBytes(file, onProgress, signal), PART)).tensors;
  };
  return made(unpacked, folder ? part : undefined);
}

/** The layer in bytes that are here already: a notebook sends them.
 *  @param {ArrayBuffer | ArrayBufferView} bytes @returns {Promise<any>} or an Error as above */
export async function readLayer(bytes) {
  const whole = ArrayBuffer.isView(bytes)
    ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    : new Uint8Array(bytes);
  const parts = [/** @type {Uint8Array<ArrayBuffer>} */ (whole)];
  return made(await opened(new URL("data:layer"), parts));
}

/** @param {{header: any, tensors: Record<string, any>}} unpacked @param {FetchPart} [part] */
function made({ header, tensors }, part) {
  const Kind = KINDS[/** @type {keyof typeof KINDS} */ (header.format)];
  return new Kind(header, tensors, part);
}

/** What is unpacked of a file, a layer or a neuron unless it is to be another `format`; an Error explains in
 *  one sentence why it is not, but a signal's own goes on as it is.
 *  @param {URL} file @param {Parameters<typeof unzippedBytes>[0]} bytes @param {string} [format] */
async function opened(file, bytes, format) {
  try {
    const unpacked = unpackedLayer(await unzippedBytes(bytes), format);
    await nextTurn(); // what is made of it takes a phone as long again
    return unpacked;
  } catch (error) {
    if (error instanceof DOMException) throw error;
    const name = file.pathname.split("/").pop() || "layer";
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`This view's data (${name}) cannot be used: ${reason}.`);
  }
}

/** The bytes of a file as they come. @param {URL} url @param {(share: number) => void} onProgress
 *  @param {AbortSignal} [signal] @returns {AsyncGenerator<Uint8Array<ArrayBuffer>>} */
async function* fetchedBytes(url, onProgress, signal) {
  const response = await fetch(url, { signal }).catch(() => {
    signal?.throwIfAborted();
    throw new Error("the server does not answer");
  });
  if (!response.ok || !response.body) throw new Error(`the server answers ${response.status}`);
  const size = Number(response.headers.get("Content-Length")) || Infinity;
  const reader = response.body.getReader();
  for (let received = 0; ;) {
    const { done, value } = await reader.read().catch(() => {
      signal?.throwIfAborted();
      throw new Error("the connection broke off");
    });
    if (done) break;
    yield value;
    received += value.length;
    onProgress(Math.min(received / size, 1));
  }
  onProgress(1);
}

/** What gzip packed, unpacked as it comes; its own checksum and length show whether all of it is there.
 *  @param {AsyncIterable<Uint8Array<ArrayBuffer>> | Uint8Array<ArrayBuffer>[]} bytes */
async function unzippedBytes(bytes) {
  const { readable, writable } = new DecompressionStream("gzip");
  const unzipped = new Response(readable).arrayBuffer();
  const writer = writable.getWriter();
  const ignore = () => {}; // each promise fails on what is no gzip: the last one's failure counts
  unzipped.catch(ignore);
  let begun = false;
  for await (const part of bytes) {
    if (!begun && part.length && part[0] !== 0x1f) throw new Error("it is another kind of file");
    begun ||= part.length > 0;
    writer.write(part).catch(ignore);
  }
  if (!begun) throw new Error("it is empty");
  writer.close().catch(ignore);
  return unzipped.catch(() => {
    throw new Error("it is damaged or cut off");
  });
}

/** @param {ArrayBuffer} buffer @param {string} [format]
 *  @returns {{header: LayerHeader & FixedQueryHeader, tensors: Record<string, any>}} tensors by name, float16 widened */
function unpackedLayer(buffer, format) {
  const { header, start } = layerHeader(buffer);
  if (format ? header.format !== format : !Object.hasOwn(KINDS, header.format))
    throw new Error("it is another kind of file");
  if (header.version !== LAYER_VERSION)
    throw new Error(
      `it has version ${header.version} and this page reads version ${LAYER_VERSION}`,
    );
  const tensors = header.tensors.map(({ name, type, shape, offset }) => {
    const [at, count] = [start + offset, entries(shape)];
    if (type === "U8") return [name, halvesWidened(new Uint8Array(buffer, at, count))];
    const held = new NUMBERS[type](buffer, at, count);
    return [name, type === "F32" ? new Float64Array(held) : held];
  });
  return { header, tensors: Object.fromEntries(tensors) };
}

/** @type {Record<string, any>} */
const NUMBERS = {
  I8: Int8Array,
  U16: Uint16Array,
  U32: Uint32Array,
  U8: Uint8Array, // float16: all low bytes, then all high ones
  F32: Float32Array,
};

/** @param {number[]} shape */
function entries(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** The header of a safetensors file: its metadata, with the list of its tensors.
 *  @param {ArrayBuffer} buffer @returns {{header: LayerHeader & FixedQueryHeader, start: number}} */
function layerHeader(buffer) {
  try {
    const start = 8 + Number(new DataView(buffer).getBigUint64(0, true));
    const text = new TextDecoder().decode(new Uint8Array(buffer, 8, start - 8));
    const { __metadata__: metadata, ...held } = JSON.parse(text);
    const tensors = Object.entries(held).map(([name, { dtype, shape, data_offsets }]) => {
      return { name, type: dtype, shape, offset: data_offsets[0] };
    });
    return { header: { ...Object(JSON.parse(metadata.header)), tensors }, start };
  } catch {
    throw new Error("it is another kind of file");
  }
}

/** @type {Float64Array | undefined} for all files */ let halves;

/** float16 to float64. @param {Uint8Array} bytes all low ones, then all high ones */
function halvesWidened(bytes) {
  // every float16, because not every browser has numbers of that kind
  const table = (halves ??= new Float64Array(65536).map((_, i) => {
    const [exponent, fraction] = [(i >> 10) & 31, i & 1023];
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    return i >> 15 ? -size : size;
  }));
  const out = new Float64Array(bytes.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = table[bytes[i] | (bytes[i + out.length] << 8)];
  return out;
}
