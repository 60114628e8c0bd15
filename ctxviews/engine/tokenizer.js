/** The tokens that Python's `tokenizers` gives, of byte-level BPE, SentencePiece's BPE with bytes for
 *  rare characters, and BERT's WordPiece (`splitting.js`). Texts are plain: a special token typed in
 *  one is spelt out, as Python does after `tokenizer.encode_special_tokens = True`. */

import { splittingOf } from "./splitting.js";

const UTF8 = new TextEncoder(); // makes U+FFFD of a lone surrogate
const LETTER_BYTES = byteAlphabet();

/** @template T @param {(byte: number) => T} of @returns {T[]} */
function everyByte(of) {
  return Array.from({ length: 256 }, (_, byte) => of(byte));
}

/** GPT-2's byte alphabet: bytes that print stand for themselves, the others start at U+0100. */
function byteAlphabet() {
  let spare = 256;
  const code = (/** @type {number} */ b) =>
    (b > 32 && b < 127) || (b > 160 && b !== 173) ? b : spare++;
  return new Map(everyByte((b) => [String.fromCharCode(code(b)), b]));
}

/** Of each byte how a vocabulary spells it. @type {Record<import("./splitting.js").Kind, string[]>} */
const BYTES = {
  bytes: [...LETTER_BYTES.keys()],
  pieces: everyByte((b) => `<0x${(b + 256).toString(16).slice(1).toUpperCase()}>`),
  wordpiece: [],
};

/** @typedef {{id: number, text: string}} Piece
 *  @typedef {{vocab: string[], merges: [string, string][], words?: string,
 *    added?: [string, boolean][], own?: number}} Spelt what a packed layer has of a tokenizer: the
 *    vocabulary in id order, merges as in tokenizer.json, how texts become words; tokens that are found
 *    before, the longest first, each with whether it is a special one; and how many tokens are the model's own */

export class Tokenizer {
  /** @type {Map<string, number[]>} */ #cache = new Map(); // words come back: most merge once

  /** @param {Spelt} spelt */
  constructor({ vocab, merges, words = "gpt2", added = [], own = vocab.length }) {
    this.splitting = splittingOf(words);
    this.kind = this.splitting.kind;
    this.front = /prepend|always|first/.test(words); // a space is put there
    const ids = (this.ids = new Map(vocab.slice(0, own).map((token, id) => [token, id])));
    const id = (/** @type {string} */ token) => {
      const found = ids.get(token);
      if (found !== undefined) return found;
      throw new Error(`the vocabulary lacks ${token}: is it the one of these merges?`);
    };
    this.vocab = vocab;
    /** -1 for a byte that the vocabulary lacks: texts are read without it, as in Python. */
    this.bytes = BYTES[this.kind].map((token) => ids.get(token) ?? -1);
    this.ranks = new Map(merges.map(([a, b], rank) => [id(a) * vocab.length + id(b), rank]));
    this.merged = merges.map(([a, b]) => id(a + b));
    const usual = added.filter(([, special]) => !special);
    this.added = new Map(usual.map(([token]) => [token, vocab.lastIndexOf(token)]));
    const literal = added.map(([token]) => token.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    this.marks = usual.length ? new RegExp(literal.join("|"), "gu") : null;
  }

  /** Tokens merge: the pair of lowest rank, leftmost first, until none is left. A tree of minima finds
   *  it: to search them each time would take long words quadratic time. @param {number[]} ids */
  #merge(ids) {
    const [n, next, previous] = [ids.length, ids.map((_, i) => i + 1), ids.map((_, i) => i - 1)];
    const tree = Array(2 * n).fill(Infinity); // leaves: rank * n + place; tree[1] is the least
    const update = (/** @type {number} */ at) => {
      const rank = this.ranks.get(ids[at] * this.vocab.length + ids[next[at]]) ?? Infinity;
      tree[n + at] = rank * n + at;
      for (let i = n + at; i > 1; i >>= 1) tree[i >> 1] = Math.min(tree[i], tree[i ^ 1]);
    };
    for (let at = 0; at < n; at++) update(at);
    while (tree[1] < Infinity) {
      const [at, rank] = [tree[1] % n, Math.floor(tree[1] / n)];
      const right = next[at];
      [ids[at], ids[right], next[at]] = [this.merged[rank], -1, next[right]];
      previous[next[at]] = at;
      for (const changed of [Math.max(previous[at], 0), at, right]) update(changed);
    }
    return ids.filter((id) => id >= 0);
  }

  /** The longest token that begins a word, then the longest that goes on: all of it, or unknown.
   *  @param {string} word */
  #longest(word) {
    const [letters, found] = [Array.from(word), /** @type {number[]} */ ([])];
    const unknown = [Number(this.ids.get("[UNK]"))];
    if (letters.length > 100) return unknown; // it is not looked at
    for (let at = 0, end = 0; at < letters.length; at = end) {
      const token = () => (at ? "##" : "") + letters.slice(at, end).join("");
      for (end = letters.length; end > at && !this.ids.has(token());) end--;
      if (end === at) return unknown;
      found.push(Number(this.ids.get(token())));
    }
    return found;
  }

  /** @param {string} word @returns {number[]} */
  #tokens(word) {
    if (this.kind === "wordpiece") return this.#longest(word);
    const pieces = this.kind === "pieces";
    const letters = () => Array.from(UTF8.encode(word), (byte) => BYTES.bytes[byte]).join("");
    const whole = this.splitting.how.has("whole")
      ? this.ids.get(pieces ? word : letters())
      : undefined;
    if (whole !== undefined) return [whole];
    const rare = (/** @type {string} */ c) =>
      Array.from(UTF8.encode(c), (byte) => this.bytes[byte]);
    const begun = Array.from(word).flatMap(
      (c) => (pieces ? this.ids.get(c) : undefined) ?? rare(c),
    );
    return this.#merge(begun.filter((id) => id >= 0));
  }

  /** A text as the model's tokenizer reads it. @param {string} text @param {boolean} [first] */
  normal(text, first = true) {
    return this.splitting.normal(text, first);
  }

  /** What a text is made of: tokens that are found in it before all others, and what is between them.
   *  @param {string} typed @returns {Generator<{id?: number, text: string, first: boolean}>} */
  *#parts(typed) {
    const text = this.splitting.how.has("late") ? this.normal(typed) : typed;
    let at = 0;
    for (const { 0: token, index } of this.marks ? text.matchAll(this.marks) : []) {
      const id = this.added.get(token);
      if (id === undefined) continue;
      if (index > at) yield { text: text.slice(at, index), first: at === 0 };
      yield { id, text: token, first: false };
      at = index + token.length;
    }
    if (at < text.length) yield { text: text.slice(at), first: at === 0 };
  }

  /** @param {string} text @param {boolean} first @returns {number[]} */
  #read(text, first) {
    return this.splitting.split(this.normal(text, first)).flatMap((word) => {
      const tokens = this.#cache.get(word) ?? this.#tokens(word);
      if (word.length < 64) this.#cache.set(word, tokens);
      return tokens;
    });
  }

  /** @param {string} text @returns {Int32Array} its tokens */
  encode(text) {
    if (this.#cache.size > 50_000) this.#cache.clear();
    const ids = [...this.#parts(text)].map((part) => part.id ?? this.#read(part.text, part.first));
    return Int32Array.from(ids.flat());
  }

  /** The bytes of a token, as UTF-8 has them. @param {number} id @param {boolean} first whether none is
   *  before it */
  #spelt(id, first) {
    const token = this.vocab[id] ?? "";
    if (this.kind === "wordpiece") {
      const space = first || /^[.,?!]$/.test(token) ? "" : " ";
      return UTF8.encode(!first && token.startsWith("##") ? token.slice(2) : space + token);
    }
    if (this.kind === "pieces") {
      const byte = BYTES.pieces.indexOf(token);
      return byte < 0 ? UTF8.encode(token.replaceAll("▁", " ")) : Uint8Array.of(byte);
    }
    const own = Array.from(token, (letter) => LETTER_BYTES.get(letter));
    const whole = own.filter((byte) => byte !== undefined);
    return whole.length < own.length ? UTF8.encode(token) : Uint8Array.from(whole); // special ones
  }

  /** The stretches of a text that tokens make, which join to it: a character of several tokens goes to
   *  the one that completes it.
   *  @param {Iterable<number>} ids @param {boolean} [first] whether none is before them @returns {string[]} */
  stretches(ids, first = true) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const spelt = Array.from(ids, (id, i) => this.#spelt(id, first && i === 0));
    const made = spelt.map((bytes) => decoder.decode(bytes, { stream: true }));
    if (made.length) made[made.length - 1] += decoder.decode();
    if (made.length && first && this.front) made[0] = made[0].replace(/^ /, "");
    return made;
  }

  /** Text of tokens: special ones too (Python: `skip_special_tokens=False`), "" for unknown ids,
   *  U+FFFD for bytes that are no UTF-8. @param {Iterable<number>} ids @returns {string} */
  decode(ids) {
    return this.stretches(ids).join("");
  }

  /** A token by itself: with the space in front of it, or with the ## of a word that goes on.
   *  @param {number} id @returns {string} */
  alone(id) {
    return this.stretches([id], this.kind !== "pieces").join("");
  }

  /** Tokens with their stretches of the text (as it is read), which join to it.
   *  @param {string} typed @returns {Piece[]} */
  pieces(typed) {
    if (this.kind !== "bytes") {
      const ids = this.encode(typed);
      return this.stretches(ids).map((text, i) => ({ id: ids[i], text }));
    }
    return [...this.#parts(typed)].flatMap(({ id, text }) =>
      id === undefined ? this.#bytePieces(this.normal(text)) : { id, text },
    );
  }

  /** A character of several tokens goes to the one that completes it.
   *  @param {string} text @returns {Piece[]} */
  #bytePieces(text) {
    const own = UTF8.encode(text);
    let [at, bytes, read] = [0, 0, 0]; // where the next character starts; bytes not handed out yet
    const made = this.#read(text, true).map((id) => {
      const from = at;
      for (let left = this.vocab[id].length; left > 0; bytes++, read++)
        if (this.bytes[own[read]] >= 0) left--;
      for (let size; at < text.length; at += size > 3 ? 2 : 1, bytes -= size) {
        size = 1 + [0x7f, 0x7ff, 0xffff].filter((top) => Number(text.codePointAt(at)) > top).length;
        if (size > bytes) break;
      }
      return { id, text: text.slice(from, at) };
    });
    if (made.length) made[made.length - 1].text += text.slice(at); // bytes that no token has
    return made;
  }
}
