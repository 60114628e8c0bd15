"""The evaluation: r and FVU from running sums, kept through kills, and what each step costs."""

import math
import os
import signal
import threading
import weakref
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial, reduce
from pathlib import Path
from types import SimpleNamespace

import by_hand
import numpy as np
import pandas as pd
import pytest
import torch
from beartype import beartype
from by_hand import calibrated, cases, draw, draw_texts, seeds
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from scipy import stats
from sklearn.metrics import r2_score

import ctxlib as cx
from ctxlib import scale

calibrate, approximated = cx.ContextualCircuit.calibrate, cx.evaluation.approximated
same = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-9)  # float64
same_table = partial(pd.testing.assert_frame_equal, rtol=1e-8, atol=1e-11)
identical = partial(pd.testing.assert_frame_equal, check_exact=True)

ROOT = Path(__file__).resolve().parent.parent
NAMES = ["keys", "values", "kernel", "denominators", "token", "scale"]
PARTS = ["from offset", "from spread", "from shape"]


@pytest.fixture(scope="module")
def texts():
    return list(draw_texts(20, 32, 300, seed=1))


@pytest.fixture(params=["the paper's", "self-normalised"])
def either(request, circuit, texts):
    """Both kinds of circuit."""
    return circuit if request.param == "the paper's" else circuit.self_normalised(texts[:3])


def with_token(texts, circuit):
    """A stack of texts as calibration reads them: the circuit's token at n, nothing behind it."""
    n = circuit.at.n
    cut = torch.stack(list(texts))[:, : n + 1].clone()
    cut[:, n] = circuit.at.token
    return cut


def both(circuit, stack):
    """The summaries and the truths, all texts at once."""
    return circuit.summary(stack), circuit.at.truth(stack, circuit.heads)


def table_by_hand(approx, truth):
    """What scipy, sklearn and numpy say of each neuron."""
    rows = []
    for a, t in zip(approx.T.double().numpy(), truth.T.double().numpy(), strict=True):
        r = stats.pearsonr(a, t).statistic
        offset, spread = (a.mean() - t.mean()) / t.std(), a.std() / t.std()
        rows.append(
            {
                "r": r,
                "fvu": 1 - r2_score(t, a),
                "from offset": offset**2,
                "from spread": (spread - r) ** 2,
                "from shape": 1 - r**2,
                "offset": offset,
                "spread": spread,
                "sd": t.std(),
            }
        )
    return pd.DataFrame(rows).rename_axis("neuron")


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
    have different means; and the three parts of the FVU add up to it.
    """
    approx, truth = two(sum(sizes), 3, seed, level)
    table = cx.Moments.of(approx, truth).table(range(3))
    rough = approx.float(), truth.float()  # summed in double
    same_table(cx.Moments.of(*rough).table(range(3)), table_by_hand(*rough), atol=1e-9)
    # with two texts r is 1 or -1 up to rounding, and 1 - r^2 nothing but rounding
    pd.testing.assert_frame_equal(table, table_by_hand(approx, truth), rtol=1e-6, atol=1e-9)
    assert table[PARTS].sum(axis=1).tolist() == pytest.approx(table["fvu"].tolist())
    assert (table[PARTS] > -1e-12).all(axis=None)
    slope = drift * torch.arange(sum(sizes), dtype=torch.float64)[:, None]
    approx, truth = approx + slope, truth - slope
    whole = cx.Moments.of(approx, truth)
    parts = list(map(cx.Moments.of, approx.split(sizes), truth.split(sizes)))
    for joined in (reduce(cx.Moments.__add__, parts), reduce(cx.Moments.__add__, parts[::-1])):
        for field in fields(cx.Moments):
            same(getattr(joined, field.name), getattr(whole, field.name))


def test_a_mean_far_from_zero_costs_no_precision():
    """Sums of squares would have lost all twelve digits of which these have to be made."""

    def joined(approx, truth):
        parts = map(cx.Moments.of, approx.split(7), truth.split(7))
        return reduce(cx.Moments.__add__, parts).table(range(2))

    approx, truth = two(300, 2)
    near, far = joined(approx, truth), joined(approx + 1e6, truth + 1e6)
    pd.testing.assert_frame_equal(near, far, rtol=1e-6)


@pytest.mark.parametrize("level", [0.0, 1.0, 0.1, -1234.567])
@pytest.mark.parametrize("count", [2, 7, 64])
def test_what_does_not_vary_has_no_r_and_a_truth_that_does_not_no_fvu(level, count):
    """But a constant has an FVU; and what is not a number is not constant."""
    approx, truth = two(count, 5)
    truth[:, 1:3] = level  # a mean of equal numbers need not be that number, in floating point
    approx[:, 2:4] = level
    approx[1, 4] = math.nan
    table = cx.Moments.of(approx, truth).table(range(5))
    assert table.loc[0].notna().all()
    assert table.drop(columns="sd").loc[[1, 2]].isna().all(axis=None)
    off = ((level - truth[:, 3].mean()) / truth[:, 3].std(correction=0)).item()
    assert math.isnan(table.loc[3, "r"]) and table.loc[3, "fvu"] == pytest.approx(1 + off**2)
    assert table.loc[4, ["r", "fvu", "from spread", "from shape"]].isna().all()


# ---------------------------------------------------------------- a circuit against the truth


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_the_table_is_that_of_all_texts_at_once(either, texts, monkeypatch, batch):
    monkeypatch.setattr(cx.texts, "BATCH", batch)
    tables = [cx.evaluate(either, texts, own_token=own_token) for own_token in (False, True)]
    for table, stack in zip(tables, (with_token(texts, either), torch.stack(texts)), strict=True):
        same_table(table, table_by_hand(*both(either, stack)))
        assert table.attrs["texts"] == 20
    assert not np.allclose(tables[0]["r"], tables[1]["r"], atol=1e-3), "the token at n matters"


def test_neurons_may_be_chosen_and_texts_be_labelled_be_made_and_end_at_n(circuit, texts):
    whole = cx.evaluate(circuit, texts)
    for neurons in ([7], [30, 2, 11], torch.tensor([3, 4]), pd.Index([9, 0])):
        same_table(cx.evaluate(circuit, texts, neurons), whole.loc[[int(j) for j in neurons]])
    labelled = [cx.texts.Text(str(k), "war", "en-GB", "", "", x) for k, x in enumerate(texts)]
    for others in ((text for text in texts), labelled, [x[:20] for x in texts]):
        identical(cx.evaluate(circuit, others), whole)


# ---------------------------------------------------------------- checkpoints


class Killed(BaseException):
    """What a kill looks like from inside: nothing in the package catches it."""


def ending(texts, count, how):
    """So many texts, and then a kill, a text that is too short, or nothing more."""
    yield from texts[:count]
    if how == "killed":
        raise Killed
    if how == "too short":
        yield texts[0][:3]


@pytest.fixture
def in_fours(monkeypatch):
    """Batches of four, and the sizes of those whose truth was computed."""
    sizes, truth = [], cx.destination.FromWeights.truth

    def counting(at, tokens, heads):
        sizes.append(len(tokens))
        return truth(at, tokens, heads)

    monkeypatch.setattr(cx.texts, "BATCH", 4)
    monkeypatch.setattr(cx.destination.FromWeights, "truth", counting)
    return sizes


ENDS = {
    "killed": lambda: pytest.raises(Killed),
    "too short": lambda: pytest.raises(ValueError, match="a text of 3 tokens is too short"),
    "one text": lambda: pytest.raises(ValueError, match="at least two texts"),
    "": nullcontext,
}


@pytest.mark.parametrize("own_token", [False, True])
@pytest.mark.parametrize(
    "runs",  # so many texts, in batches of so many, and how it ended
    [
        *([(count, 4, "killed")] for count in (4, 10, 19)),
        [(6, 4, "killed"), (6, 4, "killed"), (13, 4, "killed")],
        *([(count, 4, "")] for count in (2, 4, 9, 20)),
        [(1, 4, "one text"), (7, 3, ""), (12, 64, ""), (20, 5, "")],
        [(9, 4, "too short")],
    ],
    ids=str,
)
def test_a_killed_evaluation_goes_on_where_it_stopped(
    either, texts, tmp_path, in_fours, monkeypatch, runs, own_token
):
    """However often it ended, with the same circuit made anew, in whatever batches: no text is done
    twice or missed, and whole batches give the identical table.
    """
    whole = cx.evaluate(either, texts, own_token=own_token)
    in_fours.clear()
    for count, batch, how in [*runs, (20, 4, ""), (20, 4, "")]:
        monkeypatch.setattr(cx.texts, "BATCH", batch)
        asked = {"own_token": own_token, "checkpoint": str(tmp_path / "sums")}
        with ENDS[how]():
            table = cx.evaluate(deepcopy(either), ending(texts, count, how), **asked)
    assert sum(in_fours) == table.attrs["texts"] == 20
    (identical if set(in_fours) == {4} else same_table)(table, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["sums"]


def other(field, change):
    """The same with one field of the circuit, its destination or its weights changed a little."""

    def changed(held):
        if field in vars(held):
            return replace(held, **{field: change(getattr(held, field))})
        inside = next(name for name in ("circuit", "at", "weights") if name in vars(held))
        return replace(held, **{inside: changed(getattr(held, inside))})

    return lambda c, x: (changed(c), x, {})


def with_one_token_changed(texts):
    changed = texts[11].clone()
    changed[7] = (changed[7] + 1) % 300
    return [*texts[:11], changed, *texts[12:]]


OTHER_CIRCUIT, OTHER_TEXTS = "another circuit, other neurons or another own_token", "other texts"
# what differs, in the circuit, in the texts, or in what else is asked; and what is said of it
OTHERS = {
    "heads": (other("heads", lambda heads: (1, 0)), OTHER_CIRCUIT),
    "token": (other("token", lambda token: token - 1), OTHER_CIRCUIT),
    "C": (other("C", lambda C: 1.001 * C), OTHER_CIRCUIT),
    "calibration text": (other("calibration", lambda x: x.flip(0)), OTHER_CIRCUIT),
    "kernel": (other("kernel", lambda kernel: kernel.flip(0)), OTHER_CIRCUIT),
    "denominators": (other("denominators", lambda d: 1.001 * d), OTHER_CIRCUIT),
    "scale": (other("scale", lambda s: 1.001 * s), OTHER_CIRCUIT),
    "offsets": (other("offsets", lambda b: b + 1e-6), OTHER_CIRCUIT),
    "embeddings": (other("W_E", lambda W: W + 1e-6), OTHER_CIRCUIT),
    "values": (other("b_V", lambda b: b + 1e-6), OTHER_CIRCUIT),
    "divisor of the scores": (other("attn_scale", lambda s: 2 * s), OTHER_CIRCUIT),
    "destination": (
        lambda c, x: (replace(c, circuit=calibrate(c.circuit.weights, x[0], [2, 0], 19)), x, {}),
        OTHER_CIRCUIT,
    ),
    "kind of circuit": (lambda c, x: (c.circuit, x, {}), OTHER_CIRCUIT),
    "neurons": (lambda c, x: (c, x, {"neurons": [0, 1]}), OTHER_CIRCUIT),
    "own token": (lambda c, x: (c, x, {"own_token": True}), OTHER_CIRCUIT),
    "order of texts": (lambda c, x: (c, [x[1], x[0], *x[2:]], {}), OTHER_TEXTS),
    "one token": (lambda c, x: (c, with_one_token_changed(x), {}), OTHER_TEXTS),
    "one token, and more texts": (
        lambda c, x: (c, [*with_one_token_changed(x), x[0]], {}),
        OTHER_TEXTS,
    ),
    "fewer texts": (lambda c, x: (c, x[:19], {}), "holds 1 texts more than are given"),
    "no texts": (lambda c, x: (c, [], {}), "holds 20 texts more than are given"),
}


@pytest.mark.parametrize("batch", [3, 64])
@pytest.mark.parametrize(("make", "says"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_something_else_is_refused_and_kept(
    circuit, texts, tmp_path, monkeypatch, make, says, batch
):
    monkeypatch.setattr(cx.texts, "BATCH", batch)
    file, circuit = tmp_path / "sums", circuit.self_normalised(texts[:3])
    table = cx.evaluate(circuit, texts, checkpoint=file)
    before = file.read_bytes()
    another, given_texts, more = make(circuit, texts)
    with pytest.raises(ValueError, match=says):
        cx.evaluate(another, given_texts, checkpoint=file, **more)
    assert file.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["sums"]
    identical(cx.evaluate(circuit, texts, checkpoint=file), table)


def test_a_damaged_checkpoint_is_refused_and_kept(circuit, texts, tmp_path):
    file = tmp_path / "sums"
    cx.evaluate(circuit, texts, checkpoint=file)
    whole, held = file.read_bytes(), load_file(file)
    with safe_open(file, "pt") as opened:
        words = opened.metadata()
    damaged = [whole[: len(whole) // 2], whole[:-1], b"", b"not safetensors at all"]
    for name in ("no words", *held, *words):
        tensors, said = ({k: v for k, v in part.items() if k != name} for part in (held, words))
        save_file(tensors, file, None if name == "no words" else said)
        damaged.append(file.read_bytes())
    assert len(damaged) == 4 + 1 + 3 + 4
    for broken in damaged:
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="sums is not a checkpoint of an evaluation"):
            cx.evaluate(circuit, texts, checkpoint=file)
        assert file.read_bytes() == broken


def test_a_kill_while_writing_leaves_the_last_whole_file(circuit, texts, tmp_path, in_fours):
    file, save, calls = tmp_path / "sums", scale.save_file, []

    def killed_in_the_third(tensors, path, words):
        calls.append(path)
        save(tensors, path, words)
        if len(calls) == 3:
            Path(path).write_bytes(Path(path).read_bytes()[:100])
            raise Killed

    whole = cx.evaluate(circuit, texts)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(scale, "save_file", killed_in_the_third)
        cx.evaluate(circuit, texts, checkpoint=file)
    assert load_file(file)["count"] == 8, "two batches of four are whole"
    in_fours.clear()
    identical(cx.evaluate(circuit, texts, checkpoint=file), whole)
    assert in_fours == [4, 4, 4]


# ---------------------------------------------------------------- texts that come one by one

WORDS = ("the colour of the water; ", "the nurse and the doctor; ", "the moon of the planet; ")


@pytest.fixture
def folder(tmp_path):
    """40 documents in two files, each of more than two texts of 32 tokens."""
    for number, name in enumerate(("a.txt", "b.txt")):
        drawn = np.random.default_rng(number).choice(WORDS, (20, 12))
        (tmp_path / name).write_text("\n<|endoftext|>\n".join(map("".join, drawn)))
    return tmp_path


@pytest.fixture
def read(monkeypatch):
    """The documents that were tokenised."""
    seen, all_tokens = [], cx.texts.all_tokens

    def noting(reader, source):
        seen.append(source)
        return all_tokens(reader, source)

    monkeypatch.setattr(cx.texts, "all_tokens", noting)
    return seen


@pytest.mark.parametrize("batches", [1, 5, 19])
def test_a_stream_goes_on_without_reading_again_what_is_done(
    circuit, precise, folder, in_fours, read, batches
):
    keep = scale.keep

    def killed_behind(file, owner, sums, mark):
        keep(file, owner, sums, mark)
        if sums.count == 4 * batches:
            raise Killed

    stream = cx.texts.stream(precise, 80, folder)
    whole = cx.evaluate(circuit, stream)
    everything = len(read)
    read.clear(), in_fours.clear()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(scale, "keep", killed_behind)
        cx.evaluate(circuit, stream, checkpoint=folder / "sums")
    before = len(read)
    table = cx.evaluate(circuit, stream, checkpoint=folder / "sums")
    identical(table, whole)
    assert table.attrs["texts"] == 80
    assert in_fours == [4] * 20
    assert len(read) - before <= everything - before + 2, "at most the document of each file anew"
    read.clear()
    identical(cx.evaluate(circuit, stream, checkpoint=folder / "sums"), whole)
    assert len(read) == 1 and in_fours == [4] * 20


def test_a_stream_goes_on_where_a_list_of_the_same_texts_stopped_and_the_other_way_round(
    circuit, precise, folder, in_fours
):
    whole = cx.texts.stream(precise, 80, folder)
    part = cx.texts.stream(precise, 41, folder)
    expected = cx.evaluate(circuit, whole)
    for name, first, then in (("a", list(part), whole), ("b", part, list(whole))):
        cx.evaluate(circuit, first, checkpoint=folder / name)
        in_fours.clear()
        same_table(cx.evaluate(circuit, then, checkpoint=folder / name), expected)
        assert sum(in_fours) == 39


def test_a_stream_of_other_texts_is_refused(circuit, precise, folder):
    asked = {"checkpoint": folder / "sums"}
    cx.evaluate(circuit, cx.texts.stream(precise, 40, folder), **asked)
    with pytest.raises(ValueError, match="sums holds 10 texts more than are given"):
        cx.evaluate(circuit, cx.texts.stream(precise, 30, folder), **asked)
    for file in ("a.txt", "b.txt"):  # other words, and as many of them
        source = (folder / file).read_text()
        (folder / file).write_text(source.replace("moon", "noon").replace("nurse", "purse"))
    with pytest.raises(ValueError, match="sums was made with other texts"):
        cx.evaluate(circuit, cx.texts.stream(precise, 60, folder), **asked)


@pytest.mark.parametrize("cluster", [False, True])
def test_what_was_measured_before_the_texts_broke_off_is_kept(
    circuit, precise, folder, in_fours, cluster
):
    """In a file that is damaged, and for want of texts."""
    whole = cx.evaluate(circuit, cx.texts.stream(precise, 40, folder))
    source = (folder / "b.txt").read_bytes()
    (folder / "b.txt").write_bytes(source[:1000] + b"\xff" + source[1001:])
    asked = {"checkpoint": folder / "sums"} | ({"client": Cluster()} if cluster else {})
    in_fours.clear()
    with pytest.raises(ValueError, match=r"b\.txt is not UTF-8 \(byte 1000\)"):
        cx.evaluate(circuit, cx.texts.stream(precise, 40, folder), **asked)
    done = len(in_fours)
    assert 1 < done < 10
    (folder / "b.txt").write_bytes(source)
    identical(cx.evaluate(circuit, cx.texts.stream(precise, 40, folder), **asked), whole)
    assert len(in_fours) == 10
    with pytest.raises(ValueError, match=r"b\.txt .* holds (\d+) texts .* fewer than the 999"):
        cx.evaluate(circuit, cx.texts.stream(precise, 999, folder), **asked)
    assert len(in_fours) > 15


MEASURES = {
    "evaluate": lambda circuit, texts: cx.evaluate(circuit, texts),
    "on a cluster": lambda circuit, texts: cx.evaluate(circuit, texts, client=Cluster()),
    "error budget": lambda circuit, texts: cx.evaluation.error_budget(circuit, texts, [3, 4]),
    "offsets": lambda circuit, texts: circuit.self_normalised(texts),
    "denominators": lambda circuit, texts: cx.softmax_denominators(circuit.weights, texts, 20, 5),
    "stable heads": lambda circuit, texts: cx.stable_heads(
        circuit.weights, texts, 20, 5, broad=0, steady=9
    ),
    "middle text": lambda circuit, texts: cx.denominators.middle_text(
        circuit.weights, texts, [0], 20, 5
    ),
}


class Watched:
    """Texts made while they are asked for, and how many of them were alive at most."""

    def __init__(self, count):
        self.count, self.alive, self.most = count, weakref.WeakSet(), 0

    def __iter__(self):
        for tokens in draw_texts(self.count, 32, 300):
            self.alive.add(text := cx.texts.Text("", "", "", "", "", tokens))
            self.most = max(self.most, len(self.alive))
            yield text


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_no_more_texts_are_alive_than_a_batch(circuit, measure, monkeypatch):
    monkeypatch.setattr(cx.texts, "BATCH", 8)
    watched = Watched(96)
    measure(circuit, watched)
    assert watched.most <= 2 * 8 + 1


def test_texts_that_can_be_read_only_once_have_no_middle_one(precise, texts):
    with pytest.raises(ValueError, match=r"only once: give a list or a cx\.texts\.stream"):
        cx.denominators.middle_text(precise, iter(texts), [0], 20, 5)
    watched = cx.denominators.middle_text(precise, Watched(9), [0], 20, 5)
    assert torch.equal(
        watched.tokens, cx.denominators.middle_text(precise, list(Watched(9)), [0], 20, 5).tokens
    )


# ---------------------------------------------------------------- on a cluster


class Cluster:
    """What `evaluate` asks of a Dask client, in one process."""

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
def test_a_cluster_gives_the_identical_table(either, texts, in_fours, threads):
    client = Cluster(threads)
    identical(cx.evaluate(either, texts, client=client), cx.evaluate(either, texts))
    assert client.circuits == 1, "the circuit travels once"
    assert client.most == min(5, 2 * threads), "as far ahead, and no further"


@contextmanager
def dask(**kind):
    """A client of a cluster on this machine, and the cluster."""
    from distributed import Client, LocalCluster

    quiet = {"dashboard_address": None, "silence_logs": "CRITICAL"}
    with LocalCluster(threads_per_worker=1, **kind, **quiet) as cluster, Client(cluster) as client:
        yield client, cluster


def losing(texts, lose):
    """The texts; half-way, a worker is lost."""
    for number, text in enumerate(texts):
        if number == len(texts) // 2:
            lose()
        yield text


@pytest.mark.parametrize(
    ("workers", "processes"),
    [
        (2, False),  # workers that are threads
        *(pytest.param(workers, True, marks=pytest.mark.nightly) for workers in (2, 1)),
    ],
)
def test_a_cluster_that_loses_a_worker_gives_the_same_table(
    circuit, texts, tmp_path, in_fours, monkeypatch, workers, processes
):
    """What it held is made again; with one worker, the circuit that was sent out is lost too."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the workers, which import the package
    whole, lost = cx.evaluate(circuit, texts * 3), []
    # a lock cannot travel: nothing that a worker does not need may be sent to it
    tokenizer = SimpleNamespace(lock=threading.Lock())
    heavy = replace(circuit.at, weights=replace(circuit.weights, tokenizer=tokenizer))
    asked = {"checkpoint": tmp_path / "sums"}
    with dask(n_workers=workers, processes=processes) as (client, cluster):

        def lose():
            lost.append(next(iter(client.nthreads())))
            if processes:
                os.kill(cluster.workers[0].pid, signal.SIGKILL)
            else:
                cluster.sync(cluster.scheduler.remove_worker, lost[0], stimulus_id="lost")

        some = losing(texts * 3, lose)
        table = cx.evaluate(replace(circuit, at=heavy), some, client=client, **asked)
    assert len(lost) == 1
    exact = {"rtol": 1e-6} if processes else {"check_exact": True}
    pd.testing.assert_frame_equal(table, whole, **exact)
    in_fours.clear()
    identical(cx.evaluate(circuit, texts * 3, **asked), table)
    assert in_fours == [], "what the cluster did need not be done again"


# ---------------------------------------------------------------- one approximation at a time


def approximated_by_hand(circuit, text, made):
    """The circuit's steps, each taken as an approximation or exactly, one source at a time."""
    w, n, heads = circuit.weights, circuit.n, circuit.heads
    own = text[: n + 1]
    x = [*own[:n], circuit.token] if "token" in made else own
    calibration = [*circuit.calibration.tolist()[:n], x[n]]
    wheres = [by_hand.where(w, i, n, circuit.C) for i in range(n + 1)]
    q = {h: by_hand.query(w, h, by_hand.what(w, x[n], n)) for h in heads}

    def content(h, i, t):
        if "keys" in made:
            return by_hand.content(w, h, q[h], n, t)
        exact, where = (by_hand.score(w, h, q[h], v) for v in (by_hand.what(w, t, i), wheres[i]))
        return math.exp(exact - where)

    kernels = {h: by_hand.kernel(w, h, q[h], n, circuit.C) for h in heads}
    shared, total = by_hand.shared(kernels.values()), 0
    for h, kernel in kernels.items():
        used = shared if "kernel" in made else kernel
        row = [pos * content(h, i, x[i]) for i, pos in enumerate(used)]
        denominator = sum(row)
        if "denominators" in made:
            denominator = sum(pos * content(h, i, calibration[i]) for i, pos in enumerate(kernel))
        places = [n if "values" in made else i for i in range(n + 1)]
        values = [
            by_hand.value(w, h, by_hand.what(w, t, i)) for t, i in zip(x, places, strict=True)
        ]
        total = total + by_hand.weighted(row, values) / denominator @ w.W_O[h]
    if "scale" in made:
        return total @ w.W_in / circuit.scale
    stream = by_hand.between(w, own, n, by_hand.outputs(w, own, n))
    return total @ w.W_in / by_hand.scale(w, stream)


@given(cases(), st.sets(st.sampled_from(NAMES)))
def test_any_set_of_approximations_is_the_loops(make_weights, case, made):
    circuit = calibrated(make_weights, case)
    hand = [approximated_by_hand(circuit, x, made) for x in case.texts[1:].tolist()]
    same(approximated(circuit, case.texts[1:], made), torch.stack(hand))


def test_no_approximation_is_the_truth_and_all_are_the_circuit(circuit, texts):
    stack, asked = torch.stack(texts), cx.evaluation.APPROXIMATIONS
    assert list(asked) == NAMES and all(asked.values())
    truth = cx.true_contribution(circuit.weights, stack, circuit.heads, circuit.n)
    same(approximated(circuit, stack, []), truth)
    same(truth[3], by_hand.truth(circuit.weights, texts[3].tolist(), circuit.heads, 20))
    summary = circuit.summary(with_token(texts, circuit))
    same(approximated(circuit, stack, asked), summary)
    for name in NAMES:  # each has its price, alone and as the last one
        alone, without = (
            approximated(circuit, stack[:2], made) for made in ({name}, {*NAMES} - {name})
        )
        assert min((alone - truth[:2]).abs().max(), (without - summary[:2]).abs().max()) > 1e-3


def test_no_approximation_is_the_truth_for_heads_that_look_at_one_place(tiny_weights, texts):
    """In float32, where kernels of theirs underflow."""
    sharp = replace(tiny_weights, W_Q=300 * tiny_weights.W_Q, b_Q=300 * tiny_weights.b_Q)
    kernels = cx.positional_kernels(sharp, 20, 5)
    assert (kernels == 0).any()
    calm = calibrate(tiny_weights, texts[0], [2, 0], 20)
    circuit = replace(calm, at=replace(calm.at, weights=sharp))
    stack = torch.stack(texts)
    truth = cx.true_contribution(sharp, stack, circuit.heads, 20)
    close = partial(torch.testing.assert_close, rtol=1e-3, atol=1e-3)
    close(approximated(circuit, stack, []), truth)
    for made in set(NAMES) - {"denominators"}:  # another text's need not be of this size
        assert approximated(circuit, stack, [made]).isfinite().all()


@pytest.mark.parametrize("own_token", [False, True])
def test_the_budget_is_made_of_medians_over_neurons(circuit, texts, own_token, monkeypatch):
    monkeypatch.setattr(cx.texts, "BATCH", 7)
    neurons = [3, 17, 8, 30]
    budget = cx.evaluation.error_budget(circuit, texts, neurons, own_token)
    names = [name for name in NAMES if own_token or name != "token"]
    assert budget.index.names == ["made", "approximation"]
    assert budget.columns.tolist() == ["r", "fvu", *PARTS]
    assert budget.index.tolist() == [
        ("none", ""),
        ("all", ""),
        *(("without", name) for name in names),
        *(("only", name) for name in names),
    ]
    stack = torch.stack(texts) if own_token else with_token(texts, circuit)
    truth = approximated(circuit, stack, [])[:, neurons]
    every = set(names)
    for (kind, name), row in budget.iterrows():
        made = {"none": set(), "all": every, "without": every - {name}, "only": {name}}[kind]
        by_hand = table_by_hand(approximated(circuit, stack, made)[:, neurons], truth)
        assert row.tolist() == pytest.approx(by_hand.median()[budget.columns].tolist(), abs=1e-9)


# ---------------------------------------------------------------- what is refused


TEXTS = list(draw_texts(3, 32, 300))


@pytest.mark.parametrize("measure", [cx.evaluate, cx.evaluation.error_budget])
@pytest.mark.parametrize(
    ("texts", "more", "said"),
    [
        ([], {}, "at least two"),
        (TEXTS[:1], {}, "at least two"),
        (TEXTS[0], {}, "put it in brackets"),
        (cx.texts.Text("a", "war", "en-GB", "", "", TEXTS[0]), {}, "put it in brackets"),
        *((TEXTS, {"neurons": neurons}, "neurons 0 to 39") for neurons in ([40], [-1], [2, 99])),
        (TEXTS, {"neurons": []}, "no neurons"),
        ([TEXTS[0], TEXTS[1][:19]], {}, "a text of 19 tokens is too short for the destination 20"),
        ([TEXTS[0][:20]], {"own_token": True}, r"too short for the destination 20.*at least 21"),
        ([TEXTS[0], TEXTS[1] + 299], {}, "ids 0 to 299"),
    ],
    ids=str,
)
def test_what_cannot_be_evaluated_is_refused(circuit, measure, texts, more, said):
    with pytest.raises(ValueError, match=said):
        measure(circuit, texts, **more)


@pytest.mark.parametrize("made", [["key"], ["keys", "Scale"], "keys"])
def test_an_approximation_that_there_is_not_is_refused(circuit, made):
    with pytest.raises(ValueError, match=r"no approximation called .*there are \['keys', "):
        approximated(circuit, torch.stack(TEXTS), made)


# ---------------------------------------------------------------- shapes


def test_shapes_are_what_the_annotations_say(circuit, texts):
    approx, truth = two(5, 2)
    moments = cx.Moments.of(approx, truth)
    stack = with_token(texts, circuit)
    calls = [
        (cx.Moments.of.__func__, (cx.Moments, approx, truth)),
        (cx.Moments.__add__, (moments, moments)),
        (cx.Moments.table, (moments, [0, 1])),
        *((cx.evaluate, (c, texts, [0, 1])) for c in (circuit, circuit.self_normalised())),
        (approximated, (circuit, stack, ["keys"])),
        (cx.evaluation.error_budget, (circuit, texts, [0, 1])),
    ]
    for function, arguments in calls:
        jaxtyped(function, typechecker=beartype)(*arguments)
