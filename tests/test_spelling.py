"""What a probe of spelling says of words is what loops over their tokens say, and the table of
spellings is taken apart as it should be.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ctxbook as cb

COLOUR, GREY = ("colour", "color"), ("grey", "gray")
TEXTS = [SimpleNamespace(source=s, dialect="en") for s in ("the moon and hill saw Moon", "the the")]
TEXTS += [SimpleNamespace(source="luna luna", dialect="es")]


@pytest.fixture
def probe(circuit):
    return cb.SpellingProbe(circuit, TEXTS, like=2, draws=40)


def test_sums_and_features_are_those_of_loops_over_tokens(probe, circuit):
    words, encode = ["moon", "Hill", "colours"], circuit.fixed.tokenizer.encode
    table = circuit.weighted_values
    for word, found, features in zip(words, probe.sums(words), probe.features(words), strict=True):
        ids = encode(f" {word}", add_special_tokens=False)
        total = sum(table[t].flatten() for t in ids)
        torch.testing.assert_close(found, total)
        often = {"moon": 1, "Hill": 0, "colours": 0}[word]
        expected = len(ids), np.log1p(often), np.mean(np.log1p(ids)), float(total.norm())
        assert features.tolist() == pytest.approx([*expected, len(word), float(word == "colours")])
        columns = sum(circuit.contribution[t] for t in ids)
        torch.testing.assert_close(found @ probe.readout, columns)
    assert probe.counts == {"the": 3, "moon": 1, "and": 1, "hill": 1, "saw": 1, "Moon": 1}


def test_z_is_the_mean_over_groups_in_spreads_of_the_draws(probe):
    groups = [[COLOUR, ("colours", "colors")], [GREY], [("moon", None)]]
    d, z, null = probe.z_scores(groups)
    rng, added = np.random.default_rng(0), 0
    for group, found in zip(groups, d, strict=True):
        words = [w for pair in group for w in pair if w]
        signs = [s / len(group) for _, b in group for s in ((1, -1) if b else (1,))]
        sums = probe.sums(words) @ probe.readout
        expected = sum(s * v for s, v in zip(signs, sums, strict=True))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        drawn = probe.random_sums(words, rng)
        added = added + sum(s * v for s, v in zip(signs, drawn, strict=True))
    draws = (added / len(groups) @ probe.readout).numpy()
    mean, sd = draws.mean(0), draws.std(0, ddof=1)
    np.testing.assert_allclose(z, (d.mean(0) - mean) / sd, rtol=1e-6)
    np.testing.assert_allclose(null, (draws - mean) / sd, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(probe.z_scores(groups, probe.readout[:, [3]])[1], z[[3]], rtol=1e-6)


def test_random_words_are_the_nearest_and_none_of_the_lists(probe, circuit):
    theirs, sums = probe.pool[1, False]
    known = probe.features(["the"])[0, 1:]
    near = (((theirs - known) / (theirs.std(0) + 1e-9)) ** 2).sum(1).argsort(kind="stable")[:2]
    (drawn,) = probe.random_sums(["the"], np.random.default_rng(1))
    assert {tuple(row) for row in drawn.tolist()} == {tuple(row) for row in sums[near].tolist()}
    own = probe.sums(["the"])[0]
    assert not any(torch.equal(row, own) for row in sums), "it stands in a list"
    poor = cb.SpellingProbe(circuit, TEXTS, like=10**6, draws=2)
    with pytest.raises(ValueError, match="fewer than 1000000 words of a kind"):
        next(poor.random_sums(["moon"], np.random.default_rng(0)))


WORDS = ["Grey", "grey", "sky's", "theatre", "un-grey", "moon", "color", "COLOUR"]


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_words_of_the_table_alone_are_respelled(words):
    """Not names, nor parts of words with a hyphen or an apostrophe."""
    source, pair_of = " ".join(words), cb.spelling.pair_of()
    parts = cb.spelling.respelled(source, lambda m: pair_of[m.group()][0])
    assert "".join(p for p, _ in parts) == " ".join("colour" if w == "color" else w for w in words)
    assert [m.group() for m in cb.spelling.matches(source)] == [w for w in words if w in pair_of]
    assert [alike for _, alike in parts].count(False) == len(cb.spelling.matches(source))


def test_every_pair_is_in_one_family_and_half_of_them_judge():
    families = cb.spelling.families()
    assert sorted(p for pairs in families.values() for p in pairs) == sorted(cb.spelling.rules())
    assert all(cb.spelling.family(p) == name for name, pairs in families.items() for p in pairs)
    judging = [cb.spelling.half(name) == "judging" for name in families]
    assert 0.4 < np.mean(judging) < 0.6
    with pytest.raises(KeyError):
        cb.spelling.family(("moon", "luna"))
