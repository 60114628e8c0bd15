"""The evaluation: r and FVU from running sums, kept through kills, and what each step costs."""

import math
import os
import re
import shutil
import signal
import threading
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from functools import partial, reduce
from pathlib import Path
from types import SimpleNamespace

import by_hand
import numpy as np
import pandas as pd
import pytest
import torch
from by_hand import as_encoder, calibrated, cases, draw, draw_texts, seeds
from command import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy import stats
from sklearn.metrics import r2_score

import ctxlib as cx
from ctxlib.evaluation import Moments
from ctxlib.query import FixedQuery
from ctxlib.texts import accumulate

calibrate, approx_summary = cx.ContextualCircuit.calibrate, cx.evaluation.approx_summary
same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
same_table = partial(pd.testing.assert_frame_equal, rtol=1e-8, atol=1e-11)
identical = partial(pd.testing.assert_frame_equal, check_exact=True)

APPROXIMATIONS = [*cx.evaluation.APPROXIMATIONS]
PARTS = ["from offset", "from spread", "from shape"]
TEXTS = list(draw_texts(20, 32, 300, seed=1))


@pytest.fixture(params=["the paper's", "self-normalised", "an encoder's"])
def either(request, circuit, precise):
    """Both kinds of circuit, and one with sources on both sides."""
    if request.param == "an encoder's":
        return calibrate(cx.fix_query(as_encoder(precise), n=9), TEXTS[0], [2, 0])
    return circuit if request.param == "the paper's" else circuit.self_normalized()


def table_by_hand(approx, truth):
    """What scipy, sklearn and numpy say of each neuron."""
    a, t = approx.double().numpy(), truth.double().numpy()
    r = stats.pearsonr(a, t).statistic
    offset, spread = (a.mean(0) - t.mean(0)) / t.std(0), a.std(0) / t.std(0)
    columns = {"r": r, "fvu": 1 - r2_score(t, a, multioutput="raw_values")}
    columns |= dict(zip(PARTS, (offset**2, (spread - r) ** 2, 1 - r**2), strict=True))
    columns |= {"offset": offset, "spread": spread, "sd": t.std(0)}
    return pd.DataFrame(columns).rename_axis("neuron")


# ---------------------------------------------------------------- r and FVU from running sums


def two(count, neurons, seed=0, level=0.0):
    """An approximation and the truth that it is about."""
    truth = level + draw(count, neurons, seed=seed)
    return 0.3 + 0.8 * truth + 0.4 * draw(count, neurons, seed=seed + 1), truth


@given(
    seeds,
    st.lists(st.integers(1, 9), min_size=2, max_size=6),
    st.floats(-100, 100),
    st.floats(-1e3, 1e3),
)
def test_moments_give_what_scipy_and_sklearn_give(seed, sizes, level, drift):
    """From any parts, in any order, to the precision that they are kept in, also where the parts
    have different means, or one far from zero, where sums of squares would have lost all digits;
    and the three parts of the FVU add up to it.
    """
    approx, truth = two(sum(sizes), 3, seed, level)
    table = Moments.of(approx, truth).table(range(3))
    rough = approx.float(), truth.float()  # summed in double
    same_table(Moments.of(*rough).table(range(3)), table_by_hand(*rough), atol=1e-9)
    # with two texts r is 1 or -1 up to rounding, and 1 - r^2 nothing but rounding
    pd.testing.assert_frame_equal(table, table_by_hand(approx, truth), rtol=1e-6, atol=1e-9)
    assert table[PARTS].sum(axis=1).tolist() == pytest.approx(table["fvu"].tolist())
    assert (table[PARTS] > -1e-12).all(axis=None)
    far = map(Moments.of, (approx + 1e6).split(sizes), (truth + 1e6).split(sizes))
    joined = reduce(Moments.__add__, far).table(range(3))
    pd.testing.assert_frame_equal(joined, table, rtol=1e-5, atol=1e-6)
    slope = drift * torch.arange(sum(sizes), dtype=torch.float64)[:, None]
    approx, truth = approx + slope, truth - slope
    whole = Moments.of(approx, truth)
    parts = list(map(Moments.of, approx.split(sizes), truth.split(sizes)))
    for joined in (reduce(Moments.__add__, parts), reduce(Moments.__add__, parts[::-1])):
        for field in fields(Moments):
            same(getattr(joined, field.name), getattr(whole, field.name))


@pytest.mark.parametrize("level", [0.0, 1.0, 0.1, -1234.567])
@pytest.mark.parametrize("count", [2, 7, 64])
def test_what_does_not_vary_has_no_r_and_a_truth_that_does_not_no_fvu(level, count):
    """But a constant has an FVU; and what is not a number is not constant."""
    approx, truth = two(count, 5)
    truth[:, 1:3] = level  # a mean of equal numbers need not be that number, in floating point
    approx[:, 2:4] = level
    approx[1, 4] = math.nan
    table = Moments.of(approx, truth).table(range(5))
    assert table.loc[0].notna().all()
    assert table.drop(columns="sd").loc[[1, 2]].isna().all(axis=None)
    off = ((level - truth[:, 3].mean()) / truth[:, 3].std(correction=0)).item()
    assert math.isnan(table.loc[3, "r"]) and table.loc[3, "fvu"] == pytest.approx(1 + off**2)
    assert table.loc[4, ["r", "fvu", "from spread", "from shape"]].isna().all()


@given(seeds, st.permutations([*"aaaaabbbbccc"]))
def test_r_within_domains_is_of_what_no_domain_shares(seed, domains):
    """Of domains that are not of one size; medians over the neurons."""
    shift = 9 * draw(3, 5, seed=seed + 2)[["abc".index(domain) for domain in domains]]
    both = [v + side * shift for v, side in zip(two(12, 5, seed), (1, -1), strict=True)]
    means = [pd.DataFrame(v.numpy()).groupby(domains).transform("mean") for v in both]
    inside = [v - torch.tensor(mean.to_numpy()) for v, mean in zip(both, means, strict=True)]
    whole, within = (table_by_hand(*pair).median() for pair in (both, inside))
    found = cx.evaluation.r_and_fvu(*both, domains)
    expected = {"r": whole["r"], "r within domains": within["r"], "FVU": whole["fvu"]}
    assert found.to_dict() == pytest.approx(expected)
    with pytest.raises(ValueError, match="11 domains for 12 texts: give one for each"):
        cx.evaluation.r_and_fvu(*both, domains[:11])
    with pytest.raises(ValueError, match=r"\[12, 5\] and \[12, 1\]: give one shape twice"):
        Moments.of(both[0], both[1][:, :1])


# ---------------------------------------------------------------- a circuit against the truth


def test_the_table_is_that_of_all_texts_at_once(either, monkeypatch):
    monkeypatch.setattr("ctxlib.texts.batching.BATCH", 3)
    table, x = cx.evaluate(either, TEXTS), either.fixed.prepare(TEXTS)
    same_table(table, table_by_hand(either.summary(x), either.fixed.exact_summary(x, either.heads)))
    assert table.attrs["texts"] == 20
    for neurons in ([7], [30, 2, 11], torch.tensor([3, 4]), pd.Index([9, 0])):
        same_table(cx.evaluate(either, TEXTS, neurons), table.loc[[int(j) for j in neurons]])


# ---------------------------------------------------------------- checkpoints


@contextmanager
def counting(batch=4, torn=0):
    """Batches of so many, and the sizes of those whose truth was computed. What is written for the
    `torn`th time is not all of it, and the end: nothing in the package catches that.
    """
    sizes, written, truth, save = [], [], FixedQuery.exact_summary, accumulate.save_file

    def counted(fixed, tokens, heads):
        sizes.append(len(tokens))
        return truth(fixed, tokens, heads)

    def written_or_torn(tensors, path, words):
        save(tensors, path, words)
        written.append(path)
        if len(written) == torn:
            Path(path).write_bytes(Path(path).read_bytes()[:100])
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ctxlib.texts.batching.BATCH", batch)
        patch.setattr(FixedQuery, "exact_summary", counted)
        patch.setattr(accumulate, "save_file", written_or_torn)
        yield sizes


@pytest.fixture
def in_fours():
    with counting() as sizes:
        yield sizes


WORDS = ("the colour of the water; ", "the nurse and the doctor; ", "the moon of the planet; ")


@pytest.fixture
def folder(tmp_path):
    """40 documents in two files, each of more than two texts of 32 tokens."""
    for number, name in enumerate(("a.txt", "b.txt")):
        drawn = np.random.default_rng(number).choice(WORDS, (20, 12))
        (tmp_path / name).write_text("\n<|endoftext|>\n".join(map("".join, drawn)))
    return tmp_path


ways = st.sampled_from(["list", "made", "stream", "damaged"])
sittings = st.tuples(
    st.integers(1, 20), st.sampled_from([3, 4, 4, 64]), ways, st.booleans(), st.integers(0, 5)
)
WHOLE = 9  # texts of the damaged files


@given(st.lists(sittings, max_size=4), st.booleans())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sittings_killed_or_not_give_the_table_of_one(circuit, precise, folder, some, own):
    """However many texts each is given, from wherever they come, in whatever batches, here or on a
    cluster, with the same circuit made anew: no text is missed, and none done twice but those of a
    batch that was being written. One text alone is kept as well, and what was done before the texts
    broke off, in a file that is damaged; fewer texts than are kept are refused. Whole batches give
    the identical table.
    """
    chosen = circuit.self_normalized() if own else circuit
    source = (folder / "b.txt").read_bytes()
    stream = partial(cx.texts.stream, precise, source=folder)
    texts, file, lost = list(stream(20)), folder / "kept" / "sums", 0
    shutil.rmtree(file.parent, ignore_errors=True)
    file.parent.mkdir()
    with counting() as sizes:
        whole = cx.evaluate(chosen, texts)
    done = []
    last = (20, "damaged"), (5, "stream"), (20, "stream"), (20, "list")
    last = [(count, 4, way, False, 0) for count, way in last]
    for count, batch, way, remote, nth in [*some, *last]:
        damaged = way == "damaged"
        (folder / "b.txt").write_bytes(source[:500] + b"\xff" + source[501:] if damaged else source)
        given = {"list": texts[:count], "made": iter(texts[:count])}.get(way, stream(count))
        client, held = Cluster() if remote else None, sum(done) - lost
        with counting(batch, nth) as sizes:
            try:
                table = cx.evaluate(deepcopy(chosen), given, checkpoint=str(file), client=client)
                assert count >= max(held, 2) and not (damaged and held < WHOLE < count)
            except KeyboardInterrupt:
                lost += sizes[-1]
            except ValueError as error:
                message = f"holds {held - count} more texts|at least two texts|b.txt is not UTF-8"
                assert re.search(message, str(error)) and (count < max(held, 2) or damaged)
                assert held + sum(sizes) > min(count, WHOLE if damaged else 20) - batch
        done += sizes
    assert sum(done) - lost == table.attrs["texts"] == 20
    (identical if {*done} == {4} else same_table)(table, whole)
    assert [kept.name for kept in file.parent.iterdir()] == ["sums"]


def changed(held):
    """A circuit with one part of it changed, or of what it holds, for every part but the words."""
    for field in fields(held):
        value = getattr(held, field.name)
        if is_dataclass(value):
            others = changed(value)
        elif isinstance(value, torch.Tensor):
            others = [value.flip(0)]
        elif isinstance(value, dict):
            # in one place, by less than is printed
            others = [{k: (W + 1e-6 * (W.max() == W), b)} for k, (W, b) in value.items()]
        else:
            other = {tuple: lambda v: v[::-1], str: str.upper, type(None): lambda _: torch.ones(1)}
            change = other.get(type(value), lambda v: v + 1)
            others = [change(value)] if field.name != "tokenizer" else []
        for other in others:
            yield replace(held, **{field.name: other})


@pytest.fixture(scope="module")
def by_means(tiny, drawn):
    """A circuit of the split by two means."""
    return calibrate(cx.fit_additive(tiny, drawn, 20), drawn[0], [2, 0])


@pytest.mark.parametrize("of", ["circuit", "by_means"])
def test_a_checkpoint_of_another_circuit_or_of_other_texts_is_refused_and_kept(
    request, tmp_path, in_fours, of
):
    file, circuit = tmp_path / "sums", request.getfixturevalue(of).self_normalized()
    cx.evaluate(circuit, TEXTS, checkpoint=file)
    before, one_token = file.read_bytes(), torch.stack(TEXTS)
    one_token[11, 7] += 1
    circuits = [*changed(circuit), circuit.circuit]
    assert len(circuits) > 20
    others = [*((other, TEXTS, {}) for other in circuits), (circuit, TEXTS, {"neurons": [0, 1]})]
    another = "another circuit or other neurons|^layer 1: "
    refused = [(*other, another) for other in others]
    for texts in (one_token, [*one_token, TEXTS[0]], [TEXTS[1], TEXTS[0], *TEXTS[2:]]):
        refused.append((circuit, texts, {}, "other texts"))
    for other, texts, more, message in [*refused, (circuit, [], {}, "holds 20 more texts")]:
        with pytest.raises(ValueError, match=message):
            cx.evaluate(other, texts, checkpoint=file, **more)
    assert [kept.read_bytes() for kept in tmp_path.iterdir()] == [before]


def test_a_damaged_checkpoint_is_refused_and_kept(circuit, tmp_path):
    file = tmp_path / "sums"
    cx.evaluate(circuit, TEXTS, checkpoint=file)
    with pytest.raises(ValueError, match=r"checkpoint='.*/none/sums': name a file in a folder"):
        cx.evaluate(circuit, TEXTS, checkpoint=tmp_path / "none" / "sums")
    whole, held = file.read_bytes(), load_file(file)
    with safe_open(file, "pt") as opened:
        words = opened.metadata()
    damaged = [whole[: len(whole) // 2], whole[:-1], b"", b"not safetensors at all"]
    for name in ("no words", *held, *words):
        tensors, metadata = ({k: v for k, v in part.items() if k != name} for part in (held, words))
        save_file(tensors, file, None if name == "no words" else metadata)
        damaged.append(file.read_bytes())
    assert len(damaged) == 4 + 1 + 3 + 4
    for broken in damaged:
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="sums is not a checkpoint of an evaluation"):
            cx.evaluate(circuit, TEXTS, checkpoint=file)
        assert file.read_bytes() == broken


# ---------------------------------------------------------------- texts that come one by one


def test_texts_of_a_stream_that_are_done_are_not_read_again(circuit, precise, folder, tokenised):
    """But for the document of each file in which the first sitting ended: were there other words in
    it, the checkpoint is refused.
    """
    seen = []
    for count, file in ((80, None), (40, folder / "sums"), (80, folder / "sums")):
        cx.evaluate(circuit, cx.texts.stream(precise, count, folder), checkpoint=file)
        seen.append(tokenised.call_count - sum(seen))
    assert seen[1] > 10 and seen[1] + seen[2] <= seen[0] + 2
    cx.evaluate(circuit, cx.texts.stream(precise, 80, folder), checkpoint=folder / "sums")
    assert tokenised.call_count == sum(seen) + 1
    for file in folder.glob("*.txt"):
        file.write_text(file.read_text().replace("moon", "noon").replace("nurse", "purse"))
    with pytest.raises(ValueError, match="sums was made with other texts"):
        cx.evaluate(circuit, cx.texts.stream(precise, 80, folder), checkpoint=folder / "sums")


# ---------------------------------------------------------------- on a cluster


class Cluster:
    """What `evaluate` needs of a Dask client, in one process."""

    def __init__(self, threads=2):
        self.threads, self.under_way, self.most, self.circuits = threads, 0, 0, 0

    def nthreads(self):
        return {"one": self.threads}

    def submit(self, function, *arguments, pure):
        self.circuits += len(arguments) == 1
        self.under_way += len(arguments) == 2
        self.most = max(self.most, self.under_way)

        def result():
            self.under_way -= len(arguments) == 2
            return function(*(a.result() if hasattr(a, "result") else a for a in arguments))

        return SimpleNamespace(result=result)


@pytest.mark.parametrize("threads", [1, 2, 50])
def test_a_cluster_gives_the_identical_table(either, in_fours, threads):
    client = Cluster(threads)
    identical(cx.evaluate(either, TEXTS, client=client), cx.evaluate(either, TEXTS))
    assert client.circuits == 1, "the circuit travels once"
    assert client.most == min(5, 2 * threads), "as far ahead, and no further"


@pytest.mark.parametrize(
    ("workers", "processes"),
    [(2, False), pytest.param(1, True, marks=pytest.mark.nightly)],  # of threads, or of its own
)
def test_a_cluster_that_loses_a_worker_gives_the_same_table(
    circuit, tmp_path, in_fours, monkeypatch, workers, processes
):
    """What it held is made again; with one worker, the circuit that was sent out is lost too."""
    import distributed

    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the workers, which import the package
    whole, lost = cx.evaluate(circuit, TEXTS * 3), []
    # a lock cannot travel: nothing that a worker does not need may be sent to it
    monkeypatch.setattr(circuit.fixed.tokenizer, "lock", threading.Lock(), raising=False)
    options = {"checkpoint": tmp_path / "sums"}
    kind = {"n_workers": workers, "processes": processes, "threads_per_worker": 1}
    quiet = {"dashboard_address": None, "silence_logs": "CRITICAL"}
    with distributed.LocalCluster(**kind, **quiet) as cluster, cluster.get_client() as client:

        def losing():
            """The texts; half-way, a worker is lost."""
            yield from TEXTS + TEXTS[:10]
            lost.append(next(iter(client.nthreads())))
            if processes:
                os.kill(cluster.workers[0].pid, signal.SIGKILL)
            else:
                cluster.sync(cluster.scheduler.remove_worker, lost[0], stimulus_id="lost")
            yield from TEXTS[10:] + TEXTS

        table = cx.evaluate(circuit, losing(), client=client, **options)
    assert len(lost) == 1
    exact = {"rtol": 1e-6} if processes else {"check_exact": True}
    pd.testing.assert_frame_equal(table, whole, **exact)
    in_fours.clear()
    identical(cx.evaluate(circuit, TEXTS * 3, **options), table)
    assert in_fours == [], "what the cluster did need not be done again"


# ---------------------------------------------------------------- one approximation at a time


def approximated_by_hand(circuit, text, made):
    """The circuit's steps, each taken as an approximation or exactly, one source at a time."""
    w, n, heads = circuit.fixed.decomposition.weights, circuit.fixed.n, circuit.heads
    own = text[: by_hand.n_sources(w, n)]
    x = by_hand.crop(w, own, n, circuit.fixed.token) if "token" in made else own
    calibration = by_hand.crop(w, circuit.calibration.tolist(), n, x[n])
    wheres = [
        by_hand.positional_component(w, i, n, circuit.fixed.decomposition.C) for i in range(len(x))
    ]
    q = {h: by_hand.query(w, h, by_hand.content_component(w, x[n], n)) for h in heads}

    def content(h, i, t):
        if "keys" in made:
            return by_hand.content(w, h, q[h], n, t)
        exact, where = (
            by_hand.score(w, h, q[h], v) for v in (by_hand.content_component(w, t, i), wheres[i])
        )
        return math.exp(exact - where)

    kernels = {h: by_hand.kernel(w, h, q[h], n, circuit.fixed.decomposition.C) for h in heads}
    shared, total = by_hand.shared(kernels.values()), 0
    for h, kernel in kernels.items():
        used = shared if "kernel" in made else kernel
        row = [pos * content(h, i, x[i]) for i, pos in enumerate(used)]
        denominator = sum(row)
        if "denominators" in made:
            denominator = sum(pos * content(h, i, calibration[i]) for i, pos in enumerate(kernel))
        places = [n if "values" in made else i for i in range(len(x))]
        values = [
            by_hand.value(w, h, by_hand.content_component(w, t, i))
            for t, i in zip(x, places, strict=True)
        ]
        total = total + by_hand.weighted(row, values) / denominator @ w.W_O[h]
    if "scale" in made:
        return total @ w.W_in / circuit.scale
    stream = by_hand.resid_mid(w, own, n, by_hand.head_outputs(w, own, n))
    return total @ w.W_in / by_hand.scale(w, stream)


@given(cases(), st.sets(st.sampled_from(APPROXIMATIONS)))
def test_any_set_of_approximations_is_the_loops(make_weights, case, made):
    """And none is the truth, and all are the circuit, of a text with its token at n."""
    circuit, texts = calibrated(make_weights, case), case.texts[1:].clone()
    hand = [approximated_by_hand(circuit, x, made) for x in texts.tolist()]
    same(approx_summary(circuit, texts, made), torch.stack(hand))
    truth = circuit.fixed.exact_summary(texts, case.heads)
    same(approx_summary(circuit, texts, ()), truth)
    texts[:, case.n] = case.token
    same(approx_summary(circuit, texts, APPROXIMATIONS), circuit.summary(texts))


def test_no_approximation_is_the_truth_for_heads_that_look_at_one_place(tiny_weights):
    """In float32, where kernels of theirs underflow."""
    sharp = replace(tiny_weights, W_Q=300 * tiny_weights.W_Q, b_Q=300 * tiny_weights.b_Q)
    assert (cx.positional_kernels(sharp, 20, 5) == 0).any()
    calm = calibrate(cx.fix_query(tiny_weights, n=20), TEXTS[0], [2, 0])
    fixed = cx.fix_query(sharp, n=20, C=calm.fixed.decomposition.C)
    circuit, x = replace(calm, fixed=fixed), torch.stack(TEXTS)
    truth = fixed.exact_summary(x, circuit.heads)
    torch.testing.assert_close(approx_summary(circuit, x, []), truth, rtol=1e-3, atol=1e-3)
    for made in {*APPROXIMATIONS} - {"denominators"}:  # another text's need not be of this size
        assert approx_summary(circuit, x, [made]).isfinite().all()


def test_no_approximation_is_the_truth_where_a_kernel_is_zero(of_kind):
    """As ALiBi's are, far back."""
    fixed = cx.fix_query(of_kind("Bloom").model, TEXTS, 20)
    offset = fixed.exact.qk_offset.clone()
    offset[:, 3] -= 200
    exact = replace(fixed.exact, qk_offset=offset)
    approx = replace(fixed.decomposition, exact=exact)
    fixed = replace(fixed, decomposition=approx, exact=exact)
    assert (fixed.decomposition.kernels[:, 3] == 0).all()
    circuit, x = calibrate(fixed, TEXTS[0], [2, 0]), fixed.prepare(TEXTS)
    truth = fixed.exact_summary(x, circuit.heads)
    torch.testing.assert_close(approx_summary(circuit, x, ()), truth, rtol=1e-4, atol=1e-4)
    assert cx.evaluation.error_budget(circuit, TEXTS)["fvu"].notna().all()


def test_what_was_evaluated_has_derivatives(tiny_weights):
    circuit = calibrate(cx.fix_query(tiny_weights, n=20), TEXTS[0], [2, 0])
    cx.evaluate(circuit, TEXTS)
    for kept in (circuit.weighted_values, circuit.readout):
        (kept * kept.new_ones(kept.shape, requires_grad=True)).sum().backward()


def test_the_budget_is_made_of_medians_over_neurons(circuit, monkeypatch):
    monkeypatch.setattr("ctxlib.texts.batching.BATCH", 7)
    neurons = [3, 17, 8, 30]
    budget = cx.evaluation.error_budget(circuit, TEXTS, neurons)
    names = [name for name in APPROXIMATIONS if name != "token"]
    every = set(names)
    rows = {("none", ""): set(), ("all", ""): every}
    rows |= {("without", name): every - {name} for name in names}
    rows |= {("only", name): {name} for name in names}
    assert budget.index.names == ["made", "approximation"]
    assert budget.columns.tolist() == ["r", "fvu", *PARTS]
    assert budget.index.tolist() == [*rows]
    x = circuit.fixed.prepare(TEXTS)
    truth = approx_summary(circuit, x, [])[:, neurons]
    for row, made in rows.items():
        by_hand = table_by_hand(approx_summary(circuit, x, made)[:, neurons], truth).median()
        assert budget.loc[row].tolist() == pytest.approx(by_hand[budget.columns].tolist(), abs=1e-9)
    with pytest.raises(ValueError, match=r"no approximation called .*there are \['keys', "):
        cx.evaluation.approx_summary(circuit, x, "keys")
    for of in (circuit.contribution_to, partial(cx.evaluate, circuit, TEXTS)):
        with pytest.raises(ValueError, match="neuron -1: there are neurons 0 to 39"):
            of([2, -1])
    with pytest.raises(TypeError, match="where a ContextualCircuit is wanted"):
        cx.evaluation.error_budget(circuit.self_normalized(), TEXTS)
