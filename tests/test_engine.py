"""The circuit that a page computes, in a real browser: ctxlib's numbers, from the packed layer.

Without Chromium these tests are left out, and say so.
"""

import dataclasses
import gzip
import itertools
import json
import random
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from playwright.sync_api import Error
from scipy import stats
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.activations import ACT2FN
from viewing import added, circuits_of, header, in_firefox_too, opened, repacked, tensors

import ctxlib as cx
from ctxviews import fixedfile, layerfile, packed_layer
from ctxviews.fixedfile import packed_destination

LENGTHS = (257, 257, 500, 120, 33, 12, 6)  # tokens of a text: at the usual n, longer, shorter
HEADS = ([3], [4], [3, 4], [0, 2], [1, 5, 7], [0, 2, 6], [2, 3, 4, 6], list(range(8)))
SIZES = {"n_embd": 21, "n_head": 3, "n_inner": 37, "n_positions": 40}  # no multiple of 4 anywhere
CLOSE = 0.01  # of the range over texts
ROUNDED = 1 / (2 * 127 * layerfile.FINER)  # of a row's largest entry, where every token is fine


@pytest.fixture(scope="module")
def page(window, address):
    """A page with `engine`."""
    window.goto(f"{address}/host.html")
    for file in ("packed", "ranking"):
        load = "async (at) => void Object.assign((window.engine ??= {}), await import(at))"
        window.evaluate(load, f"/views/engine/{file}.js")
    return window


@pytest.fixture(scope="module")
def load(page, view_folder):
    """A function that gives the page a layer, under a name."""

    def load(name, content):
        (view_folder / "given.bin").write_bytes(content)
        given = f"/given.bin?{hash(content)}"
        page.evaluate(
            "async ([name, at]) => { window[name] = await engine.loadLayer(at) }", [name, given]
        )

    return load


@pytest.fixture(scope="module", autouse=True)
def layer(load, packed_mini):
    """The page has `layer`, mini's."""
    load("layer", packed_mini)


@pytest.fixture(scope="module")
def toy(make_folder):
    """A model of odd sizes."""
    return cx.LayerWeights.of(cx.load(make_folder(**SIZES, seed=3)))


@pytest.fixture(scope="module")
def packed_toy(toy):
    return packed_layer(toy, cx.texts.collection(toy, 40))


@pytest.fixture(scope="module")
def circuit_of_toy(load, toy, packed_toy):
    """The page has `toy`; and a function that gives its circuits."""
    load("toy", packed_toy)
    return circuits_of(toy, packed_toy)


@pytest.fixture(scope="module")
def texts(mini_weights):
    """Thirty passages of all domains, 512 tokens each."""
    passages = cx.texts.passages(mini_weights)
    return torch.stack([t.tokens for t in passages[:: len(passages) // 30]])


def computed(page, script, given):
    """What a function of the page gives; as one text, for long arrays are slow to hand over."""
    text = page.evaluate(f"async (given) => JSON.stringify(await ({script})(given))", given)
    return json.loads(text)


def off(found, truth, wide=None):
    """How far apart at most, as a share of a range: each row's own, if no other is given."""
    truth = np.asarray(truth)
    wide = np.ptp(truth, -1, keepdims=True) if wide is None else wide
    return float((abs(np.asarray(found) - truth) / wide).max())


# ---------------------------------------------------------------- the numbers


CASES = """cases => cases.map(({ids, heads, neuron, n, token}) => {
    const circuit = LAYER.circuit({n, token});
    const [read, middle] = [circuit.read(ids), ids[ids.length >> 1]];
    const truth = read.truth(heads);
    return {
        summary: read.summary(heads)[neuron],
        terms: [...read.terms(heads, neuron)],
        own: LAYER.read(heads, read.own(heads))[neuron],
        computed: truth && LAYER.read(heads, truth)[neuron],
        contribution: circuit.for(ids).driven(middle, heads)[neuron],
    };
})"""


def agree(page, layer, circuit_of, texts, groups, per_group, draw, close):
    """The page and ctxlib differ by no larger share of the range over texts.

    A group is a length, heads and a destination token; n is the usual one for texts that are as
    long, else the last token.
    """
    usual = page.evaluate(f"{layer}.n")
    cases, expected = [], []
    for length, heads, token in groups:
        n, read = length - 1, texts[:, :length]
        circuit = circuit_of(heads, n, token)
        summaries, own = circuit.summary(read), circuit.self_normalized().summary(read)
        truth = circuit.fixed.exact_summary(read, heads)
        for _ in range(per_group):
            neuron, which = draw.randrange(circuit.fixed.n_neurons), draw.randrange(len(texts))
            ids, contribution = read[which], circuit.contribution[:, neuron]
            # the widest that one place of a text ranges, over texts
            wide = np.ptp(contribution[read] * circuit.kernel, axis=0).max()
            expected.append(
                {
                    "summary": (summaries[which, neuron], np.ptp(summaries[:, neuron])),
                    "terms": (added(circuit, ids, neuron), wide),
                    "own": (own[which, neuron], np.ptp(own[:, neuron])),
                    "computed": (truth[which, neuron], np.ptp(truth[:, neuron])),
                    "contribution": (contribution[ids[length // 2]], np.ptp(contribution)),
                }
            )
            place = {"n": max(n, usual), "token": token}  # the page moves it for shorter texts
            cases.append({"ids": ids.tolist(), "heads": heads, "neuron": neuron} | place)
    found = computed(page, CASES.replace("LAYER", layer), cases)
    for got, want in zip(found, expected, strict=True):
        if layer == "fixed_layer":  # of which a page cannot know it
            assert want.pop("computed") and got["computed"] is None
        assert sum(got["terms"]) == pytest.approx(got["summary"], rel=1e-6, abs=1e-9)
        for name, (truth, wide) in want.items():
            assert off(got[name], truth, wide) <= close, name


def test_200_random_triples_are_as_in_python(page, mini_weights, circuit_of, texts):
    draw, tokens = random.Random(0), [mini_weights.token_id(token) for token in (" the", " of")]
    cases = itertools.product(HEADS, LENGTHS)
    groups = [(length, heads, tokens[i % 5 == 4]) for i, (heads, length) in enumerate(cases)]
    draw.shuffle(groups)
    agree(page, "layer", circuit_of, texts, groups[:25], 8, draw, CLOSE)


def test_the_header_has_the_stable_heads_and_families_of_ctxlib(mini_weights, packed_mini):
    head, read = header(packed_mini), cx.texts.collection(mini_weights, 1000)
    assert head["stable"] == list(cx.stable_heads(cx.fix_query(mini_weights), read))
    table = cx.families(cx.fix_query(mini_weights)).reset_index(drop=True)
    packed = pd.DataFrame(head["families"]).set_axis(table.columns, axis=1)
    pd.testing.assert_frame_equal(packed, table, check_dtype=False)


# ---------------------------------------------------------------- the ranking


def ranked(page, heads, token, layer="layer"):
    return computed(
        page,
        """async ([layer, heads, token]) => {
            const circuit = window[layer].circuit({token});
            const packed = circuit.layer.packedRanking(circuit, heads);
            const {top, mean, tokens} = packed ?? await circuit.rank(heads);
            return {top: [...top], mean: [...mean], tokens: [...tokens],
                    threshold: engine.defaultThreshold(top)};
        }""",
        [layer, heads, token],
    )


@pytest.mark.parametrize("heads", [[0, 2], [0], [0, 1, 2]], ids=str)
def test_neurons_are_ranked_as_in_python(page, circuit_of_toy, heads):
    """Of the toy model, whose numbers pages have but for rounding; that by all heads is in the
    file, with fewer tokens.
    """
    circuit = circuit_of_toy(heads)
    table = cx.find_neurons(circuit, threshold=-1e9).sort_index()
    found = ranked(page, heads, circuit.fixed.token, "toy")
    assert max(off(found[name], table[name]) for name in ("top", "mean")) < 20 * ROUNDED
    above = np.flatnonzero(np.array(found["top"]) > found["threshold"])
    assert {*above} == {*table.index[table["z"] > 2]}
    counted = circuit.contribution.masked_fill(
        circuit.fixed.decomposition.untrained[:, None], -np.inf
    )
    tokens = torch.tensor(found["tokens"]).view(len(table), -1)
    largest = counted.topk(tokens.shape[1], dim=0).indices.T
    assert (tokens[:, :, None] == largest[:, None]).any(1).double().mean() > 0.95


def test_a_ranking_is_exact_and_does_not_depend_on_the_one_before(page, packed_mini):
    """Tables and running sums only save work: the largest contributions come out, in order. Those
    are Python's, as the random triples say, and a ranking of the toy model is held against Python.
    """
    neurons, token = [0, 7, 300, 1023], header(packed_mini)["destinations"][0]["id"]
    counted = np.array(page.evaluate("[...layer.counted]"))
    script = "([heads, js]) => js.map((j) => [...layer.circuit().contribution(j, heads)])"
    for heads in ([3, 4], [3], [0, 3, 4], [0, 1], [5, 2, 7, 1], [5, 2, 1], [3, 4]):
        every = np.array(computed(page, script, [heads, neurons]))[:, counted]
        largest = np.argsort(-every, kind="stable")[:, :20]
        mean, wide = every.mean(1), np.ptp(every, axis=1)
        top = np.take_along_axis(every, largest, axis=1).mean(1) - mean
        found = {name: np.array(values) for name, values in ranked(page, heads, token).items()}
        # the mean comes from the file, where no embedding is rounded
        assert (
            max(off(found["mean"][neurons], mean, wide), off(found["top"][neurons], top, wide))
            < 1e-4
        )
        assert (found["tokens"].reshape(-1, 20)[neurons] == counted[largest]).all()


@pytest.mark.parametrize(("rows", "columns", "depth"), [(7, 5, 19), (12, 8, 128), (1, 3, 256)])
def test_three_rows_in_one_number_are_multiplied_exactly(page, rows, columns, depth):
    """But for the rounding to whole numbers, which costs a hundredth of the lengths at most."""
    draw = np.random.default_rng(depth)
    A, B = (
        draw.normal(size=(size, depth)) * draw.exponential(size=(size, 1))
        for size in (rows, columns)
    )
    B[0], B[1] = 0, A[0]  # the largest product that there can be
    script = """async ([A, B, depth]) => {
        const { wholeProducts, wholeRows } = await import("/views/engine/linalg.js");
        const both = [A, B].map((of) => wholeRows(Float64Array.from(of), depth));
        const out = new Float64Array((A.length / depth) * (B.length / depth));
        return [...both.map(({ rows }) => [...rows]), [...wholeProducts(...both, depth, out)]];
    }"""
    *whole, found = computed(page, script, [A.ravel().tolist(), B.ravel().tolist(), depth])
    A_whole, B_whole = (np.reshape(of, (-1, depth)) for of in whole)
    assert all((of == of.round()).all() for of in (A_whole, B_whole))
    steps = [np.linalg.norm(of, axis=1) / (256 - depth**0.5 / 2) for of in (A, B)]
    exact = A_whole @ B_whole.T * np.outer(*steps)
    np.testing.assert_allclose(np.reshape(found, exact.shape), exact, rtol=1e-12, atol=1e-12)
    lengths = np.outer(*(np.linalg.norm(of, axis=1) for of in (A, B)))
    assert (abs(exact - A @ B.T) <= 0.01 * lengths).all()


def test_two_rankings_that_are_made_at_once_both_come_to_their_end(page):
    made = page.evaluate(
        """async () => {
            const { nextTurn } = await import("/views/engine/slices.js");
            const circuit = layer.circuit();
            const choices = [layer.everyHead.slice(0, -1), layer.everyHead.slice(1)]; // many slices
            const ends = new AbortController();
            const makings = choices.map((heads) => circuit.rank(heads, { signal: ends.signal }));
            let over = false;
            const both = Promise.allSettled(makings).finally(() => (over = true));
            for (const late = performance.now() + 60_000; !over && performance.now() < late; )
                await nextTurn();
            ends.abort();
            const rankings = (await both).map(({ value }) => value);
            const same = (a, b) => a.every((value, j) => Math.abs(value - b[j]) < 1e-9);
            const again = [await circuit.rank(choices[0]), await circuit.rank(choices[1])];
            return rankings.map((made, i) => made && same(made.top, again[i].top));
        }"""
    )
    assert made == [True, True]


def test_the_last_few_are_kept_and_the_least_recently_used_goes(page):
    script = """async () => {
        const { Kept } = await import("/views/engine/cache.js");
        const kept = new Kept(3);
        const made = [];
        for (const name of "abcadbce") kept.get(name, () => made.push(name));
        return [made.join(""), [..."abcde"].filter((name) => kept.peek(name)).join("")];
    }"""
    assert page.evaluate(script) == ["abcdbce", "bce"]


GIVEN_UP = """async () => {
    const { loadLayer } = await import("/views/engine/packed.js");
    const { rankings } = await loadLayer("/data/layer.bin");
    const controller = new AbortController();
    const part = [];
    const onProgress = (share) => part.push(share) && share > 0.2 && controller.abort();
    const outcome = await rankings.fill([3], { onProgress, signal: controller.signal })
        .then(() => "done", (error) => error.name);
    const before = rankings.has([3, 4]);
    const shares = [];
    const ways = [{ onProgress: (share) => shares.push(share) }, {}, {}];
    await Promise.all([[3], [4], [3]].map((heads, i) => rankings.fill(heads, ways[i])));
    const rises = [part, shares].every((of) => of.every((share, i) => share >= (of[i - 1] ?? 0)));
    return [outcome, part.at(-1) < 1, before, rankings.has([3, 4]), rises, shares[0] > part.at(-1)];
}"""
ELSEWHERE = """globalThis.ranked = 0;
globalThis.Worker = class extends Worker {
    postMessage(message, transfer) {
        globalThis.ranked += Boolean(message.work.rank);
        super.postMessage(message, transfer);
    }
};"""
FORBIDDEN = "globalThis.Worker = class { constructor() { throw new Error('forbidden'); } };"
SILENT = "globalThis.Worker = class { terminate() {} };"
MADE = """async () => {
    const { loadLayer } = await import("/views/engine/packed.js");
    const circuit = (await loadLayer("/data/layer.bin")).circuit();
    const made = [];
    for (const heads of [[0, 3, 4], [0, 4], [5]]) made.push(await circuit.rank(heads));
    return [JSON.stringify(made.map((ranked) => Object.values(ranked).map((of) => [...of]))),
            globalThis.ranked];
}"""


@in_firefox_too
def test_workers_rank_and_the_page_does_the_same_where_there_are_none(browser, address):
    """Where a host forbids them, and where one never begins. What is given up is taken up again."""
    found = []
    for script in (ELSEWHERE, FORBIDDEN, SILENT):
        with opened(browser) as page:
            page.add_init_script(script)
            page.goto(f"{address}/host.html")
            found.append(page.evaluate(MADE))
            *taken_up, goes_on = page.evaluate(GIVEN_UP)
            assert taken_up == ["AbortError", True, False, True, True]
            assert goes_on or script == ELSEWHERE  # one worker reports before the others
    (here, ranked), *elsewhere = found
    assert ranked >= 3
    assert all(made == here and not ranked for made, ranked in elsewhere)


# ---------------------------------------------------------------- the passages


OF_A_NEURON = """([layer, heads, n, neurons]) => {
    const circuit = window[layer].circuit({ n });
    const terms = neurons.map((j) => circuit.passageTerms(circuit.contribution(j, heads), heads));
    return terms.map((of) => of.map((terms) => terms.reduce((a, b) => a + b)));
}"""


def test_a_neurons_summaries_of_passages_are_as_in_python(page, toy, circuit_of_toy):
    texts = torch.stack([p.tokens for p in cx.texts.passages(toy)])
    circuit, neurons = circuit_of_toy([0, 2], 20), [0, 5]
    found = page.evaluate(OF_A_NEURON, ["toy", [0, 2], 20, neurons])
    texts[:, 20] = circuit.fixed.token
    right = circuit.summary(texts)[:, neurons]
    assert off(np.transpose(found), right, np.ptp(right, axis=0)) < 20 * ROUNDED


BY_DOMAIN = """async ([layer, heads, n]) =>
    [...(await window[layer].circuit({ n }).responses(heads))]"""


def test_responses_to_passages_are_as_in_python(page, toy, circuit_of_toy):
    """Of the first one, which is shorter than the destination, the last token is one."""
    texts = torch.stack([p.tokens for p in cx.texts.passages(toy)])
    page.evaluate("toy.passages[0].ids = toy.passages[0].ids.slice(0, 12)")
    found = computed(page, BY_DOMAIN, ["toy", [1], 30])
    for fixed, these in ((30, slice(1, None)), (11, slice(1))):
        circuit = circuit_of_toy([1], fixed)
        wide = np.ptp(circuit.summary(texts), axis=0)
        mine = np.reshape(found, (len(texts), -1))[these]
        assert off(mine, circuit.summary(texts[these]), wide) < 20 * ROUNDED


# ---------------------------------------------------------------- a whole neuron


def as_held(weights, layer):
    """The weights that a page makes of a packed layer, in double precision."""
    held = tensors(layer)
    levels = held["W_E"].astype(int) + held["middle"]
    levels = layerfile.FINER * ((levels + 128) % 256 - 128)
    levels[held["fine"]] += held["W_E_fine"]
    matrices = "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", *layerfile.BIASES
    arrays = {name: held[name] for name in matrices} | {
        "W_E": levels * held["W_E_step"].astype(float)[:, None] / layerfile.FINER
    }
    double = {name: torch.from_numpy(np.asarray(of, float)) for name, of in arrays.items()}
    return dataclasses.replace(weights.to(torch.float64), **double)


WHOLE = """(given) => given.map(({ids, heads, neuron}) => {
    const circuit = layer.circuit({n: ids.length - 1, token: ids.at(-1)});
    const read = circuit.read(ids);
    return [read.own(heads), read.truth(heads)].map((of) => layer.wholeNeuron(neuron, heads, of));
})"""


def whole(weights, layer, ids, heads, neuron):
    """The same by ctxlib: from tables, and as the model computes it."""
    n = len(ids) - 1
    fixed = cx.fix_query(weights, n=n, token=int(ids[n]), C=header(layer)["C"])
    for outputs in (fixed.approx_head_outputs(ids), fixed.head_outputs(ids)):
        mlp = fixed.mlp(ids, outputs)
        chosen, every = (
            fixed.to_neurons(ids, outputs, some)[neuron].item()
            for some in (heads, range(fixed.n_heads))
        )
        pre, bias = mlp["pre"][neuron].item(), weights.b_in[neuron].item()
        own = pre - bias - every
        terms = {"chosen": chosen, "others": every - chosen, "own": own, "bias": bias}
        yield terms | {"pre": pre, "post": mlp["post"][neuron].item()}


def test_a_whole_neuron_is_as_in_python(page, mini_weights, packed_mini, texts):
    """With the weights that the page holds to 1e-4, with mini's own but for their rounding."""
    held, draw = as_held(mini_weights, packed_mini), random.Random(5)
    cases = [
        {"ids": draw.choice(texts)[:length], "heads": heads, "neuron": draw.randrange(1024)}
        for length, heads in zip((257, 500, 120, 33, 12, 6, 3, 257), HEADS, strict=True)
    ]
    found = computed(page, WHOLE, [case | {"ids": case["ids"].tolist()} for case in cases])
    spread = cx.fix_query(mini_weights, n=256).mlp(texts[:, :257])["pre"].std(0)
    for case, mine in zip(cases, found, strict=True):
        for ours, theirs in zip(mine, whole(held, packed_mini, **case), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
        for ours, theirs in zip(mine, whole(mini_weights, packed_mini, **case), strict=True):
            assert ours == pytest.approx(theirs, abs=0.05 * spread[case["neuron"]].item())


@pytest.mark.parametrize("name", ["gelu_new", "relu"])
def test_an_activation_function_is_as_in_python(page, packed_toy, load, name):
    load("active", repacked(packed_toy, act_fn=name))
    x = np.linspace(-5, 5, 41)
    found = computed(page, "(x) => x.map((x) => active.activation(x))", x.tolist())
    np.testing.assert_allclose(found, ACT2FN[name](torch.from_numpy(x)), atol=1e-6)


def test_without_its_activation_function_there_is_no_whole_neuron(page, packed_toy, load):
    load("unknown", repacked(packed_toy, act_fn="some other"))
    script = "() => unknown.wholeNeuron(0, [0], unknown.circuit().read([0, 1, 2]).own([0]))"
    assert page.evaluate(script) is None


# ---------------------------------------------------------------- other models


def test_a_toy_model_of_odd_sizes_is_as_in_python(page, toy, circuit_of_toy):
    texts = torch.stack([t.tokens for t in cx.texts.passages(toy)[:20]])
    cases = itertools.product((21, 40, 8, 2), ([0], [1, 2], [0, 1, 2]))
    groups = [(*of, circuit_of_toy([0]).fixed.token) for of in cases]
    agree(page, "toy", circuit_of_toy, texts, groups, 4, random.Random(1), 20 * ROUNDED)
    script = "ids => [0, 1, 2].map((head) => [...toy.attentionRows(ids)[head]])"
    rows = torch.tensor(page.evaluate(script, texts[0].tolist()))
    assert cx.total_variation(rows, cx.attention_rows(toy, texts[0], 39)).max() < 20 * ROUNDED


# ---------------------------------------------------------------- one destination of any model


@pytest.fixture(scope="module")
def studied(of_kind):
    """A function that gives the study of a destination, of each kind of model one."""
    return cache(lambda kind: cx.study(of_kind(kind).model, texts=40, or_all=True))


@pytest.fixture
def fixed_layer(load, studied):
    """A function that gives such a study, and the page `fixed_layer`, its layer."""

    def of(kind):
        load("fixed_layer", packed_destination(studied(kind)))
        return studied(kind)

    return of


EXACT, LEVELLED = 1e-5, 0.03  # of a range: the page computes in float64


def unrounded(whole, levels):
    """`ctxlib.store.quantized`, where no level is rounded to a whole number."""
    spread, mean = torch.std_mean(whole, dim=0)
    left = (whole - mean) / spread
    step = left.abs().amax(1) / levels
    return {"of_token": (left / step[:, None]).T, "step": step, "spread": spread, "mean": mean}


@pytest.mark.parametrize(
    "name", ["GPT-2", "Llama", "Qwen2", "NeoX, parallel", "OPT", "Gemma 2", "OLMo 2"]
)
def test_a_packed_destination_is_as_in_python(page, fixed_layer, monkeypatch, name):
    """All but so with the levels that a file has, and with its tables as they are."""
    study = fixed_layer(name)
    fixed, heads = study.fixed, list(study.heads)[-3:]
    circuit = cx.ContextualCircuit.calibrate(fixed, study.calibration_text, heads)
    texts, groups = fixed.prepare(study.passages), [(fixed.length, heads, fixed.token)]
    table = cx.find_neurons(circuit, threshold=-1e9).sort_index()
    expected = {"top": table["top"], "mean": table["mean"], "summary": circuit.summary(texts).T}

    def compare(close):
        agree(page, "fixed_layer", lambda *_: circuit, texts, groups, 12, random.Random(2), close)
        found = ranked(page, heads, fixed.token, "fixed_layer")
        of_neurons = ["fixed_layer", heads, fixed.n, [*range(fixed.n_neurons)]]
        found["summary"] = page.evaluate(OF_A_NEURON, of_neurons)
        for name, truth in expected.items():
            assert off(found[name], truth) < close, name
            rows = map(np.atleast_2d, (found[name], truth))
            r = [np.corrcoef(mine, theirs)[0, 1] for mine, theirs in zip(*rows, strict=True)]
            assert np.median(r) > 0.999, name

    compare(LEVELLED)
    monkeypatch.setattr(fixedfile, "quantized", unrounded)
    monkeypatch.setattr(fixedfile, "NATS", 2**20)
    monkeypatch.setattr(torch.Tensor, "half", torch.Tensor.float)
    fixed_layer(name)
    compare(EXACT)


def test_a_shorter_text_is_read_as_if_it_stood_right_before_the_destination(page, fixed_layer):
    study = fixed_layer("Llama")
    fixed, m = study.fixed, study.fixed.n // 2
    found = page.evaluate(
        """(m) => {
            const circuit = fixed_layer.circuit();
            const short = circuit.for(fixed_layer.passages[0].ids.slice(0, m + 1));
            const {ids} = fixed_layer.calibration;
            const cut = [...ids.slice(0, m), circuit.token];
            const sums = short.split.seen(cut).contents(fixed_layer.everyHead)
                .map((row, h) => row.reduce((sum, c, i) => sum + c * short.kernels[h][i], 0));
            return {n: short.n, kernels: short.kernels.map((row) => [...row]), sums,
                denominators: [...short.denominators], scale: short.scale};
        }""",
        m,
    )
    near = fixed.decomposition.kernels[:, -m - 1 :]
    assert found["n"] == m
    assert off(found["kernels"], near / near.sum(1, keepdim=True)) < EXACT
    assert found["denominators"] == pytest.approx(found["sums"])
    cut = study.calibration_text.tokens[: m + 1].clone()
    cut[m] = fixed.token
    likes = fixed.decomposition.content[:, cut] * near / near.sum(1, keepdim=True)
    assert found["denominators"] == pytest.approx(likes.sum(1).tolist(), rel=0.01)
    assert 0 < found["scale"] < np.inf


def test_a_token_without_data_adds_nothing_and_another_query_is_refused(page, fixed_layer):
    fixed_layer("Llama")
    found = page.evaluate(
        """() => {
            const missing = [...fixed_layer.vocab.keys()].find((id) => !fixed_layer.hasToken(id));
            const {ids} = fixed_layer.passages[0];
            const circuit = fixed_layer.circuit();
            const text = circuit.placed(ids);
            text[3] = missing;
            const errors = [];
            for (const wrong of [{n: fixed_layer.n + 1}, {token: 7}])
                try { fixed_layer.circuit(wrong); } catch (error) { errors.push(error.message); }
            return {missing, errors, term: circuit.read(text).terms([0], 5)[3],
                own: fixed_layer.read([0], circuit.read(text).own([0])).every(Number.isFinite)};
        }"""
    )
    assert found["missing"] is None or (found["term"], found["own"]) == (0, True)
    assert len(found["errors"]) == 2


def test_of_a_large_vocabulary_the_tokens_that_matter_are_ranked(
    page, load, toy, circuit_of_toy, monkeypatch
):
    """The mean still counts all of them."""
    monkeypatch.setattr(layerfile, "RANKED", 100 * toy.n_neurons)
    load("other", packed_layer(toy, cx.texts.collection(toy, 40)))
    all_of_them, chosen = page.evaluate("[[...other.counted], [...other.ranked]]")
    assert len(chosen) == 100 < len(all_of_them)
    assert chosen == sorted(set(chosen) & set(all_of_them))
    for token in page.evaluate("other.destinations.slice(0, 2).map(({id}) => id)"):
        circuit = circuit_of_toy([0, 1], token=token)
        table = cx.find_neurons(circuit, threshold=-1e9).sort_index()
        found = ranked(page, [0, 1], token, "other")
        assert off(found["mean"], table["mean"]) < 20 * ROUNDED
        assert set(found["tokens"]) <= set(chosen)
        # a few largest tokens of some neurons are not among the hundred
        assert stats.spearmanr(found["top"], table["top"]).statistic > 0.9


def test_a_page_reads_no_text_for_another_kind_of_tokenizer(toy):
    words = ["[start]", "[other]", "the", "of", "and", ","]
    vocab = {word: i for i, word in enumerate(words)}
    raw = Tokenizer(models.WordLevel(vocab, unk_token="[other]"))
    own = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="[start]", unk_token="[other]")
    weights = dataclasses.replace(toy, tokenizer=own)
    packed = packed_layer(weights, cx.texts.collection(weights, 10))
    assert not header(packed)["byte_level"] and not len(tensors(packed)["merges"])
    assert header(packed)["vocab"] == words + [""] * (toy.d_vocab - len(words))


def test_a_page_reads_text_for_pieces_with_bytes(page, load, toy):
    tokens = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abc", "ab", "▁ab"]
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [("a", "b"), ("▁", "ab")]
    raw = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", False)
    raw.add_tokens([AddedToken("\n\n", normalized=False)])
    raw.add_special_tokens([AddedToken("c", special=True)])
    own = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="<unk>")
    weights = dataclasses.replace(toy, tokenizer=own)
    load("pieced", packed_layer(weights, cx.texts.collection(weights, 10)))
    texts = ["ab cab", "ba\n\nab", "é ab", " c"]
    found = page.evaluate(
        """async (texts) => {
            const { Tokenizer } = await import("/views/engine/tokenizer.js");
            const tokenizer = new Tokenizer(pieced);
            return [pieced.bos, texts.map((text) => [...tokenizer.encode(text)])];
        }""",
        texts,
    )
    assert found == [vocab["<s>"], [cx.texts.encode(weights, t).tolist()[1:] for t in texts]]


# ---------------------------------------------------------------- the file


def test_the_file_is_small_and_the_same_each_time(packed_mini, packed_toy, toy):
    assert len(packed_mini) < 3.15e6
    assert str(cx.models.MINI).encode() not in gzip.decompress(packed_mini)
    assert packed_layer(toy, cx.texts.collection(toy, 40)) == packed_toy
    assert packed_toy[4:8] == bytes(4), "gzip's time"


def test_the_destination_is_in_the_shortest_text(toy):
    first, *others = cx.texts.collection(toy, 10)
    short = dataclasses.replace(first, tokens=first.tokens[:9])
    assert header(packed_layer(toy, [*others, short]))["n"] == 8


@pytest.mark.parametrize("size", [1e-7, 1e7])
def test_numbers_that_are_too_small_or_too_large_for_16_bits_have_32(size):
    W = np.linspace(-size, size, 9, dtype=np.float32)
    assert layerfile.compact(W / np.float32(size)).dtype == np.float16
    np.testing.assert_array_equal(layerfile.compact(W), W)


def test_weights_that_a_page_cannot_use_are_refused(toy):
    texts = cx.texts.collection(toy, 10)
    for missing in ({"tokenizer": None}, {"W_E": None}, {"W_in": None, "b_in": None}):
        with pytest.raises(ValueError):
            packed_layer(dataclasses.replace(toy, **missing), texts)


def complaint(page, call):
    """What is wrong, according to the one line that a reader sees."""
    with pytest.raises(Error) as error:
        page.evaluate(f"() => engine.{call}")
    message = error.value.message.splitlines()[0].partition("Error: ")[2]
    return re.fullmatch(r"This view's data \((.*)\) cannot be used: (.*)\.", message).groups()


def test_a_damaged_file_is_one_readable_error(view_folder, page, packed_toy):
    whole = packed_toy
    damaged, another = "it is damaged or cut off", "it is another kind of file"
    cases = [
        (whole[:-99] + bytes([whole[-99] ^ 4]) + whole[-98:], damaged),
        (whole[: len(whole) // 3], damaged),
        (b"", "it is empty"),
        (b"<!doctype html><p>Not found", another),
        (gzip.compress(b"hello world"), another),
        (gzip.compress(b"\4\0\0\0\0\0\0\0null"), another),
        (repacked(whole, version=1), "it has version 1 and this page reads version 3"),
        (repacked(whole, format="ctxlib lawyr"), another),
    ]
    for k, (content, reason) in enumerate(cases):
        (view_folder / "broken.bin").write_bytes(content)
        error = complaint(page, f"loadLayer('/broken.bin?{k}')")
        assert error == ("broken.bin", reason), k


def test_a_missing_file_is_one_readable_error(page):
    found = complaint(page, "loadLayer('http://127.0.0.1:9/x.bin')")
    assert found == ("x.bin", "the server does not answer")
    assert complaint(page, "readLayer(new ArrayBuffer(0))") == ("layer", "it is empty")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("circuit().read([0, 1, 2]).summary([])", "no heads: choose at least one"),
        ("circuit().read([0, 1, 2]).summary([8])", "head 8: there are 0 to 7"),
        ("circuit().read([0, 1, 9000]).summary([3])", "token 9000: there are 0 to 8191"),
        ("circuit().read([]).summary([3])", "no tokens: a text has at least one"),
        ("circuit().read([0, 1, 2]).terms([3], 1024)", "neuron 1024: there are 0 to 1023"),
        ("circuit().rank([1.5])", "head 1.5: there are 0 to 7"),
        ("circuit({n: 512})", "position 512: there are 0 to 511"),
        ("circuit({token: NaN})", "token NaN: there are 0 to 8191"),
        ("attentionRows([0, 1], 2)", "destination 2: there are 0 to 1"),
        ("rebuiltRows([0, 1], 1, 0)", "C = 0: the norm of an embedding is a positive number"),
    ],
)
def test_what_does_not_exist_is_refused(page, call, message):
    with pytest.raises(Error, match=f"RangeError: {re.escape(message)}"):
        page.evaluate(f"async () => {{ await layer.{call}; }}")


def test_the_shortest_texts_have_numbers(page):
    assert page.evaluate(
        """() => [[0], [0, 5]].every((ids) => {
            const circuit = layer.circuit();
            const whole = circuit.read(ids).summary([3, 4]);
            const terms = circuit.read(ids).terms([3, 4], 9);
            return terms.length === ids.length && layer.attentionRows(ids)[3].length === ids.length
                && Math.abs(terms.reduce((a, b) => a + b) - whole[9]) < 1e-9
                && layer.read([3], circuit.read(ids).own([3])).every(Number.isFinite);
        })"""
    )
