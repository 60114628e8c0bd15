/** Byte-level BPE, with the tokens that Python's `tokenizers` gives: of GPT-2's words (ByteLevel with
 *  its regex, no prefix space), of the same with each digit alone, or of Qwen2's. Texts are
 *  plain: a special token typed in one is spelt out, as Python does after
 *  `tokenizer.encode_special_tokens = True`. By hand and not by transformers.js, which would split by the
 *  letters of each browser's own Unicode and would have to be loaded first. */

const UTF8 = new TextEncoder(); // makes U+FFFD of a lone surrogate
const LETTER_BYTES = byteAlphabet();

/** GPT-2's byte alphabet: bytes that print stand for themselves, the others start at U+0100. */
function byteAlphabet() {
  let spare = 256;
  const code = (/** @type {number} */ b) =>
    (b > 32 && b < 127) || (b > 160 && b !== 173) ? b : spare++;
  return new Map(Array.from({ length: 256 }, (_, b) => [String.fromCharCode(code(b)), b]));
}

/** Unicode 16's \p{L} and \p{N}, by which Python splits; a browser's own change with its age. Each
 *  number (base 36) is a step, by turns to the start of a range and past its end. */
const LETTERS =
  "1t q 6 q 1b 1 a 1 4 1 5 n 1 v 1 cq 4 c e 5 7 1 1 1 3l 5 1 2 2 4 1 1 6 1 1 3 1 1 1 k 1 2b 1 3v 8 4m 1 12 2 1 6 15 1z r 4 4 19 17 z 2 1 2r 1 1 f 2 7 2 a 3 2 1 g 1 1 u t 2h b 1 o x 9 2 4 1 5 m 4 1 9 1 3 1 n p 7 b 5 o 1 6 h 16 1m 1i 3 1 i 1 7 a f g 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 d 2 1 3 e 2 a 1 8 6 4 2 2 m 1 7 1 2 1 2 1 2 v 4 1 1 j 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 u 2 1 3 f 1 h 1 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1 n 1 a 1 5 3 1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 8 3 o 6 5 i 3 o 1 9 1 1 2 7 1m 1c 1 2 c 7 1m 2 1 1 1 5 1 o 1 1 1 a 1 2 9 1 2 5 1 1 l 4 w 1 1r 8 1 10 r 5 37 17 k 1 g 6 4 4 3 1 3 2 7 3 4 d c 1 h 12 1 1 5 1 2 17 1 99 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g g 2e 2 6 3 h8 2 h 1 q 5 23 6 8 7 i d j e i e d 1 3 f 1g z 1 4 1 1v 2h 7 5 2 y 1 1 5 1y a v 1d u 2 5 b 18 4 q 1i n 9 1h 2a 1 2l 1b h 8 1i u d 2 a 18 q 10 15 3 a 10 2 b 5 17 2 3 15 4 1 6 1 2 3 1 5 5c 1s 7q 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 38 1 d 1 g d 2t 1 4 1 2 a 1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1g 2 22j 6d 6 4 3 2 c 12 1 1 5 1 2 1k 7 1 g n 9 7 1 7 1 7 1 7 1 7 1 7 1 7 1 7 28 1 d1 2 16 5 5 2 4 2e 6 3 1 2i 1 4 5 17 1 2m h w 1c g e8 534 1s h3h 1v 1a 2 7h 3 g a 2 k 1b g v 2 1y 1d 9 2 2v 2 1v 2 2 1 1 1 8 l g 1 3 1 4 1 n t 1g e 1e 1q 6 3 1 1 2 b s a n p t 7 1b s 1 g 5 1 a a 5 1 15 n 3 1 8 k n 3 1 3 1e 1 1 3 2 2 5 2 1 1 1 o 3 2 b 7 3 c 6 2 6 2 6 9 7 1 7 1 17 1 e 6 37 t 8mc c n 4 1d 6is a6 2 2y 12 7 c 5 5 1 1 a 1 d 1 5 1 1 1 2 1 2 1 30 x a3 i 1s 2 1i 14 c 38 5 1 3r 10 q 6 q b 2h 3 6 2 6 2 6 2 3 z c 1 q 1 j 1 2 1 f 2 e y 3f at t 3 1d 1b w d k 1 8 6 12 a u 2 10 4 8 1c 4e i 10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 3 1g c 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18 1 2 3 1 2 n a n 9 v 1t j 1 2 a m a q 1y 1k 6 2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i 32 21 1j 1f d 1f d 10 12 s 9 n 6y 16 6 2 g 3 1n t a 1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1 2 1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p j 2 1r 7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i 1 c 5 u a 1 1 2 1 1 12 1 1 p 1 1 1 18 1h i 4 k 3 u 1c k 2 1 1 54 1b 15 4 10 1c k 1 1n 17 d 1 1z r 11 7 55 18 38 1s v 8 2 1 2 8 1 2 1 o f 1 1 1 2m 8 2 13 g 1 1 1 s 1 a 14 7 1 l 1 b 1a j 1 i 21 5j x v 9 1 11 h 1 1d u 34 7 1 2 1 12 l 1 p 6 1 2 1 w e 1 93 j f 1 1 d 1 y 3g 1 27 pm 6e 5g 218 2p f ts h 6 p 32z 5 g7 5a1 u 1cy ft 7 v h 27 h u i 1c g 4 v l 5 j c0 19 5v 1s 3k 23 5 1 1u d 1s 2 1 1 s 4qg 8 ye 15 a 6w7 4 1 7 1 2 1 83 f 1 t 3 2 1 e 4 8 b0 1s4 2z 5 d 3 9 7 a 4me 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1 1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 8 1f8 v 6 6 79 1q 42 19 a 7 g 1 8x u i 18 dg s 6c u 2 1 dr 7 1 4 1 2 1 f 1 5h 1n 1w 7 1 xg 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h 3es wyo w 37e 6 66 2 4g2 e 5rl f ha 1wi f2 15u 3t7 5 38g";
const NUMBERS =
  "1c a 3c 2 5 1 2 3 141 a 3q a 5i a bg a 3a a 4 6 30 a 3a a 3a a 2 6 32 d 37 a 8 7 2v a 2w 7 7 j 31 a 2o a 3a a 1y k 7g a 1y a jz k oh 3 6n a 6 a m a 8c a 3k b 4l a 6 a 52 a 2e a 3q a 6 a t2 1 3 6 6 a 5i 1f 2 5 k6 1o 26 m hi u 12h 1 ll 1 p 9 e 3 9j 4 3u a u 8 1 f w a 13 f msg a 58 a 8w 6 4a a 12 a 5i a m a 2e a ba a geu a dp 19 c 1l h 2 9h r 10 4 t 1 8 1 3q 5 5m a q6 8 p 7 13 9 23 5 m 6 4g 2 2 g 2 1a 1s 9 1g 2 u 3 23 5 2w 8 o 8 15 7 96 6 1c a 6 a 7q v 4e a 16 4 34 7 3q u 3k a 1o a 40 a 7 k 6z a 9i a 3a a ae a 2u a 6 k 24 c bo j 2l a ie a 2e t 6b a 1y a bq a 2u l tn 33 c01 a 1t2 a 2e a 3q a 1 7 em a 7a n imx a 152 k c k 30 p ut 1e 1ts a bq a dy a 6v a jw 9 3k a lz 1n 1 3 1 4 24 19 1 f qq d 25f a";

/** A table's ranges as they stand in a character class. @param {string} table */
function classRanges(table) {
  let at = 0;
  const edges = table.split(" ").map((step) => (at += parseInt(step, 36)));
  return edges.map((at, i) => `${i % 2 ? "-" : ""}\\u{${(at - (i % 2)).toString(16)}}`).join("");
}

const [L, N, S] = [classRanges(LETTERS), classRanges(NUMBERS), "\\p{White_Space}"];

/** GPT-2's words. White_Space because \s differs: JavaScript's has U+FEFF, Python's U+0085. */
const GPT2 = new RegExp(
  `'(?:[stmd]|re|ve|ll)| ?[${L}]+| ?[${N}]+| ?[^${S}${L}${N}]+|${S}+(?![^${S}])|${S}+`,
  "gu",
);
const RUSTS = `${N}\\u{11de0}-\\u{11de9}\\u{16ff4}-\\u{16ff6}`; // numbers: of Unicode 17
const DIGITS = new RegExp(`[${RUSTS}]|[^${RUSTS}]+`, "gu");
/** Qwen2's; without regard to case an s may be a long one. */
const QWEN2 = new RegExp(
  `'(?:[sSſtTmMdD]|[rR][eE]|[vV][eE]|[lL]{2})|[^\\r\\n${L}${N}]?[${L}]+|[${N}]| ?[^${S}${L}${N}]+[\\r\\n]*|` +
    `${S}*[\\r\\n]+|${S}+(?![^${S}])|${S}+`,
  "gu",
);

/** @param {RegExp} pattern @returns {(text: string) => string[]} */
const matching = (pattern) => (text) => text.match(pattern) ?? [];

/** How texts become words, by the name that a packed layer has for it.
 *  @type {Record<string, (text: string) => string[]>} */
const KINDS = {
  gpt2: matching(GPT2),
  digits: (text) => matching(DIGITS)(text).flatMap(matching(GPT2)),
  qwen2: matching(QWEN2),
};

export class Tokenizer {
  /** @type {Map<string, number[]>} */ #cache = new Map(); // words come back: most merge once

  /** @param {string[]} vocab in id order @param {[string, string][]} merges as in tokenizer.json
   *  @param {string} [words] of a packed layer; with " nfc" behind it where texts are composed first */
  constructor(vocab, merges, words = "gpt2") {
    const [kind, composed] = words.split(" ");
    this.words = KINDS[kind];
    this.composed = composed === "nfc";
    const ids = new Map(vocab.map((token, id) => [token, id]));
    const id = (/** @type {string} */ token) => {
      const found = ids.get(token);
      if (found !== undefined) return found;
      throw new Error(`the vocabulary lacks ${token}: is it one of a byte-level BPE?`);
    };
    this.vocab = vocab;
    /** -1 for a byte that the vocabulary lacks: texts are read without it, as in Python. */
    this.bytes = [...LETTER_BYTES.keys()].map((letter) => ids.get(letter) ?? -1);
    this.ranks = new Map(merges.map(([a, b], rank) => [id(a) * vocab.length + id(b), rank]));
    this.merged = merges.map(([a, b]) => id(a + b));
  }

  /** A word's tokens: the pair of lowest rank merges, leftmost first, until none is left. A tree of
   *  minima finds it: to search the word each time would take long words quadratic time.
   *  @param {string} word */
  #merge(word) {
    const ids = Array.from(UTF8.encode(word), (byte) => this.bytes[byte]).filter((id) => id >= 0);
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
    const tokens = ids.filter((id) => id >= 0);
    if (word.length < 64) this.#cache.set(word, tokens);
    return tokens;
  }

  /** A text as the model's tokenizer reads it. @param {string} text */
  normal(text) {
    return this.composed ? text.normalize("NFC") : text;
  }

  /** @param {string} text @returns {Int32Array} its tokens */
  encode(text) {
    if (this.#cache.size > 50_000) this.#cache.clear();
    const tokens = (/** @type {string} */ word) => this.#cache.get(word) ?? this.#merge(word);
    return Int32Array.from(this.words(this.normal(text)).flatMap(tokens));
  }

  /** The bytes of a token, as UTF-8 has them. @param {number} id */
  #spelt(id) {
    const token = this.vocab[id] ?? "";
    const own = Array.from(token, (letter) => LETTER_BYTES.get(letter));
    const whole = own.filter((byte) => byte !== undefined);
    return whole.length < own.length ? UTF8.encode(token) : Uint8Array.from(whole); // special ones
  }

  /** The stretches of a text that tokens make, which join to it: a character of several tokens goes to
   *  the one that completes it. @param {Iterable<number>} ids @returns {string[]} */
  stretches(ids) {
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    const made = Array.from(ids, (id) => decoder.decode(this.#spelt(id), { stream: true }));
    if (made.length) made[made.length - 1] += decoder.decode();
    return made;
  }

  /** Text of tokens: special ones too (Python: `skip_special_tokens=False`), "" for unknown ids,
   *  U+FFFD for bytes that are no UTF-8. @param {Iterable<number>} ids @returns {string} */
  decode(ids) {
    return this.stretches(ids).join("");
  }

  /** Tokens with their stretches of the text (composed, where it is), which join to it. A character of
   *  several tokens goes to the one that completes it.
   *  @param {string} typed @returns {{id: number, text: string}[]} */
  pieces(typed) {
    const text = this.normal(typed);
    const own = UTF8.encode(text);
    let [at, bytes, read] = [0, 0, 0]; // where the next character starts; bytes not handed out yet
    const made = Array.from(this.encode(text), (id) => {
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
