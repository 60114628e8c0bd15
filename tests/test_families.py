"""The additive decomposition, compared with a table of scores made by hand, and with the weights
where positions are learned. `test_query.py` compares its exact side with transformers.
"""

import re
from functools import cache

import build_book
import nbformat
import packing
import pytest
import torch
from command import ROOT
from kinds import KINDS, drawn
from test_lookups import draw_texts, near

import ctxlib as cx
from ctxlib import additive
from ctxlib.additive import PATTERN
from ctxlib.weights import NoPositionEmbeddings, activations

N, THE = 24, 262
ALIBI, ROTARY = ("Bloom", "MPT"), ("NeoX, sequential", "NeoX, parallel", "GPT-J", "Llama", "Phi")
LEARNED = ("GPT-2", "GPT-Neo", "OPT")
ELSEWHERE = [kind for kind in KINDS if kind not in LEARNED]
TEXTS = draw_texts(*[32] * 9)


@pytest.fixture(scope="module")
def query_of(of_kind):
    """A function that fixes a query of a random model of a kind, once."""
    return cache(lambda kind: cx.fit_additive(of_kind(kind).model, TEXTS, N, THE))


def test_tokens_are_as_common_as_in_the_texts_between_bos_and_the_query(query_of):
    share = query_of("Llama").decomposition.frequency
    read = [token for text in TEXTS for token in text[1:N].tolist()]
    assert share.tolist() == pytest.approx([read.count(t) / len(read) for t in range(len(share))])


# ---------------------------------------------------------------- what is exact


@pytest.mark.parametrize("kind", [*ALIBI, *ROTARY])
def test_the_qk_direction_at_a_source_depends_on_its_distance_only(of_kind, query_of, kind):
    """The source at n included, where the query is not to be differentiated."""
    exact = query_of(kind).exact
    earlier = cx.fit_additive(of_kind(kind).model, TEXTS, N - 5, THE).exact
    near(exact.qk_direction[:, 5:], earlier.qk_direction)
    assert not exact.position_offset.any()
    turns = (exact.qk_direction[:, 0] - exact.qk_direction[:, -1]).abs().max() > 1e-3
    assert turns == (kind in ROTARY)


# ---------------------------------------------------------------- the decomposition


@pytest.mark.parametrize("kind", ["GPT-2", "Bloom", "Llama", "Phi"])
def test_the_decomposition_is_the_analysis_of_variance_of_a_table_of_scores(
    of_kind, query_of, kind
):
    """The table: each token at every source, from the model, one text a token."""
    exact, approx = query_of(kind).exact, query_of(kind).decomposition
    tokens = approx.frequency.nonzero()[:, 0]
    share = approx.frequency[tokens].double()
    same = torch.cat([tokens[:, None].expand(-1, N), torch.full((len(tokens), 1), THE)], dim=1)
    (pattern,) = activations(of_kind(kind).model, same, [PATTERN], 1)
    logs = pattern[:, :, -1].double().log()
    table = (logs - logs[..., N:])[..., :N]  # token head source
    pos = approx.kernels[:, :N].double() / approx.kernels[:, :N].double().sum(1, keepdim=True)
    where = torch.einsum("t,ths->hs", share, table)
    near(pos, where.softmax(-1))
    what = torch.einsum("ths,hs->th", table - where, pos)
    if kind != "GPT-2":  # there tokens are read at n, which is an approximation
        apart = cx.layer_norm(exact.E[tokens], exact.readout.eps) - approx.mean[N]
        own = approx.kernels[:, N] * (apart @ exact.qk_direction[:, N].T)  # that of source n
        near((approx.log_content[:, tokens].T - own) / (1 - approx.kernels[:, N]), what)
    both = table - where - what[..., None]
    apart = where - (pos * where).sum(1, keepdim=True)
    squares = {
        "where": torch.einsum("hs,hs->h", apart**2, pos),
        "what": torch.einsum("t,th->h", share, what**2),
        "interaction": torch.einsum("t,ths,hs->h", share, both**2, pos),
    }
    account = additive.anova(approx)
    for name, by_hand in squares.items():
        near(torch.tensor(account[name].to_numpy()), by_hand.sqrt(), rtol=0.1, atol=2e-3)
    g, all_pos = exact.qk_direction.double(), approx.kernels.double()
    average = torch.einsum("hs,hsd->hd", all_pos, g).square().sum(-1)
    kept = average / torch.einsum("hs,hsd->h", all_pos, g**2)
    near(torch.tensor(account["kept"].to_numpy()), kept.sqrt())


@pytest.mark.parametrize("kind", ALIBI)
def test_a_bias_on_the_scores_leaves_no_interaction(query_of, kind):
    """ALiBi, and T5's relative bias likewise, is added to the scores."""
    fixed = query_of(kind)
    stack = fixed.prepare(TEXTS)
    near(fixed.decomposition.rows(stack), fixed.exact.rows(stack))
    assert additive.anova(fixed.decomposition)["interaction"].max() < 1e-4
    near(
        fixed.decomposition.kernels.log().diff(n=2), torch.zeros(3, N - 1), atol=1e-4
    )  # a straight line
    circuit = cx.ContextualCircuit.calibrate(fixed, TEXTS[0], [0, 1])
    truth = fixed.exact_summary(stack, [0, 1])
    near(circuit.self_normalized().summary(stack), truth, atol=1e-3, rtol=1e-3)


# ---------------------------------------------------------------- beside the weights


def test_on_mini_kernels_families_and_neurons_are_those_of_the_weights(mini, mini_weights):
    """The mean over tokens is over those that texts have, not over the vocabulary, whose median
    norm is the default C.
    """
    passages = cx.texts.passages(mini_weights)
    by_means = cx.fit_additive(mini, passages)
    approx = by_means.decomposition
    what = (approx.log_content**2 @ approx.frequency).sqrt()  # of tokens as common as they are
    spread = torch.tensor(additive.anova(approx)["what"].to_numpy())
    near(spread, what, rtol=0.05)
    C = float(mini_weights.W_E[torch.cat([t.tokens for t in passages])].norm(dim=-1).median())
    by_weights = cx.fix_query(mini_weights, n=256, C=C)
    assert (
        cx.total_variation(by_means.decomposition.kernels, by_weights.decomposition.kernels).max()
        < 0.03
    )
    ours, theirs = cx.families(by_means), cx.families(by_weights)
    assert (ours["family"] == "local").equals(theirs["family"] == "local")
    assert (ours["TV to uniform"] - theirs["TV to uniform"]).abs().max() < 0.03

    found, expected = (
        set(cx.find_neurons(cx.ContextualCircuit.calibrate(fixed, passages[0], [3, 4])).index)
        for fixed in (by_means, cx.fix_query(mini_weights))
    )
    assert len(found & expected) >= 0.95 * len(found | expected)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_without_position_embeddings_the_weights_name_the_chapter(of_kind, kind):
    """One line: the kind of positions, the chapter by its title, how to go on."""
    (chapter,) = (ROOT / "chapters").glob("13_*.py")
    title = re.search(r"^# (.+\?)$", chapter.read_text("utf-8"), re.M)[1]
    with pytest.raises(NoPositionEmbeddings) as caught:
        cx.LayerWeights.of(of_kind(kind).model)
    positions = f"{'alibi' if kind in ALIBI else 'rotary'} positions"
    for words in (positions, f"chapter 13, {title}", "cx.fix_query(model)"):
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_positions_that_are_computed_are_no_embeddings(make_folder):
    model = drawn("xglm", ffn_dim=40, pad_token_id=1)
    with pytest.raises(NoPositionEmbeddings, match="has computed positions"):
        cx.LayerWeights.of(cx.load(make_folder(model)))


@pytest.mark.parametrize(("n", "count"), [(0, 9), (1, 9), (32, 9), (N, 0), (N, 1)])
def test_two_means_need_two_texts_and_two_tokens(of_kind, n, count):
    with pytest.raises(ValueError, match=f"^position {n}: choose 2 to 31$|^{count} texts: give"):
        cx.fit_additive(of_kind("Llama").model, TEXTS[:count], n, THE)


# ---------------------------------------------------------------- editions

CELLS = [
    "[markdown]\n# # Before",
    'tags=["parameters"]\nMODEL = "mini"',
    '\nprint("first")',
    "\nclass NoPositionEmbeddings(ValueError): ...\n\n"
    'print("loading")\nraise NoPositionEmbeddings("alibi positions, and more")',
    '\nprint("never")',
    "[markdown]\n# ## After",
]


def test_a_chapter_that_needs_position_embeddings_is_kept_as_text(tiny_folder, repository, capsys):
    """In an edition of a book of one chapter; the error goes by its name."""
    assert NoPositionEmbeddings.__name__ in build_book.ELSEWHERE
    (repository / "requirements.txt").write_text("")
    chapter = "\n\n".join(f"# %% {cell}" for cell in CELLS)
    (repository / "chapters" / "01_x.py").write_text(chapter + "\n")
    assert build_book.main(["execute", "--model", str(tiny_folder)]) == 0
    notebook = build_book.home(str(tiny_folder)) / "book" / "01_x.ipynb"
    assert "alibi positions" in capsys.readouterr().out
    cells = nbformat.read(notebook, as_version=4).cells
    assert [c.cell_type[0] for c in cells] == [*"mccmccm"]
    assert cells[2].outputs[0].text == "first\n"
    assert "chapter 13" in cells[3].source and "](13_families)" in cells[3].source
    assert [(c.outputs, c.execution_count) for c in cells[4:6]] == [([], None)] * 2
    assert cells[6].source == "## After"
    assert len({c.id for c in cells}) == len(cells)


def test_an_edition_without_a_packed_layer_has_a_sentence_in_place_of_its_views(of_kind):
    assert packing.of_edition(str(of_kind("Bloom").folder), "Bloom") is None
    page = (ROOT / "book" / "explorer.md").read_text("utf-8")
    look_up = '<div data-view="lookups" data-state="{}"><p>picture</p></div>'
    finished = build_book.LAYER_VIEW.sub(build_book.NO_VIEW, page + look_up)
    assert finished.endswith(look_up), "this view needs no layer"
    assert 'data-view="neurons"' not in finished
    assert 'href="13_families.html"' in finished
    assert finished.count("<div") == finished.count("</div>")
