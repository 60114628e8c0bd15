"""The tokenizer of the pages, in a real browser: the same tokens as in Python, for every text.

Without Chromium these tests are left out, and say so.
"""

import json
import random
import re
import sys
import unicodedata
from functools import cache, partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import PreTrainedTokenizerFast

import ctxlib as cx
from ctxviews import layerfile

PASSAGES = [f.read_text() for f in sorted((cx.models.MINI.parent / "passages").glob("*.txt"))]
SPECIAL = "<le début du texte>"  # neither its spaces nor all its bytes are of the byte alphabet
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


PARTS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
WORDS = {
    "gpt2": GPT2,
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), GPT2]),
    "qwen2": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(layerfile.QWEN2), "isolated", invert=False), PARTS]
    ),
    "llama3": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(layerfile.LLAMA3), "isolated", invert=False), PARTS]
    ),
}


def byte_level(model, words="gpt2"):
    """A tokenizer in the style of GPT-2, SmolLM2 or Qwen2 around a model."""
    tokenizer = Tokenizer(model)
    kind, *composed = words.split(" ")
    tokenizer.pre_tokenizer = WORDS[kind]
    tokenizer.normalizer = normalizers.NFC() if composed else None
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def shuffled(words="gpt2"):
    """The merges of `mini` in another order: a merge may make a pair that comes before all others,
    which never happens with merges that were learnt."""
    content = json.loads((cx.models.MINI / "tokenizer.json").read_text())["model"]
    merges = [tuple(pair) for pair in content["merges"]]
    random.Random(0).shuffle(merges)
    return byte_level(models.BPE(content["vocab"], merges), words)


def word_ends(words="gpt2"):
    """Every byte merges with a few signs that may follow it, so tokens show where words end."""
    merges = [(byte, sign) for byte in ALPHABET for sign in "a1!s'Ċ"]
    random.Random(0).shuffle(merges)
    tokens = dict.fromkeys(ALPHABET + [a + b for a, b in merges])
    return byte_level(models.BPE({token: i for i, token in enumerate(tokens)}, merges), words)


def whole(make, *args):
    """The same, where a word that is a token need not be merged: here half of them cannot."""
    tokenizer = make(*args)
    spec = json.loads(tokenizer.to_str())
    spec["model"]["ignore_merges"] = True
    del spec["model"]["merges"][::2]
    return Tokenizer.from_str(json.dumps(spec))


def with_added(make, *args, normalized=False, marks=("  ", "    ", "\n\n", "<tool", "<tool>")):
    """The same with tokens that are found in a text before it is split; but not in special ones."""
    tokenizer = make(*args)
    tokenizer.add_tokens([AddedToken(mark, normalized=normalized) for mark in marks])
    tokenizer.add_special_tokens([AddedToken("<tool>\n", normalized=normalized)])
    tokenizer.add_special_tokens([AddedToken("a!", normalized=not normalized)])
    return tokenizer


VOCABULARIES = {
    "mini": lambda: Tokenizer.from_file(str(cx.models.MINI / "tokenizer.json")),
    "shuffled": shuffled,
    "word_ends": word_ends,
    "digits, word_ends": partial(word_ends, "digits"),
    "qwen2 nfc": partial(shuffled, "qwen2 nfc"),
    "qwen2, word_ends": partial(word_ends, "qwen2"),
    "llama3, word_ends": partial(word_ends, "llama3"),
    "llama3 whole": partial(whole, shuffled, "llama3"),
}


SPACED = normalizers.Replace(" ", "▁")
AT_SPACE = pre_tokenizers.Split(" ", "merged_with_previous")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def metaspace(scheme, split=False):
    return pre_tokenizers.Metaspace("▁", scheme, split)


@cache
def trained_pieces(split):
    """A vocabulary and merges over the commonest characters of the passages."""
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = metaspace("always", split)
    # merges that reach over spaces, where words are not split, and over bytes that are spelt out
    lines = [line[:60] for text in PASSAGES for line in text.split(". ")] + ["<0x41>"] * 50
    marks = {"special_tokens": ["<unk>", "<s>", *BYTES], "show_progress": False}
    model.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=1500, limit_alphabet=70, **marks)
    )
    content = json.loads(model.to_str())["model"]
    return content["vocab"], [tuple(pair) for pair in content["merges"]]


def pieces(normalizer, before, split=False, **options):
    """A tokenizer in the style of Llama 2, Mistral or Gemma."""
    vocab, merges = trained_pieces(split)
    rare = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    tokenizer = Tokenizer(models.BPE(vocab, merges, **rare, **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, before
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    in_front = normalizer is None and '"never"' not in before.__getstate__().decode()
    in_front = in_front or isinstance(normalizer, normalizers.Sequence)
    tokenizer.decoder = decoders.Sequence(parts + [decoders.Strip(" ", 1, 0)] * in_front)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    return tokenizer


def bert(**options):
    """A WordPiece as BERT's, trained on the passages."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    marks = {"special_tokens": ["[UNK]", "[CLS]", "[SEP]"], "show_progress": False}
    trainer = trainers.WordPieceTrainer(vocab_size=1500, limit_alphabet=120, **marks)
    tokenizer.train_from_iterator([*PASSAGES, "ÀÉ ΟΔΟΣ σς İI 文脈 ß"], trainer)
    tokenizer.add_special_tokens([AddedToken("plain", special=True)])  # no word of the model's
    return tokenizer


def minilm():
    own = cx.fix_query("minilm").tokenizer.backend_tokenizer
    return Tokenizer.from_str(own.to_str())  # another: what follows changes it


PREPENDED = normalizers.Sequence([normalizers.Prepend("▁"), SPACED])
#: Tokenizers of other kinds, and how `layerfile` names them.
OTHERS = {
    "pieces prepend": lambda: pieces(PREPENDED, None),
    "pieces": lambda: pieces(SPACED, AT_SPACE),
    "pieces first": lambda: pieces(None, metaspace("first")),
    "pieces always split": lambda: pieces(None, metaspace("always", True), True),
    "pieces first split whole": lambda: whole(pieces, None, metaspace("first", True), True),
    "pieces whole": lambda: whole(pieces, None, metaspace("never")),
    "wordpiece clean ideographs strip lower": bert,
    "wordpiece clean ideographs": lambda: bert(lowercase=False),
    "wordpiece strip": lambda: bert(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ),
    "wordpiece lower": lambda: bert(
        clean_text=False, handle_chinese_chars=False, strip_accents=False
    ),
}
#: With tokens that are found before a text is split; and real ones.
MORE = {
    "added, bytes": lambda: with_added(shuffled, "qwen2 nfc"),
    "added, bytes, late": lambda: with_added(shuffled, "gpt2 nfc", normalized=True),
    "added, digits": lambda: with_added(shuffled, "digits", normalized=True),
    "added, prepend": lambda: with_added(pieces, PREPENDED, None),
    "added, first": lambda: with_added(pieces, None, metaspace("first")),
    "added, always": lambda: with_added(pieces, None, metaspace("always", True), normalized=True),
    "added, wordpiece": lambda: with_added(bert),
    "mini": VOCABULARIES["mini"],
    "minilm": minilm,
}


def sentence(rng):
    return rng.choice([s for s in rng.choice(PASSAGES).split(". ") if s])


def some(*parts):
    """A kind of text: a few of these parts, in any order."""
    return lambda rng: "".join(rng.choices(parts, k=rng.randint(1, 8)))


def anything(rng):
    """Code points from all planes, small ones more often; half of a pair may be among them. But for
    the marks of Unicode 14, which Python's tokenizers leave where they stand in composing a text.
    """
    drawn = (chr(int(0x110000 ** rng.random() - 1)) for _ in range(rng.randint(1, 30)))
    return re.sub("[\u1ac1-\u1ace]", "", "".join(drawn))


def long_word(rng):
    return rng.choice(["a", "é", "1", "-", " ", "\n", "ab", "字"]) * rng.choice([50, 700])


# fmt: off
KINDS = {
    "sentence": sentence,
    "emoji": some("👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇫🇷", "\u200d", "\ufe0f", "🎉", "é", " ", "1️⃣", "😀"),
    "cjk": some("文脈", "重み", "、", "。", "한국어", "漢字", "\u3000", "ｶﾅ", "𠮷", "a", "三"),
    "combining": some("e\u0301", "\u0308", "ก็", "नि", "\u0301\u0302", "a", " ", "1\u0303", "𝒜"),
    "lines": some("\r\n", "\n", "\r", "\t", "a", " ", "\r\n\r\n", "  ", "b c"),
    "spaces": some(*" \x85\xa0\u180e\u2003\u200b\u2028\u3000\ufeff\x1f\0a1!", " ", "\t\n"),
    "apostrophes": some(*re.findall(r"\S+", "'s 'T 't 're 'RE 've 'm 'll 'd 'x ' ’s 1's"), " "),
    "tails": lambda rng: sentence(rng)[:40] + rng.choice(" \n\t\u00a0\u3000") * rng.randint(1, 300),
    "long words": long_word,
    "special": some("<|endoftext|>", SPECIAL, "<|endoftext", "|>", " ", "a"),
    "surrogates": some("\ud83d", "\ude00", "\ud83d\ude00", "a", " ", "\udfff", "😀", "\ufffd", "1"),
    "numbers": some("1", "²", "½", "٣", "Ⅻ", "①", "१२", "𝟘", "10,000", " ", "a", "万", "\u16ee"),
    "anything": anything,
}
# fmt: on


def drawn_texts(count):
    """Awkward ones, then kinds and mixtures of them; the same every time."""
    rng = random.Random(0)
    texts = ["", " ", "\0", "\ufeff", "\ufeffa", "a" * 10_000, " " * 10_000, "aé" * 3000 + "\ud800"]
    texts += PASSAGES
    while len(texts) < count:
        kinds = rng.choices([*KINDS.values()], k=rng.choice([1, 4]))
        texts.append("".join(draw(rng) for draw in kinds))
    return texts


def code_points(text, halves="surrogatepass"):
    """A text as JavaScript sees it: two halves of a pair that meet are one character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", halves)


nfc = partial(unicodedata.normalize, "NFC")


def valid(text):
    """A text that Python's tokenizer takes: the halves that are left become U+FFFD."""
    return code_points(text, "replace")


@pytest.fixture(scope="module")
def run(window, address):
    """A function that runs JavaScript with `data` and a `make` that constructs the tokenizer of a
    vocabulary; both ways go by JSON, which keeps lone surrogates.
    """
    window.goto(f"{address}/host.html")

    def run(tokenizer, body, data=None):
        spec = json.loads(tokenizer.to_str())
        vocab = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
        script = """async ([body, given]) => {
            const { Tokenizer } = await import("/views/engine/tokenizer.js");
            const [facts, data] = JSON.parse(given);
            const make = () => new Tokenizer(facts);
            return JSON.stringify(new Function("make", "data", body)(make, data));
        }"""
        facts = layerfile.typed(spec) | {"vocab": vocab, "merges": spec["model"].get("merges", [])}
        given = json.dumps([facts, data])
        return json.loads(window.evaluate(script, [body, given]))

    return run


@pytest.fixture(scope="module", params=VOCABULARIES)
def tokenizer(request):
    made = VOCABULARIES[request.param]()
    if request.param == "word_ends":  # an id beyond the merges', with letters that are no bytes
        made.add_special_tokens([AddedToken(SPECIAL, special=True)])
    made.encode_special_tokens = True  # a text is plain text
    return made


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.nightly)])
def test_tokens_pieces_and_texts_are_pythons(run, tokenizer, count):
    texts = drawn_texts(count)
    found = run(
        tokenizer,
        """const t = make();
        return data.map((text) => {
            const ids = t.encode(text);
            if (!(ids instanceof Int32Array)) throw new Error("not an Int32Array");
            const pieces = t.pieces(text);
            const own = pieces.map((p) => p.id), parts = pieces.map((p) => p.text);
            return [[...ids], own, t.decode(ids), parts.join("") === t.normal(text), parts];
        });""",
        texts,
    )
    texts = [code_points(t) for t in texts]
    ids = [encoding.ids for encoding in tokenizer.encode_batch([valid(t) for t in texts])]
    if tokenizer.normalizer is not None:
        texts = [nfc(t) for t in texts]
    placed = tokenizer.encode_batch([valid(t) for t in texts])
    for text, got, want, there in zip(texts, found, ids, placed, strict=True):
        # a piece begins where its token does, and has the characters whose last bytes are there
        starts = [*(start for start, _ in there.offsets), len(text)]
        pieces = [text[start:stop] for start, stop in pairwise(starts)]
        assert got == [want, want, valid(text), True, pieces], ascii(text[:200])


@pytest.mark.parametrize("tokenizer", ["mini", "word_ends"], indirect=True)
def test_any_ids_are_decoded_as_in_python(run, tokenizer):
    rng = random.Random(1)
    size = tokenizer.get_vocab_size()
    drawn = [rng.choices(range(size + 3), k=rng.randint(0, 12)) for _ in range(500)]
    drawn += [rng.choices(range(min(size, 257)), k=9) for _ in range(1000)]  # bytes, mostly
    drawn += [[i] for i in range(size)]
    bom = tokenizer.encode("\ufeffa").ids
    body = "const t = make(); return data.map((ids) => t.decode(ids));"
    found = run(tokenizer, body, [*drawn, bom])
    assert found == [tokenizer.decode(ids, skip_special_tokens=False) for ids in [*drawn, bom]]


@cache
def every_code_point(step):
    """But halves of pairs; where neighbours are alike, one in so many."""
    kinds = [unicodedata.category(chr(c)) for c in range(sys.maxunicode + 1)]
    return [
        c
        for c, kind in enumerate(kinds)
        if kind != "Cs" and (c % step == 0 or c < 0x3400 or kinds[c - 1 : c + 2].count(kind) < 3)
    ]


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("words", ["gpt2", "digits", "qwen2", "llama3"])
def test_words_end_where_pythons_end_for_every_code_point(run, words, step):
    """`word_ends` merges what follows a character with it if they are one word."""
    tokenizer, points = word_ends(words), every_code_point(step)
    texts = [
        "".join(f"{chr(c)}a {chr(c)}1 {chr(c)}! {chr(c)}\n'{chr(c)}s" for c in points[i : i + 512])
        for i in range(0, len(points), 512)
    ]
    found = run(
        tokenizer,
        """const t = make();
        return data.map((text) => String.fromCodePoint(...t.encode(text)));""",
        texts,
    )
    for text, got, want in zip(texts, found, tokenizer.encode_batch(texts), strict=True):
        assert [*map(ord, got)] == want.ids, hex(ord(text[0]))


def test_bytes_that_a_vocabulary_lacks_are_left_out_as_in_python(run):
    tokenizer = byte_level(models.BPE({"a": 0, "b": 1, "ab": 2, "Ã": 3}, [("a", "b")]))
    texts = ["abcab", "cab", "c", "", "aéb c", "éa\U0001f600b", "bc"]
    body = """const t = make();
        return data.map((text) => [[...t.encode(text)], t.pieces(text).map((p) => p.text)]);"""
    for text, (ids, pieces) in zip(texts, run(tokenizer, body, texts), strict=True):
        assert ids == tokenizer.encode(text).ids
        assert "".join(pieces) == (text if ids else "")


def test_merges_of_tokens_that_there_are_not_are_refused(run):
    refused = """const [{ constructor }, merges] = [make(), [["a", "b"]]];
        try { new constructor({ vocab: ["a"], merges }); } catch (e) { return e.message; }"""
    assert "the vocabulary lacks b" in run(shuffled(), refused)


WORDS_SEEN = sorted({word for text in PASSAGES for word in text.split()})
# fmt: off
AWKWARD = [
    *" \n\t\x0b\x85\xa0\u2003\0\ufffd\u200d\ufeff▁##'.,!?$", "  ", "    ", "\n\n", "▁▁", " ▁",
    "<tool>", "<tool", ">", "<tool>\n", "\u0338", "a!", "<s>", "<0x41>", "[UNK]", "[CLS]", "plain",
    "##ing", "é", "e\u0301", "ΟΔΟΣ", "Σ", "İ", "ß", "ſ", "Å", "가", "한", "\u0344", "文脈", "ｶﾞ",
    "㐀", "\U0002a6d6", "\U0002b900", "〜", "。", "👩\u200d🚀", "\ud83d", "\ude00",
    "a" * 99, "a" * 100, "é" * 101,
]
# fmt: on
TEXTS = st.lists(
    st.lists(
        st.one_of(
            st.sampled_from(WORDS_SEEN),
            st.sampled_from(AWKWARD),
            st.sampled_from([" ", ". "]),
            st.text(max_size=4),
        ),
        max_size=12,
    ).map("".join),
    min_size=20,
    max_size=40,
)


@pytest.mark.parametrize("kind", [*OTHERS, *MORE])
def test_tokens_of_other_kinds_and_added_ones_are_pythons(run, kind):
    tokenizer = (OTHERS | MORE)[kind]()
    tokenizer.encode_special_tokens = True  # a text is plain text
    tokenizer.no_truncation()
    tokenizer.no_padding()
    spec = json.loads(tokenizer.to_str())
    assert kind in MORE or layerfile.typed(spec)["words"] == kind

    @given(TEXTS)
    def check(texts):
        found = run(
            tokenizer,
            """const t = make();
            return data.map((text) => {
                const [ids, pieces] = [[...t.encode(text)], t.pieces(text)];
                return [ids, pieces.map((p) => p.id), t.decode(ids), pieces.map((p) => p.text)];
            });""",
            texts,
        )
        for text, (ids, own, decoded, parts) in zip(texts, found, strict=True):
            want = tokenizer.encode(valid(text), add_special_tokens=False).ids
            assert ids == own == want, ascii(text)
            assert decoded == tokenizer.decode(want, skip_special_tokens=False), ascii(text)
            if layerfile.typed(spec)["byte_level"]:  # pieces are of the text
                assert nfc("".join(parts)) == nfc(code_points(text))
            else:
                assert "".join(parts) == decoded

    check()


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", ["wordpiece clean ideographs strip lower", "wordpiece lower"])
def test_bert_reads_every_code_point_as_in_python(run, kind, step):
    """Each stands inside a word, where it is a letter, a sign, a space, or nothing."""
    young = re.compile("[\u1c89\ua7cb-\ua7dc\U00010d50-\U00010d65\U00016ea0-\U00016eb8]")
    points = [c for c in every_code_point(step) if not young.match(chr(c))]  # not yet lower
    normalizer = OTHERS[kind]().normalizer
    signs = sorted({s for c in points for s in chr(c) + normalizer.normalize_str(chr(c))})
    tokens = ["[UNK]", *signs, *(f"##{s}" for s in signs)]
    tokens = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    texts = [
        " ".join(f"a{chr(c)}b" for c in points[i : i + 512]) for i in range(0, len(points), 512)
    ]
    found = run(
        tokenizer, "const t = make(); return data.map((text) => [...t.encode(text)]);", texts
    )
    for text, got, want in zip(texts, found, tokenizer.encode_batch(texts), strict=True):
        assert got == want.ids, hex(ord(text[1]))


def spoilt(make, change):
    spec = json.loads(make().to_str())
    change(spec)
    return spec


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("pieces", lambda s: s["model"].update(dropout=0.1)),
        ("pieces", lambda s: s["model"].update(byte_fallback=False)),
        ("pieces", lambda s: s["model"]["vocab"].pop("<0x41>")),
        ("pieces", lambda s: s["model"].update(end_of_word_suffix="</w>")),
        ("pieces", lambda s: s["normalizer"].update(content="_")),
        ("pieces", lambda s: s.update(normalizer={"type": "NFC"})),
        ("pieces", lambda s: s.update(normalizer=None)),
        ("pieces prepend", lambda s: s.update(pre_tokenizer={"type": "Whitespace"})),
        ("pieces prepend", lambda s: s["normalizer"]["normalizers"].append({"type": "NFKC"})),
        ("pieces first", lambda s: s["pre_tokenizer"].update(replacement="_")),
        ("pieces first", lambda s: s.update(normalizer=s["pre_tokenizer"])),
        ("wordpiece lower", lambda s: s["model"].update(max_input_chars_per_word=50)),
        ("wordpiece lower", lambda s: s["model"].update(continuing_subword_prefix="@@")),
        ("wordpiece lower", lambda s: s["model"].update(unk_token="[CLS]")),
        ("wordpiece lower", lambda s: s.update(normalizer={"type": "Lowercase"})),
        ("wordpiece lower", lambda s: s.update(normalizer=None)),
        ("wordpiece lower", lambda s: s.update(pre_tokenizer={"type": "Whitespace"})),
        ("added, wordpiece", lambda s: s["added_tokens"][-4].update(lstrip=True)),
        ("added, wordpiece", lambda s: s["added_tokens"][-4].update(single_word=True)),
        ("added, wordpiece", lambda s: s["added_tokens"][-4].update(normalized=True)),
        ("added, wordpiece", lambda s: s["model"]["vocab"].update(the=10**6)),
    ],
)
def test_what_a_tokenizer_says_beyond_that_is_refused(kind, change):
    make = (OTHERS | MORE)[kind]
    assert layerfile.typed(spoilt(make, lambda spec: None)) is not None
    assert layerfile.typed(spoilt(make, change)) is None


def test_a_tokenizer_that_does_more_than_its_file_says_is_refused():
    class Shouting(PreTrainedTokenizerFast):
        def _encode_plus(self, text, *args, **options):
            return super()._encode_plus(text.upper(), *args, **options)

    raw = bert(lowercase=False)
    marks = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    for kind, typed in ((PreTrainedTokenizerFast, True), (Shouting, False)):
        facts, _ = layerfile.spelling(kind(tokenizer_object=raw, **marks), 2000)
        assert ("words" in facts) == typed
        assert facts["bos"] == raw.token_to_id("[CLS]")
    facts, _ = layerfile.spelling(PreTrainedTokenizerFast(tokenizer_object=raw, **marks), 900)
    assert "words" not in facts  # there are tokens that the model does not know


def test_tokenizers_that_pages_cannot_do_are_named_by_none():
    model = models.BPE({token: i for i, token in enumerate(ALPHABET)}, [])
    others = {
        "another pattern": pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"\p{L}+|."), "isolated"), PARTS]
        ),
        "digits in groups": pre_tokenizers.Sequence([pre_tokenizers.Digits(), GPT2]),
        "a space in front": pre_tokenizers.ByteLevel(add_prefix_space=True),
        "no bytes": pre_tokenizers.Whitespace(),
    }
    for before in others.values():
        other = Tokenizer(model)
        other.pre_tokenizer = before
        assert layerfile.typed(json.loads(other.to_str())) is None
