/** How texts become words, by the name that a packed layer has for it (`words`): those of byte-level
 *  BPE (GPT-2's, the same with each digit alone, Qwen2's, Llama 3's), of SentencePiece's BPE, and of
 *  BERT's WordPiece. By hand and not by transformers.js, which would split by the letters of each
 *  browser's own Unicode and would have to be loaded first. */

/** Unicode 16's \p{L} and \p{N}, by which Python splits; a browser's own change with its age. Each
 *  number (base 36) is a step, by turns to the start of a range and past its end. */
const LETTERS =
  "1t q 6 q 1b 1 a 1 4 1 5 n 1 v 1 cq 4 c e 5 7 1 1 1 3l 5 1 2 2 4 1 1 6 1 1 3 1 1 1 k 1 2b 1 3v 8 4m 1 12 2 1 6 15 1z r 4 4 19 17 z 2 1 2r 1 1 f 2 7 2 a 3 2 1 g 1 1 u t 2h b 1 o x 9 2 4 1 5 m 4 1 9 1 3 1 n p 7 b 5 o 1 6 h 16 1m 1i 3 1 i 1 7 a f g 4 8 2 2 2 m 1 7 1 1 3 4 3 1 g 1 d 2 1 3 e 2 a 1 8 6 4 2 2 m 1 7 1 2 1 2 1 2 v 4 1 1 j 3 g 9 1 3 1 m 1 7 1 2 1 5 3 1 i 1 f 2 n 1 b 8 2 2 2 m 1 7 1 2 1 5 3 1 u 2 1 3 f 1 h 1 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c m 1 1g 8 1 3 1 n 1 g 3 1 q 3 2 1 2 2 u 1 4 8 1 3 1 n 1 a 1 5 3 1 v 2 1 2 f 2 h 9 1 3 1 15 2 1 g 1 5 3 8 3 o 6 5 i 3 o 1 9 1 1 2 7 1m 1c 1 2 c 7 1m 2 1 1 1 5 1 o 1 1 1 a 1 2 9 1 2 5 1 1 l 4 w 1 1r 8 1 10 r 5 37 17 k 1 g 6 4 4 3 1 3 2 7 3 4 d c 1 h 12 1 1 5 1 2 17 1 99 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 11 g g 2e 2 6 3 h8 2 h 1 q 5 23 6 8 7 i d j e i e d 1 3 f 1g z 1 4 1 1v 2h 7 5 2 y 1 1 5 1y a v 1d u 2 5 b 18 4 q 1i n 9 1h 2a 1 2l 1b h 8 1i u d 2 a 18 q 10 15 3 a 10 2 b 5 17 2 3 15 4 1 6 1 2 3 1 5 5c 1s 7q 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 38 1 d 1 g d 2t 1 4 1 2 a 1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1g 2 22j 6d 6 4 3 2 c 12 1 1 5 1 2 1k 7 1 g n 9 7 1 7 1 7 1 7 1 7 1 7 1 7 1 7 28 1 d1 2 16 5 5 2 4 2e 6 3 1 2i 1 4 5 17 1 2m h w 1c g e8 534 1s h3h 1v 1a 2 7h 3 g a 2 k 1b g v 2 1y 1d 9 2 2v 2 1v 2 2 1 1 1 8 l g 1 3 1 4 1 n t 1g e 1e 1q 6 3 1 1 2 b s a n p t 7 1b s 1 g 5 1 a a 5 1 15 n 3 1 8 k n 3 1 3 1e 1 1 3 2 2 5 2 1 1 1 o 3 2 b 7 3 c 6 2 6 2 6 9 7 1 7 1 17 1 e 6 37 t 8mc c n 4 1d 6is a6 2 2y 12 7 c 5 5 1 1 a 1 d 1 5 1 1 1 2 1 2 1 30 x a3 i 1s 2 1i 14 c 38 5 1 3r 10 q 6 q b 2h 3 6 2 6 2 6 2 3 z c 1 q 1 j 1 2 1 f 2 e y 3f at t 3 1d 1b w d k 1 8 6 12 a u 2 10 4 8 1c 4e i 10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 3 1g c 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18 1 2 3 1 2 n a n 9 v 1t j 1 2 a m a q 1y 1k 6 2 1s 1 f 4 1 3 1 t 16 t 3 t z 8 1 s r 1i a m a j d i 32 21 1j 1f d 1f d 10 12 s 9 n 6y 16 6 2 g 3 1n t a 1 8 m 16 i 1a l r n c 1h 1l 2 2 1 d 19 w p q 10 t 1 2 1 8 z 3 1 c 1c e 4 l 1 1 1 z i 1 p j 2 1r 7 1 1 1 4 1 f 1 a 7 1b 12 8 2 2 2 m 1 7 1 2 1 5 3 1 i 1 c 5 u a 1 1 2 1 1 12 1 1 p 1 1 1 18 1h i 4 k 3 u 1c k 2 1 1 54 1b 15 4 10 1c k 1 1n 17 d 1 1z r 11 7 55 18 38 1s v 8 2 1 2 8 1 2 1 o f 1 1 1 2m 8 2 13 g 1 1 1 s 1 a 14 7 1 l 1 b 1a j 1 i 21 5j x v 9 1 11 h 1 1d u 34 7 1 2 1 12 l 1 p 6 1 2 1 w e 1 93 j f 1 1 d 1 y 3g 1 27 pm 6e 5g 218 2p f ts h 6 p 32z 5 g7 5a1 u 1cy ft 7 v h 27 h u i 1c g 4 v l 5 j c0 19 5v 1s 3k 23 5 1 1u d 1s 2 1 1 s 4qg 8 ye 15 a 6w7 4 1 7 1 2 1 83 f 1 t 3 2 1 e 4 8 b0 1s4 2z 5 d 3 9 7 a 4me 2d 1 1z 1 2 2 1 2 2 2 4 1 c 1 1 1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 8 1f8 v 6 6 79 1q 42 19 a 7 g 1 8x u i 18 dg s 6c u 2 1 dr 7 1 4 1 2 1 f 1 5h 1n 1w 7 1 xg 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1 1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h 3es wyo w 37e 6 66 2 4g2 e 5rl f ha 1wi f2 15u 3t7 5 38g";
const NUMBERS =
  "1c a 3c 2 5 1 2 3 141 a 3q a 5i a bg a 3a a 4 6 30 a 3a a 3a a 2 6 32 d 37 a 8 7 2v a 2w 7 7 j 31 a 2o a 3a a 1y k 7g a 1y a jz k oh 3 6n a 6 a m a 8c a 3k b 4l a 6 a 52 a 2e a 3q a 6 a t2 1 3 6 6 a 5i 1f 2 5 k6 1o 26 m hi u 12h 1 ll 1 p 9 e 3 9j 4 3u a u 8 1 f w a 13 f msg a 58 a 8w 6 4a a 12 a 5i a m a 2e a ba a geu a dp 19 c 1l h 2 9h r 10 4 t 1 8 1 3q 5 5m a q6 8 p 7 13 9 23 5 m 6 4g 2 2 g 2 1a 1s 9 1g 2 u 3 23 5 2w 8 o 8 15 7 96 6 1c a 6 a 7q v 4e a 16 4 34 7 3q u 3k a 1o a 40 a 7 k 6z a 9i a 3a a ae a 2u a 6 k 24 c bo j 2l a ie a 2e t 6b a 1y a bq a 2u l tn 33 c01 a 1t2 a 2e a 3q a 1 7 em a 7a n imx a 152 k c k 30 p ut 1e 1ts a bq a dy a 6v a jw 9 3k a lz 1n 1 3 1 4 24 19 1 f qq d 25f a";
/** What BERT's text has to do with, likewise: `tokenizers` keeps Unicode 8's marks and punctuation,
 *  and drops control characters. */
const MARKS =
  "lc 34 7n 5 7d 19 1 1 1 2 1 2 1 1 20 b 1c l g 1 2t 7 2 6 2 2 1 4 z 1 u r 2j b 1m 9 y 4 1 9 1 3 1 5 17 3 3r w 1j 1 1 1 4 8 4 1 3 7 a 2 t 1 1m 1 4 4 8 1 k 2 t 2 1l 1 4 2 4 2 2 3 3 1 u 2 3 1 b 2 1l 1 4 5 1 2 4 1 k 2 t 1 1m 1 2 1 1 4 8 1 8 1 b 2 u 1 1p 1 c 1 1e 1 1p 3 5 3 1 4 7 2 b 2 t 1 1m 1 2 1 6 1 5 2 k 2 t 1 1r 4 8 1 k 2 2u 1 7 3 1 1 2i 1 2 7 c 8 2q 1 2 6 1 2 b 6 22 2 r 1 1 1 1 1 1j e 1 5 1 2 5 b 1 10 9 1 2u 4 1 6 1 2 2 2 p 2 4 3 g 4 d 1 2 2 6 1 f 1 jj 3 qa 3 t 3 t 2 u 2 1s 2 1 7 8 1 2 b 9 1 19 3 4b 1 3a 3 4 2 9 1 6 3 63 2 2 1 1m 1 1 7 1 1 1 1 2 8 6 a 2 1 1c e 1u 4 1c 1 1 5 1 1 5 1 14 9 c 2 w 4 2 2 1 3 1k 1 1 2 3 1 1 3 1m 8 2 2 48 3 1 d 1 7 4 1 6 1 3 2 5i 1i 6 4 k0 d 4 1 3 c 2da 3 3x 1 2o w fe 4 2z 2 n9w 1 4 a w 2 28 2 7k 1 3 1 4 1 p 2 4d 1 r i 1g 8 p b 1a 3 1c 1 2 4 2 1 14 1 1v 6 2 2 2 2 c 1 8 1 1b 1 1f 1 1 3 2 2 5 2 1 1 16 2 8 1 6m 1 2 1 4 1 fn4 1 kh g g g r1 1 6a 1 45 5 1ae 3 1 2 5 4 14 3 4 1 4l 2 10a 1 1i f 1k 3 1d 4 2 2 1x 3 10 5 1 8 1q 1 c 2 1g 9 b 3 2q 3 2 1 1 2 4n 1 3 8 l 2 1m 1 3 1 11 7 3 5 8u 6 1 1 4 2 1 2 6m 4 6 2 1 2 r 2 2d 8 2 1 1 2 2y 1 1 1 2 6 1 1 2t 3 2 4 1 5 gjo 5 1n 7 uw 4 f7u 2 43s 3 h 8 2 7 u 4 44 3 1iz 1j 4 1e 8 1 e 1 m 5 1 f 2sg 7 gzl5 6o";
const PUNCTUATION =
  "x f a 7 q 6 q 4 y 1 5 1 3 1 a 2 3 1 3 1 ji 1 8 1 cy 6 15 2 1f 1 1 1 2 1 2 1 18 2 k 2 1 2 d 1 2 2 22 4 2u 1 17 e 6h 3 1i f v 1 79 2 a 1 an 1 lf 1 2i 1 a 2 4o f 1 1 11 4 1z 1 22 5 4 2 33 6 4r 1 h0 9 47 1 h8 2 18 2 26 3 1z 2 4d 3 1 3 11 b 8p 2 60 2 3k 7 1 6 4s 7 4b 4 1n 5 1q 2 1s 8 b 1 n0 o 8 k 1 d 1 c u 2 e 2 hl 4 t 2 u5 e 27 2 v a b7 m 1r 4 w 2 l7 4 1 2 34 1 3z 1b 1 j ce 3 4 a 2 c g 1 c 1 2q 1 2i 1 mwy 2 7h 3 2r 1 a 1 37 6 ak 4 2e 2 14 3 1 1 1d 2 1b 1 2p d g 2 3g 4 3i 2 g 2 6x 1 g2a 2 5s a m z 1 e 1 1 4 1 1 2 45 3 1 6 1 4 a 2 3 2 q 3 1 1 r 1 1 1 1 7 be 3 ik 1 1c 1 bi 1 kn 1 5j 1 v 1 7k 9 12 1 34 7 1u 7 2h 4 x6 7 31 2 1 4 3i 4 1c 2 27 5 3 1 d 1 1 3 2g 6 2z 1 f0 1 6y n 2x 3 6w 3 2lt 5 dtl 2 3p 1 1t 5 8 1 g2i 1 5wn 5";
const DROPPED =
  "0 9 2 2 1 i 2n x d 1 11u 6 m 1 5c 1 1d 1 3cu 1 1ks 5 q 5 1d 5 1 a 11u8 4xs 16n 1 6x 3 1 1 3b3 1 xya 4 43z 8 h406 1 u 2o 1egw 1eke 2 1eke";
const IDEOGRAPHS = "a9s 534 1s g74 hkw e8 1fk0 wyo w 3ds 74 49c 85s f4";

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
/** BERT's: a sign of punctuation is one. */
const P = classRanges(PUNCTUATION);
const BERT = new RegExp(`[${P}]|[^${P}${S}]+`, "gu");
const [DROP, IDEOGRAPH, MARK] = [DROPPED, IDEOGRAPHS, MARKS].map(
  (table) => new RegExp(`[${classRanges(table)}]`, "gu"),
);
/** All but letters of scripts that are younger than `tokenizers`, which does not take these apart. */
const PARTED =
  /[^\u{105c9}\u{105e4}\u{11383}\u{11385}\u{1138e}\u{11391}\u{113c5}\u{113c7}\u{113c8}\u{11938}\u{16121}-\u{16128}\u{16d68}-\u{16d6a}]+/gu;

/** @param {RegExp} pattern @returns {(text: string) => string[]} */
const matching = (pattern) => (text) => text.match(pattern) ?? [];

/** @type {Record<string, (text: string) => string[]>} */
const BYTE_LEVEL = {
  gpt2: matching(GPT2),
  digits: (text) => matching(DIGITS)(text).flatMap(matching(GPT2)),
  qwen2: matching(QWEN2),
  llama3: matching(new RegExp(QWEN2.source.replace(`|[${N}]|`, `|[${N}]{1,3}|`), "gu")),
};

/** A text as SentencePiece's BPE reads it: with ▁ for each space, and mostly one in front.
 *  @param {string} text @param {boolean} first whether it begins a whole text @param {Set<string>} how */
function spaced(text, first, how) {
  const own = text.toWellFormed().replaceAll(" ", "▁");
  const lacks = (how.has("always") || (how.has("first") && first)) && !own.startsWith("▁");
  return lacks || how.has("prepend") ? `▁${own}` : own;
}

/** A text as BERT reads it. @param {string} text @param {Set<string>} how */
function plain(text, how) {
  let own = text.toWellFormed();
  if (how.has("clean")) own = own.replace(DROP, "").replace(/\p{White_Space}/gu, " ");
  if (how.has("ideographs")) own = own.replace(IDEOGRAPH, " $& ");
  if (how.has("strip"))
    own = own.replace(PARTED, (known) => known.normalize("NFD")).replace(MARK, "");
  // letter by letter: a sigma that ends a word is one as any other
  return how.has("lower") ? own.replaceAll("Σ", "σ").toLowerCase() : own;
}

/** @typedef {"bytes" | "pieces" | "wordpiece"} Kind what a vocabulary is made of
 *  @typedef {{kind: Kind, how: Set<string>, normal: (text: string, first: boolean) => string,
 *    split: (text: string) => string[]}} Splitting what becomes of a text, and its words then */

/** @param {string} words @returns {Splitting} */
export function splittingOf(words) {
  const [kind, ...options] = words.split(" ");
  const how = new Set(options);
  if (kind === "wordpiece")
    return { kind, how, normal: (text) => plain(text, how), split: matching(BERT) };
  if (kind === "pieces") {
    const split = matching(how.has("split") ? /▁?[^▁]+|▁/gu : /[^]+/gu); // one begins at each ▁
    return { kind, how, normal: (text, first) => spaced(text, first, how), split };
  }
  const normal = (/** @type {string} */ text) => (how.has("nfc") ? text.normalize("NFC") : text);
  return { kind: "bytes", how, normal, split: BYTE_LEVEL[kind] };
}
