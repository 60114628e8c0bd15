/** Arithmetic on rows of numbers, and which of them are largest. */

/** a[i:i+size] . b[j:j+size]
 *  @param {Float64Array} a @param {number} i @param {Float64Array} b @param {number} j @param {number} size */
export function dotProduct(a, i, b, j, size) {
  let sum = 0;
  for (const end = i + size; i < end;) sum += a[i++] * b[j++];
  return sum;
}

/** into[i:i+size] += factor * a[j:j+size]
 *  @param {Float64Array} into @param {number} i @param {number} factor @param {Float64Array} a
 *  @param {number} j @param {number} size */
export function addScaled(into, i, factor, a, j, size) {
  for (const end = i + size; i < end;) into[i++] += factor * a[j++];
}

/** out[r, c] = A[r] . B[c] for the rows of two matrices. Four rows at a time meet two, so that a
 *  number once fetched is used more than once.
 *  @param {Float64Array} A @param {Float64Array} B @param {number} depth @param {Float64Array} out */
export function rowProducts(A, B, depth, out) {
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

const FIELD = 2 ** 17; // the room of each of three sums in one number, sign included
const ROUNDS = 1.5 * 2 ** 52; // a number to which this is added, and taken off again, is whole

/** The rows of a matrix in whole numbers, each with a step of its own that makes it almost 256 long: by
 *  Cauchy and Schwarz a product of two is then smaller than half a FIELD.
 *  @param {Float64Array} A @param {number} depth */
export function wholeRows(A, depth) {
  const rows = new Float64Array(A.length);
  const steps = new Float64Array(A.length / depth);
  const most = 256 - Math.sqrt(depth) / 2; // to round may lengthen a row by the rest
  for (let r = 0, i = 0; r < steps.length; r++) {
    steps[r] = Math.sqrt(dotProduct(A, i, A, i, depth)) / most;
    const inverse = steps[r] ? 1 / steps[r] : 0;
    for (const end = i + depth; i < end; i++) rows[i] = A[i] * inverse + ROUNDS - ROUNDS;
  }
  return { rows, steps };
}

/** `rowProducts` of two matrices as `wholeRows` has them, in a third of the time: three rows of A lie in one
 *  of float64, whose 53 bits have room for the sums of all three. Exact but for the rounding of the rows.
 *  @param {ReturnType<typeof wholeRows>} A @param {ReturnType<typeof wholeRows>} B @param {number} depth
 *  @param {Float64Array} out */
export function wholeProducts(A, B, depth, out) {
  const [rows, columns] = [A.steps.length, B.steps.length];
  const packed = new Float64Array(Math.ceil(rows / 3) * depth);
  for (let r = 0; r < rows; r++)
    addScaled(packed, Math.floor(r / 3) * depth, FIELD ** (r % 3), A.rows, r * depth, depth);
  const left = new Float64Array((packed.length / depth) * columns);
  rowProducts(packed, B.rows, depth, left);
  for (let r = 0, at = 0; r < rows; r++) {
    let i = Math.floor(r / 3) * columns;
    for (let c = 0; c < columns; c++, i++, at++) {
      const above = left[i] * (1 / FIELD) + ROUNDS - ROUNDS;
      out[at] = (left[i] - above * FIELD) * A.steps[r] * B.steps[c];
      left[i] = above;
    }
  }
  return out;
}

/** A matrix with this many columns, column after column. @param {Float64Array} W @param {number} columns */
export function columnMajor(W, columns) {
  const rows = W.length / columns;
  const out = new Float64Array(W.length);
  for (let r = 0; r < rows; r++)
    for (let c = 0; c < columns; c++) out[c * rows + r] = W[r * columns + c];
  return out;
}

/** @param {Float64Array} values @param {number} parts @returns {Float64Array[]} views, no copies */
export function equalParts(values, parts) {
  const size = values.length / parts;
  return Array.from({ length: parts }, (_, i) => values.subarray(i * size, (i + 1) * size));
}

/** Softmax of one row, in place. @param {Float64Array} row */
export function softmaxInPlace(row) {
  const most = row.reduce((a, b) => Math.max(a, b));
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += row[i] = Math.exp(row[i] - most);
  for (let i = 0; i < row.length; i++) row[i] /= sum;
  return row;
}

/** Of an even number of values the mean of the two middle ones. @param {Float64Array} values sorted in place */
export function medianOf(values) {
  values.sort();
  return (values[(values.length - 1) >> 1] + values[values.length >> 1]) / 2;
}

/** One kernel for several heads: the median at each source, renormalised. @param {Float64Array[]} kernels */
export function sharedKernel(kernels) {
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

/** Puts a value and its place where they belong in a falling list; the last one drops out.
 *  @param {Float64Array} values @param {Int32Array} places @param {number} first of the places
 *  @param {number} size @param {number} value @param {number} place */
export function insertPlace(values, places, first, size, value, place) {
  let at = size - 1;
  for (; at > 0 && values[at - 1] < value; at--) {
    values[at] = values[at - 1];
    places[first + at] = places[first + at - 1];
  }
  values[at] = value;
  places[first + at] = place;
}

/** The largest distance from zero. @param {ArrayLike<number>} values @returns {number} */
export function largest(values) {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i]));
  return most;
}

/** The few of `among` whose values are largest, and those whose are smallest, the outermost first: in
 *  one pass, since a vocabulary is long.
 *  @param {Numbers} values @param {Numbers} among places @param {number} count
 *  @returns {{up: number[], down: number[]}} */
export function outermost(values, among, count) {
  const size = Math.min(count, among.length);
  const few = (/** @type {1 | -1} */ sign) => {
    const kept = new Float64Array(size).fill(-Infinity);
    const places = new Int32Array(size);
    for (let i = 0; i < among.length; i++) {
      const value = sign * values[among[i]];
      if (value > kept[size - 1]) insertPlace(kept, places, 0, size, value, among[i]);
    }
    return Array.from(places);
  };
  return { up: few(1), down: few(-1) };
}

/** The number, if it is one of 0 ... size - 1.
 *  @param {number} number @param {number} size @param {string} name */
export function wholeBelow(number, size, name) {
  if (Number.isInteger(number) && number >= 0 && number < size) return number;
  throw new RangeError(`${name} ${number}: there are ${size < 1 ? "none" : `0 to ${size - 1}`}`);
}
