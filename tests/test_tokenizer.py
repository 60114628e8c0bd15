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
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

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


VOCABULARIES = {
    "mini": lambda: Tokenizer.from_file(str(cx.models.MINI / "tokenizer.json")),
    "shuffled": shuffled,
    "word_ends": word_ends,
    "digits, word_ends": partial(word_ends, "digits"),
    "qwen2 nfc": partial(shuffled, "qwen2 nfc"),
    "qwen2, word_ends": partial(word_ends, "qwen2"),
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
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        vocab = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
        script = """async ([body, given]) => {
            const { Tokenizer } = await import("/views/engine/tokenizer.js");
            const [vocab, merges, words, data] = JSON.parse(given);
            const make = () => new Tokenizer(vocab, merges, words);
            return JSON.stringify(new Function("make", "data", body)(make, data));
        }"""
        words = layerfile.byte_level(json.loads(tokenizer.to_str()))
        given = json.dumps([vocab, merges, words, data])
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
        texts = [unicodedata.normalize("NFC", t) for t in texts]
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
@pytest.mark.parametrize("words", ["gpt2", "digits", "qwen2"])
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
    refused = """const { constructor } = make();
        try { new constructor(["a"], [["a", "b"]]); } catch (error) { return error.message; }"""
    assert "the vocabulary lacks b" in run(shuffled(), refused)


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
        assert layerfile.byte_level(json.loads(other.to_str())) is None
