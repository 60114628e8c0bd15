# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# Does the model use it?

**Put in place of the first-layer heads of `mini` at every place, Equation 1 with BOS read exactly repairs 98% of the damage (KL) that their silence, a mean message, does early in an English text.**
Most of what `mini` uses is the domain, and not only its words: one vector per domain, made from other texts, gives back 78% of the loss that silence costs at tokens 48 to 96 of an English text, the domain's word frequencies at the logits 16%.
In English SmolLM2 loses little when its stable heads are silent, and no vector, the text's own included, gives back a share that can be told from nothing.
"""

# %% tags=["hide-cell", "setup"]
SOURCE = "git+https://github.com/context-from-weights/context-from-weights"
if __import__("importlib.util").util.find_spec("ctxlib") is None:  # as in Colab
    get_ipython().run_line_magic("pip", f"install -q {SOURCE}")

# %% tags=["parameters"]
# To run the chapter on GPT-2 itself, set MODEL = "gpt2" and run all cells again.
MODEL = "mini"  # "mini", a local folder, or a name on the Hugging Face hub such as "gpt2"
HEADS = None  # a list of heads, or None for those that chapter 4 calls stable
STEADY = 0.3  # stable: denominators spread by less than this times their mean (and broad kernels)
TEXTS = 1000  # how many texts of the collection are read: held-out documents of 22 domains
TOKEN = " the"  # the token of the circuit at the destination
PROSE = ("american", "british", "travel")  # the domains that count as plain prose
EACH, READ = 3, 97  # documents of a domain that the whole model reads, and tokens of each
MEANS = 88  # texts of half A behind the mean that silences the heads
NEURONS = 100  # those that single tokens can move farthest, as in chapter 5
MODELS = None  # real models that are run for what is kept: make evidence CHAPTER=10_causal

# Conditions of what is said about SmolLM2, about the prior and about BOS: set before any of it was
# measured, and not moved. Half A gives means, vectors, log odds and their weight; half B judges, in
# the second half of the early tokens. An interval is the wider of two: documents redrawn, domains redrawn.
DOMAINS = 5  # set later: from fewer domains no interval is drawn, for it would be too narrow
# set later, too: what is put in place of the heads is followed to n, asked there with TOKEN (which
# then stands there in half A, too), and put in at one place only; stand-ins with their mean over half A
# put right at every place, that mean error alone, and the vector of a kind, after a reading
TWO = 2  # documents of a domain that SmolLM2 reads; of half A, those that fit the log odds' weight
# negative control: the domain's vector gives back more of what silence of SmolLM2's stable heads costs in
# English than of what silence of its local head does: interval of the difference above 0
# jointly: in English silence of its stable heads costs more than the sum of what each costs alone
# prior: the vector gives back more in English than the domain's unigram log odds, added to the
# logits at the weight that is best on half A: interval of the difference above 0, in both models
A_THOUSAND = 1000  # tokens of the whole half's frequencies that each domain's own are mixed with
REST = 0.5  # the vector without the part that is the same at every place of a domain's texts gives
# back at least this share of what it does whole, in English, in both models
TENTH = 0.1  # BOS read by its own key repairs this share of what the self-normalised circuit leaves

# %% tags=["hide-input", "nbval-check-output"]
import json
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from einops import einsum, rearrange

import ctxlib as cx

pd.set_option("display.max_colwidth", None)  # tables show their sentences whole
model = cx.load(MODEL)
weights = cx.LayerWeights.of(model)
study = cx.study(weights, TEXTS, TOKEN, HEADS, STEADY, PROSE)
n, heads, circuit = study.n, study.heads, study.circuit
half_A = [text for text in study.texts if text.half == "A"] or study.texts
half_B = [text for text in study.texts if text.half == "B"] or study.texts
KINDS = ("English", "other languages", "code")


def kind_of(text):
    """Which of the three kinds a text is."""
    return KINDS[2 if text.dialect == "python" else not text.dialect.startswith("en")]


def documents_of(half, each):
    """The first windows of so many documents of each domain, twice as many of a lone one."""
    facts = [(t, t.domain, kind_of(t), t.document or t.name) for t in half]
    table = pd.DataFrame(facts, columns=["text", "domain", "kind", "document"])
    table = table.drop_duplicates("document")  # the first window of each document
    lone = table.groupby("kind")["domain"].transform("nunique") == 1
    return table[table.groupby("domain").cumcount() < each * (1 + lone)].reset_index(drop=True)


if sum(p.numel() for p in model.parameters()) > 50_000_000:
    EACH = 1  # the whole model is what takes the time
table = documents_of(half_B, EACH)
read, of, kinds = table["text"].tolist(), table["domain"].to_numpy(), table["kind"].to_numpy()
of_kind = {k: np.flatnonzero(kinds == k) for k in KINDS if (kinds == k).any()}
READ = min(READ, n)
counts = ", ".join(f"{len(rows)} of {k}" for k, rows in of_kind.items())
silencing = pd.Series([kind_of(text) for text in half_A[:MEANS]]).value_counts()
print(
    f"{study}\nthe whole model, {model.cfg.n_layers} layers, reads {READ} tokens of {len(read)} documents of half B: {counts}"
)
print(f"the mean that silences is of {', '.join(f'{v} of {k}' for k, v in silencing.items())}")

# %% [markdown]
r"""
[Chapter 5](05_circuit) and [chapter 9](09_evaluation) held a summary against what the heads say. Agreement is not use: the model might live on just the part that the summary misses. The earlier post asks: if later layers average the errors away, the approximation is a *good substitute*; if they need the exact activations, much is left to understand {cite}`gibson2025contextual`. Change what its stable heads have gathered, and see what it predicts.

## What does silence cost?

Let $z_m^h$ be what head $h$ has gathered at place $m$, before $W_O$. To **silence** heads is to give them their mean over texts of half A, place by place: they go on speaking, but say what they say of the average text. Most of these texts are English (counts above), so in another language silence is a wrong message, and kinds of text are kept apart.
"""

# %%
asked = torch.tensor([*range(3, READ - 1, 4), READ - 1])  # the destinations that are judged, early
farther = torch.tensor([*range(READ + 6, n, 16), n])  # and farther on
the = torch.tensor([weights.token_id(TOKEN)])
meant = [torch.cat([text.tokens[:n], the]) for text in half_A[:MEANS]]  # TOKEN at n, as in half B
silent = cx.decoders.mean_z(model, meant, n + 1)[:, heads]


def inside(z, heads=heads):  # text pos head d_head
    """A hook that puts z inside some heads of the first layer."""

    def hook(own, hook):
        new = z[:, : own.shape[1]].to(own).expand(len(own), -1, -1, -1)
        return own.index_copy(2, torch.tensor(heads, device=own.device), new)

    return "blocks.0.attn.hook_z", hook


def silence(rows):
    """Hooks that silence the stable heads."""
    return [inside(silent[None])]


# %% tags=["hide-input"]
class Told:
    """Texts that a model is told while something in its first layer is changed."""

    def __init__(self, model, texts, asked=asked, last=None):
        """Texts as far as they are asked. A token may stand in the last place: none follows there."""
        x = torch.stack([text.tokens[: int(asked[-1]) + 1] for text in texts])  # text pos
        self.came = x[:, asked[:-1] + 1]  # the token that did come
        if last is not None:
            x[:, -1] = last
        self.model, self.x, self.asked, self.everyone = model, x, asked, torch.arange(len(x))

    @cached_property
    def as_it_is(self):
        """Log-probabilities without a change: `text place vocab`."""
        return torch.cat([self.predicted([], rows) for rows in self.everyone.split(11)])

    def predicted(self, hooks, rows):
        """Log-probabilities behind the asked destinations: `text place vocab`."""
        last = f"blocks.{self.model.cfg.n_layers - 1}.mlp.hook_"  # works at asked places only

        def back(own, hook):  # what was computed there, in a text of zeros
            whole = own.new_zeros(len(own), self.x.shape[1], own.shape[-1])
            whole[:, self.asked] = own
            return whole

        only = [
            (at, lambda own, hook: own[:, self.asked]) for at in ("unembed.hook_in", last + "in")
        ]
        hooks = [*hooks, *only, (last + "out", back)]
        return self.model.run_with_hooks(self.x[rows], fwd_hooks=hooks).log_softmax(-1).cpu()

    def first_layer(self, part, hooks=()):
        """What a part of the first layer computes in every text."""
        seen = []
        keep = (f"blocks.0.{part}", lambda own, hook: seen.append(own.cpu()))
        for some in self.x.split(32):
            self.model.run_with_hooks(some, fwd_hooks=[*hooks, keep], stop_at_layer=1)
        return torch.cat(seen)

    def loss(self, logits, rows, shift=None):
        """Of the token that did come, `text place`; a shift (`text vocab`) is added at all places."""
        logits = logits[:, :-1] if shift is None else logits[:, :-1] + shift[rows, None]
        chosen = logits.gather(-1, self.came[rows, :, None])[..., 0]
        return (0 if shift is None else logits.logsumexp(-1)) - chosen

    def cost(self, change, rows=None):
        """Rise of the loss, KL, and square of the size of a change: `text place` each."""
        found = []
        for some in (self.everyone if rows is None else rows).split(11):
            before, after = self.as_it_is[some], self.predicted(change(some), some)
            rise = self.loss(after, some) - self.loss(before, some)
            found.append(
                (rise, (before.exp() * (before - after)).sum(-1), (after - before).var(-1))
            )
        rise, kl, size = map(torch.cat, zip(*found, strict=True))
        return SimpleNamespace(rise=rise, kl=kl, size=size)


told = Told(model, read)
everyone, as_it_is, cost, predicted = told.everyone, told.as_it_is, told.cost, told.predicted


# %% tags=["hide-input"]
def losses(hooks):
    """Loss of every token of the real passage."""
    return cx.decoders.token_losses(model, example[None], hooks)[0]


example = study.example.tokens[:READ]
at_stake = losses(silence([0])) - losses([])
pieces = cx.neurons.spelled(weights, example[1:].tolist())
most = at_stake.argsort(descending=True)[:4].tolist()
cx.plots.shaded_text(
    pieces,
    at_stake,
    f"<b>Figure 10.1.</b> {study.example.subject}: tokens that are predicted worse (blue) or better (orange) when the stable heads are silent; the strongest shade is {float(at_stake.abs().max()):.1f} nats. In the mean the loss rises by {float(at_stake.mean()):.2f} nats per token, most for {cx.claims.listed([ascii(pieces[k]) for k in most])}.",
)

# %% [markdown]
r"""
Let $p_m$ be the model's distribution for the token after $m$, and $\tilde p_m$ the one after a change. The **rise of the loss** asks what the change costs on the token that did come. The **damage**, a Kullback-Leibler divergence, is the rise to be expected if that token is drawn from $p_m$, so it has no luck in it:

$$
\Delta_m \;=\; \log \frac{p_m(x_{m+1})}{\tilde p_m(x_{m+1})} , \qquad
\text{KL}_m \;=\; \sum_t p_m(t) \log \frac{p_m(t)}{\tilde p_m(t)} \;\ge\; 0 .
$$ (eq-cau-loss)

Both are in nats per token. The **size** of a change is the root of the mean variance of its changes of log-probability; damage is roughly quadratic in it: a hundredth of the damage is a tenth of the size. *Early* means the first `READ` tokens, judged at every fourth from 3 on; *farther on* means from there to $n$, at every sixteenth. At $n$ itself `TOKEN` is put in.
"""


# %% tags=["hide-input"]
def over(rows, statistic, texts=read):
    """A statistic of some of the texts and the wider of its 95% intervals, if domains allow one."""
    chosen = [texts[i] for i in rows]
    if len({text.domain for text in chosen}) < DOMAINS:
        return float(statistic(rows)), np.nan, np.nan
    *ends, _ = cx.claims.widest(lambda drawn: statistic(rows[drawn]), chosen)
    return float(statistic(rows)), *ends


def on(values, rows):
    """Mean over some of the texts, with its interval."""
    values = np.asarray(values)
    return over(rows, lambda drawn: values[drawn].mean())


def words(triple, form=".2f"):
    """A number and its interval."""
    mean, low, high = (f"{v + 0.0:{form}}".replace("-", "−") for v in triple)
    return mean if np.isnan(triple[1]) else f"{mean} [{low}, {high}]"


def repaired(values, rows, of=None, texts=read):
    """1 less the ratio of a cost to that of silence, both a number a text."""
    whole = silent_kl if of is None else of
    values, whole = np.asarray(values), np.asarray(whole)
    return over(rows, lambda drawn: 1 - values[drawn].mean() / whole[drawn].mean(), texts)


NONE = (np.nan,) * 3
ENGLISH, OTHER, CODE = KINDS


def a_text(values):
    """Mean over the judged places, less the last, a number per text."""
    return values[:, : len(asked) - 1].mean(1).numpy()


def mean_of_kind(values, kind):
    """Mean with its interval; nothing for a kind that is not there."""
    return on(values, of_kind[kind]) if kind in of_kind else NONE


# %% tags=["hide-input", "nbval-check-output"]
silenced = cost(silence)
rise, silent_kl = a_text(silenced.rise), a_text(silenced.kl)
in_english, in_o, in_c = (of_kind.get(k, everyone.numpy()[:0]) for k in KINDS)
need_e, need_o, need_c = (mean_of_kind(rise, k) for k in KINDS)
cx.claims.finding(
    f"Early in an English text silence of the stable heads raises the loss of {MODEL} by {words(need_e)} nats per token, in code by {need_c[0]:.2f}, in other languages, where it is a wrong message, by {need_o[0]:.2f}.",
    holds=need_e[1] > 0 and need_c[0] > need_e[0] and need_o[0] > need_e[2],
)

# %% [markdown]
r"""
## Can Equation 1 stand in for the heads?

Three things are put in place of the heads, at every place of a text. The **paper's circuit** is made for one destination, $n$; asked at every $m$ it reads

$$
\hat z_m^h \;=\; \frac{1}{\text{denom}_m^h} \sum_{i \le m} \text{pos}_{m,i}\;\text{content}_m^h(x_i)\; v_m^h(x_i) ,
$$ (eq-cau-z)

with the query of `TOKEN` and the denominators of the calibrating passage ([chapter 4](04_denominators)) at each $m$, the rest as in {eq}`eq-cir-output`. At $m = n$ it is *at home*. The **self-normalised circuit** of [chapter 9](09_evaluation) is [Equation 1](02_keys) with the text's own query and denominators. **BOS read exactly** is the same, but source 0 keeps its true key and value. What a circuit is worth is the share of the damage of silence that it repairs:

$$
\text{repaired} \;=\; 1 - \frac{\text{mean KL with the circuit}}{\text{mean KL with silence}} .
$$ (eq-cau-repaired)

A perfect stand-in has 100%, one no better than silence 0%, a worse one less. Silence has the right mean by construction, so each is also tried, after a reading, with its **mean put right**: less what it is off by in the mean of half A, place by place. (What lies beyond the early tokens is kept, and must agree on two texts that are read again here. What has its mean put right or stands at one place, and everything on SmolLM2, is only kept.)
"""

# %%
denom = cx.decoders.denominators_along(study.at, study.calibrating)  # head pos


def by_paper(x):  # text pos head d_head
    """The paper's circuit at every destination."""
    return torch.stack([cx.decoders.circuit_z(circuit, t, denom) for t in x])


def by_equation_1(x):
    """The self-normalised circuit at every destination."""
    return torch.stack([cx.decoders.self_normalised_z(circuit, t) for t in x])


# %% tags=["hide-input"]
def own_bos(tokens, key=True, value=True):
    """The self-normalised circuit, but BOS has its own key and value: `pos head d_head`."""
    split, q = study.at.split, weights.queries(tokens)
    bos = cx.layer_norm(weights.W_E[tokens[0]] + weights.W_pos[0], weights.eps)
    scores = sum(cx.split.split_scores(weights, tokens, q, split.C))
    if key:
        scores[..., 0] = einsum(q, bos @ weights.W_K, "h n e, h e -> h n") / weights.attn_scale
    rows = cx.split.causal_softmax(scores[heads])
    others = rows.clone()
    others[..., 0] *= not value
    what, where = cx.split.split_values(weights, tokens, others, heads, split.C)
    v = (bos @ weights.W_V + weights.b_V)[heads]
    return rearrange(what + where + value * rows[..., :1] * v[:, None], "h n e -> n h e")


def with_bos(x, **exact):
    """The same of several texts."""
    return torch.stack([own_bos(t, **exact) for t in x])


# %%
PAPER, OURS, BOS = "paper's circuit", "self-normalised circuit", "the same, BOS read exactly"
IN_PLACE = {PAPER: by_paper, OURS: by_equation_1, BOS: with_bos}


def costs_of(told):
    """What each costs at the judged places of some texts."""
    made = {name: of(told.x) for name, of in IN_PLACE.items()}
    return {name: told.cost(lambda rows, z=z: [inside(z[rows])]) for name, z in made.items()}


early = {"silence": silenced, **costs_of(told)}


# %% tags=["hide-input", "nbval-check-output"]
def at_one_place(told, z):
    """KL at the last place when z (`text head d_head`) is put in there alone."""

    def change(rows):
        def hook(own, hook):
            own = own.clone()
            own[:, -1, heads] = z[rows].to(own)
            return own

        return [("blocks.0.attn.hook_z", hook)]

    return told.cost(change).kl[:, -1].tolist()


def farther_on(texts, means=True):
    """The same from there to n, and at n; with the means over half A put right; at one place alone."""
    told, m = Told(model, texts, farther, the), READ - 1
    found = {name: {"rise": v.rise.mean(1).tolist(), "kl": v.kl[:, :-1].mean(1).tolist(), "home": v.kl[:, -1].tolist()} for name, v in {"silence": told.cost(silence), **costs_of(told)}.items()}  # fmt: skip
    if means:  # what each is off by in the mean of half A, place by place: pos head d_head
        A, short = torch.stack(meant), Told(model, texts)
        off = {name: of(A).mean(0) - silent for name, of in IN_PLACE.items()}
        for name, of in IN_PLACE.items():
            z = {t: of(t.x) - off[name][: t.x.shape[1]] for t in (short, told)}
            near, far = (t.cost(lambda rows, z=z[t]: [inside(z[rows])]).kl for t in z)
            found[f"{name}, mean put right"] = {"early": a_text(near).tolist(), "kl": far[:, :-1].mean(1).tolist(), "home": far[:, -1].tolist()}  # fmt: skip
        for at, name, there in ((n, PAPER, told), (m, BOS, short)):
            here, quiet = IN_PLACE[name](there.x)[:, at], silent[at]
            puts = {"silence": quiet.expand_as(here), name: here, "mean put right": here - off[name][at]}  # fmt: skip
            found[f"alone: {name}"] = {k: at_one_place(there, z) for k, z in puts.items()}
        # the mean error alone: the heads as they are, and off by it
        moved = short.first_layer("attn.hook_z")[:, :, heads] + off[BOS][:READ]
        everywhere = short.cost(lambda rows: [inside(moved[rows])]).kl[:, -1]
        found["mean error alone"] = {"every place": everywhere.tolist(), "one place": at_one_place(short, moved[:, -1])}  # fmt: skip
    return found


# What takes longer than a page may was computed once for mini; two of its texts are read again here.
BEYOND = cx.models.DATA / "evidence" / "beyond.json"
of_these = {
    "sha256": cx.claims.fingerprint(weights),
    "documents": [text.document or text.name for text in read],
}
stored = json.loads(BEYOND.read_text()) if BEYOND.exists() else {}
if MODELS or any(stored.get(k) != v for k, v in of_these.items()):
    beyond = json.loads(json.dumps(farther_on(read)), parse_float=lambda v: round(float(v), 5))
    if MODELS:
        BEYOND.write_text(json.dumps(of_these | {"found": beyond}) + "\n")
else:
    beyond, two = stored["found"], [0, len(read) - 1]
    again = farther_on([read[i] for i in two], means=False)
    for name in again:
        for k, v in again[name].items():
            assert np.allclose(v, np.array(beyond[name][k])[two], rtol=0.02, atol=2e-3), (name, k)


# %% tags=["hide-input"]
EARLY, THEN, HOME = f"the first {READ} tokens", f"from there to {n}", f"{TOKEN!r} at {n}"


TABLE = [name + more for name in (PAPER, OURS, BOS) for more in ("", ", mean put right")]
kls = {
    EARLY: {name: a_text(early[name].kl) if name in early else beyond[name]["early"] for name in ("silence", *TABLE)},
    THEN: {name: beyond[name]["kl"] for name in ("silence", *TABLE)},
    HOME: {name: beyond[name]["home"] for name in ("silence", *TABLE)},
}  # fmt: skip
kl = kls[EARLY]


def mends(name, kind=ENGLISH, where=EARLY):
    """What a stand-in repairs there."""
    return repaired(kls[where][name], of_kind[kind], kls[where]["silence"]) if kind in of_kind else NONE  # fmt: skip


def column(where, kind):
    """Of the table, for one stretch and kind."""
    return {
        "silence: damage": words(mean_of_kind(kls[where]["silence"], kind)),
        **{f"{name}: repaired": words(mends(name, kind, where), ".0%").replace("%", "") + "%" for name in TABLE},
    }  # fmt: skip


# %% tags=["hide-input", "nbval-check-output"]
pd.DataFrame({where: column(where, ENGLISH) for where in kls})

# %% tags=["hide-input", "nbval-check-output"]
own_e, bos_e, page_e = map(mends, (OURS, BOS, PAPER))
bos_far, page_far = (mends(c, where=THEN) for c in (BOS, PAPER))
at_home = mends(PAPER, where=HOME)
right_e, right_far, right_home = (mends(f"{PAPER}, mean put right", where=w) for w in kls)
one_alone = [with_bos(told.x, **other) for other in ({"value": False}, {"key": False})]
by_key, by_value = (cost(lambda rows, z=z: [inside(z[rows])]).kl for z in one_alone)
key_gain, value_gain, bos_gain = (
    repaired(v, in_english, kl[OURS]) for v in (a_text(by_key), a_text(by_value), kl[BOS])
)
display(
    cx.claims.finding(
        f"Put in place of the first-layer heads of {MODEL} at every place, Equation 1 with BOS read exactly repairs {bos_e[0]:.0%} of the damage (KL) that their silence, a mean message, does early in an English text.",
        holds=bos_e[1] > 0.95,
    ),
    cx.claims.finding(
        f"Without exact BOS {1 - own_e[0]:.0%} of the damage is left. Of that BOS's own key alone repairs {words(key_gain, '.0%')}, its value alone {words(value_gain, '.0%')}, both {words(bos_gain, '.0%')}.",
        holds=own_e[1] > 0.5 and key_gain[2] < min(value_gain[1], bos_gain[1] / 2),
    ),
    cx.claims.finding(
        f"At a text's own tokens the paper's circuit does more damage than silence in English. Put in at every place and judged only at {HOME}, it repairs {words(at_home, '.0%')}.",
        holds=max(page_e[2], page_far[2]) < 0 and page_far[2] < at_home[1] < at_home[2] < 0.5,
    ),
    cx.claims.finding(
        f"With its mean put right it repairs {words(right_e, '.0%')} early in English, {words(right_far, '.0%')} farther on and {words(right_home, '.0%')} at {HOME}: its excess over silence is common to English texts. Early in code it stays worse.",
        holds=min(right_e[1], right_far[1], right_home[1]) > 0 > max(page_e[2], page_far[2])
        and mends(f"{PAPER}, mean put right", CODE)[0] < 0,
    ),
)

# %% [markdown]
r"""
So early in a text nearly all that Equation 1 leaves is BOS: much attention goes there, its embedding is far from the typical length that $C$ stands for, and every destination's attention row pays for it ([appendix A](A_scale)), in the value more than in the key. The paper's circuit is no stand-in at places it was not made for.
"""

# %% tags=["hide-input", "nbval-check-output"]
alone_paper, alone_bos = (beyond[f"alone: {name}"] for name in (PAPER, BOS))
times, right = (repaired(alone_paper[k], in_english, alone_paper["silence"]) for k in (PAPER, "mean put right"))  # fmt: skip
quiet_one, bos_one = (on(alone_bos[k], in_english) for k in ("silence", BOS))
error_one, error_all = (on(beyond["mean error alone"][k], in_english) for k in ("one place", "every place"))  # fmt: skip
bos_right = repaired(alone_bos["mean put right"], in_english, alone_bos["silence"])
display(
    cx.claims.finding(
        f"In English the paper's circuit at {n} alone does {words([1 - times[k] for k in (0, 2, 1)], '.0f')} times the damage of silence there alone; with its mean put right it repairs {words(right, '.0%')}.",
        holds=times[2] < 0 and right[1] > 0.5,
    ),
    cx.claims.finding(
        f"At place {READ - 1} alone Equation 1 with BOS read exactly does a damage of {words(bos_one)}, silence there alone {words(quiet_one)}; with its mean put right it repairs {words(bos_right, '.0%')}.",
        holds=bos_one[1] > quiet_one[2] and bos_right[1] > 0.5,
    ),
    cx.claims.finding(
        f"Its mean error by itself, added there to what the heads say, does a damage of {words(error_one)}, but added at every place {words(error_all)} there: later layers cancel what all places share.",
        holds=error_one[1] > 10 * error_all[2],
    ),
) if len(in_english) else None

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Is it so in other kinds of text, and in every English domain?"}
names = sorted(set(of[in_english]), key=lambda d: silent_kl[of == d].mean())
heavy = names[-4:]
others = in_english[~np.isin(of[in_english], heavy)]
of_heavy = 1 - silent_kl[others].sum() / silent_kl[in_english].sum()
but_heavy, but_heavy_bos = (repaired(kl[c], others) for c in (OURS, BOS))
far_rise = [mean_of_kind(beyond["silence"]["rise"], k) for k in KINDS]
helped = sum(kl[PAPER][of == d].mean() < silent_kl[of == d].mean() for d in names)
display(
    pd.DataFrame({(k, where): column(where, k) for k in (OTHER, CODE) for where in kls}),
    cx.claims.finding(
        f"Farther on silence raises the loss by {words(far_rise[0])} in English, {far_rise[2][0]:.2f} in code and {far_rise[1][0]:.2f} in other languages.",
        holds=far_rise[0][1] > 0 and far_rise[1][0] > far_rise[2][0] > far_rise[0][0],
    ),
    cx.claims.finding(
        f"English is not one case: the damage of silence is {silent_kl[of == names[0]].mean():.2f} in {names[0]} and {silent_kl[of == names[-1]].mean():.2f} in {names[-1]}, and the paper's circuit beats silence in {helped} of {len(names)} domains. {cx.claims.listed(sorted(heavy)).capitalize()} have {of_heavy:.0%} of it; without these four Equation 1 repairs {words(but_heavy, '.0%')}, and {words(but_heavy_bos, '.0%')} with BOS read exactly.",
        holds=helped < len(names) / 2 and 0.5 < but_heavy[0] < own_e[0] and but_heavy_bos[1] > 0.9,
    ),
) if names else None

# %% [markdown]
r"""
## Is one vector enough, and is it more than a prior?

Does the model listen to the text, or only to its domain? Take what the stable heads write at the second half of the early tokens of each text of half A, $\text{out}(x)$. The **vector** of a domain $D$ is

$$
g_D \;=\; \operatorname*{mean}_{x \in D}\, \text{out}(x) \;-\; \operatorname*{mean}_{x}\, \text{out}(x) ,
$$ (eq-cau-direction)

over the first windows of all documents of half A (silence's mean is over fewer texts, place by place). Silence the heads and add the vector of its domain at every place of a text of half B: a steering vector, a difference of means {cite}`turner2023steering,rimsky2024steering`. It *gives back* $1 - \text{mean } \Delta \text{ with it} / \text{mean } \Delta \text{ in silence}$, a share of the loss, judged over the same half of the early tokens. For comparison: the *text's own* mean, of its own length, which looks ahead over the places that are judged.

Such vectors can work for other reasons than what they mean {cite}`tan2024analysing`. So there are controls, each as long: the vector of *another domain* of the same kind, and a *random* one. And a vector may be no more than a **prior**: words of law are likelier in law, whatever stands before them. So the *log odds* of the domain's own word frequencies, $\log p_D(t) - \log p(t)$, are added to the logits instead, with the weight that serves best on half A. And what the vector does to the log-probabilities is split in two: the part that is *the same at every place* of a domain's texts, found on half A, and the rest, which depends on the place.
"""

# %%
SECOND = slice(READ // 2, None)
second = torch.tensor([k for k in asked.tolist() if k >= READ // 2])  # the places that are judged
WEIGHTS = np.linspace(0, 1.5, 16)  # of the log odds


def message(z, W_O):
    """What heads write in that half of each text: `text d_model`."""
    return einsum(z[:, SECOND].mean(1), W_O, "t h d, h d m -> t m")


def mean_of(written, theirs, mine):
    """For each text the mean of its own domain or kind: `text d_model`."""
    of_set = {s: written[np.array(theirs) == s].mean(0) for s in set(theirs)}
    return torch.stack([of_set[s] for s in mine])


# %% tags=["hide-input"]
def as_long_as(g, other):
    """Vectors of the direction of `other` and the length of g."""
    return other * g.norm(dim=1, keepdim=True) / other.norm(dim=1, keepdim=True)


def vectors(written_A, of_A, written_B, of_B):
    """A vector of each sort for each text of half B; `of` is a table of domain and kind."""
    middle, (domains, kinds) = written_A.mean(0), (of_B[k].to_numpy() for k in ("domain", "kind"))
    own, drawn = mean_of(written_A, of_A["domain"], domains) - middle, np.random.default_rng(0)
    others = [
        np.flatnonzero((kinds == k) & (domains != d)) for k, d in zip(kinds, domains, strict=True)
    ]
    # a lone domain has no other: what is drawn for it is not shown
    others = [int(drawn.choice(rows if len(rows) else len(own))) for rows in others]
    random = torch.from_numpy(drawn.standard_normal(own.shape)).to(own)
    return {
        "its domain's": own,
        "its own text's": written_B - middle,
        "another domain's": as_long_as(own, own[others]),
        "random": as_long_as(own, random - random.mean(1, keepdim=True)),
    }


def log_odds(texts, d_vocab):
    """Of each domain's word frequencies against those of all texts: `vocab` each."""
    counts = {text.domain: torch.zeros(d_vocab) for text in texts}
    for text in texts:
        counts[text.domain] += torch.bincount(text.tokens, minlength=d_vocab)
    p = sum(counts.values()) + 1
    p = p / p.sum()
    return {
        d: ((own + A_THOUSAND * p) / (own.sum() + A_THOUSAND)).log() - p.log()
        for d, own in counts.items()
    }


def left_out(texts, table):
    """The texts without those documents: a weight is fitted on words that were not counted."""
    return [text for text in texts if (text.document or text.name) not in set(table["document"])]


def in_place(told, quiet, given, of, odds, fit, of_fit):
    """Rise of the loss there, a number per text: silence, and what is put in place of the heads.
    `fit` are texts of half A, for the weight of the log odds and for a vector's constant part."""
    before = told.loss(told.as_it_is, told.everyone).mean(1)

    def rises(g=None, shifts=(None,)):
        found = [[] for _ in shifts]
        for some in told.everyone.split(11):
            add = [] if g is None else [cx.decoders.add_direction(0, g[some])]
            after = told.predicted([quiet, *add], some)
            for of_shift, shift in zip(found, shifts, strict=True):
                of_shift.append(told.loss(after, some, shift).mean(1))
        return [torch.cat(of_shift) - before for of_shift in found]

    def by_domain(values, domains):
        return torch.stack([values[d] for d in domains])

    own = given["its domain's"]
    of_domain, odds_fit = dict(zip(of, own, strict=True)), by_domain(odds, of_fit)
    pushed = torch.stack([of_domain.get(d, torch.zeros_like(own[0])) for d in of_fit])
    without, with_it = (
        torch.cat([fit.predicted([quiet, *add(some)], some) for some in fit.everyone.split(11)])
        for add in (lambda rows: [], lambda rows: [cx.decoders.add_direction(0, pushed[rows])])
    )
    tried = [float(fit.loss(without, fit.everyone, float(w) * odds_fit).mean()) for w in WEIGHTS]
    weight, moved = WEIGHTS[np.argmin(tried)], (with_it - without)[:, :-1].mean(1)
    constant = mean_of(moved, of_fit, of)
    none, by_odds, by_constant = rises(shifts=[None, float(weight) * by_domain(odds, of), constant])
    by_own, less = rises(own, [None, -constant])
    return weight, {
        "none": none,
        **{name: by_own if g is own else rises(g)[0] for name, g in given.items()},
        "log odds at the logits": by_odds,
        "constant part at the logits": by_constant,
        "its domain's, less that part": less,
    }


z = told.first_layer("attn.hook_z")[:, :, heads]  # text pos head d_head
table_A = documents_of(half_A, len(half_A))
z_A = Told(model, table_A["text"]).first_layer("attn.hook_z")[:, :, heads]
W_O = weights.W_O[heads]
written_A = message(z_A, W_O)
VECTORS = vectors(written_A, table_A, message(z, W_O), table)
own = VECTORS["its domain's"]
shared = mean_of(written_A, table_A["kind"], kinds) - written_A.mean(0)  # by all texts of a kind
few_A = documents_of(half_A, TWO)
odds = log_odds(left_out(half_A, few_A), weights.d_vocab)
judged, fit = Told(model, read, second), Told(model, few_A["text"], second)
judged.as_it_is = as_it_is[:, -len(second) :]  # the same places, read once
weight, lasting = in_place(
    judged, inside(silent[None]), VECTORS, of, odds, fit, few_A["domain"].tolist()
)
lasting = {name: v.numpy() for name, v in lasting.items()}

# %% tags=["hide-input"]
KEPT = cx.models.DATA / "evidence" / "causal.json"


def on_real(name="smollm2"):
    """The same of a real model: stable heads, and those that are not; each head alone."""
    model = cx.load(name)
    texts = cx.texts.collection(cx.texts.Reader.of(model, 512), TEXTS)
    A, B = ([text for text in texts if text.half == half] for half in "AB")
    study = cx.study(cx.destination(model, A, 256), A, or_all=True)
    roster, stable = study.roster, list(study.heads)
    table, table_A, few = documents_of(B, TWO), documents_of(A, len(A)), documents_of(A, TWO)
    told, told_A = Told(model, table["text"], second), Told(model, table_A["text"], second)
    z, z_A = (t.first_layer("attn.hook_z") for t in (told, told_A))
    W_O = cx.decoders.output_weights(model, 0)[0][0].cpu()
    middle = z_A.mean(0)
    of = table["domain"].tolist()
    given = vectors(message(z_A[:, :, stable], W_O[stable]), table_A, message(z[:, :, stable], W_O[stable]), table)  # fmt: skip
    weight, rises = in_place(
        told, inside(middle[None][:, :, stable], stable), given, of,
        log_odds(left_out(A, few), model.cfg.d_vocab), Told(model, few["text"], second), few["domain"].tolist(),
    )  # fmt: skip
    sets = {f"head {h}": [h] for h in roster.index} | {"all stable": stable}
    sets |= {"all heads": list(roster.index)}
    alone = {}
    for which, hs in sets.items():
        quiet = inside(middle[None][:, :, hs], hs)
        own = vectors(
            message(z_A[:, :, hs], W_O[hs]), table_A, message(z[:, :, hs], W_O[hs]), table
        )
        own = own["its domain's"]
        alone[which] = [
            told.cost(change).rise.mean(1).tolist()
            for change in (
                lambda rows, quiet=quiet: [quiet],
                lambda rows, quiet=quiet, own=own: [quiet, cx.decoders.add_direction(0, own[rows])],
            )
        ]
    file = cx.models.real_models()[name]["files"]
    return {
        "files": file,
        "texts": table[["document", "domain", "kind"]].to_numpy().tolist(),
        "roster": roster[["effective tokens", "relative spread", "family", "stable"]].to_dict(
            "index"
        ),
        "weight": float(weight),
        "given": {k: v.tolist() for k, v in rises.items()},
        "silenced": alone,
    }


if MODELS and "smollm2" in MODELS:
    facts = json.loads(json.dumps(on_real()), parse_float=lambda v: round(float(v), 4))
    KEPT.write_text(json.dumps(facts) + "\n")
kept = json.loads(KEPT.read_text())
real = [SimpleNamespace(document=d, domain=k, kind=kind) for d, k, kind in kept["texts"]]
there = {name: np.array(v) for name, v in kept["given"].items()}
there_of = {k: np.flatnonzero([t.kind == k for t in real]) for k in KINDS}

# %% tags=["hide-input"]
QUIET = "nothing (silence alone)"
BOTH = {MODEL: (lasting, of_kind, read), "SmolLM2": (there, there_of, real)}
for of_model, of_kinds, texts in BOTH.values():
    for rows in of_kinds.values():
        if len({texts[i].domain for i in rows}) == 1:  # a lone domain of its kind has no other
            of_model["another domain's"][rows] = np.nan
rose = {
    model: {k: {QUIET if name == "none" else name: over(rows, lambda d, v=v: v[d].mean(), texts) for name, v in of.items()} for k, rows in of_kinds.items()}
    for model, (of, of_kinds, texts) in BOTH.items()
}  # fmt: skip
pair = {model: of[ENGLISH] for model, of in rose.items() if ENGLISH in of}
figure, (axes,) = cx.plots.panels(1, len(pair), height=3, width=8.6)
for axis, (named, rises) in zip(axes, pair.items(), strict=True):
    for row, (mean, *ends) in enumerate(rises.values()):
        look = {"color": cx.plots.COLOURS[row % 8]}
        axis.plot(ends, [row, row], lw=1.6, **look)
        axis.plot(mean, row, ls="", ms=6, marker="osD^Xv<>"[row], **look)
    axis.axvline(0, color=cx.plots.INK, lw=1, ls=":")
    axis.axvline(rises[QUIET][0], color=cx.plots.INK, lw=1, ls="--")
    axis.set(title=f"{named}, English", xlabel="rise of the loss (nats)")
    axis.set_yticks(range(len(rises)), rises if axis is axes[0] else [""] * len(rises))
    axis.invert_yaxis()
cx.plots.picture(
    figure,
    "10.2",
    f"The stable heads silent, and what is put in their place: rise of the loss at every fourth of tokens {READ // 2} to {READ - 1} of English texts, with 95% intervals. Dashed: silence alone; dotted: the model as it is. The further left, the more is given back.",
    "Dot plots of the rise of the loss. "
    + " ".join(
        f"{model}: " + ", ".join(f"{name} {v[0]:+.2f}" for name, v in rises.items()) + "."
        for model, rises in pair.items()
    ),
)


# %% tags=["hide-input", "nbval-check-output"]
def gives_back(name, kind=ENGLISH, model=MODEL, less=None):
    """Share of the rise in silence that is taken away; less what another takes away."""
    of, of_kinds, texts = BOTH[model]
    if kind not in of_kinds:
        return NONE
    by = of[name] if less is None else of[name] - of[less] + of["none"]
    return repaired(by, of_kinds[kind], of["none"], texts)


odds_name, rest_name = "log odds at the logits", "its domain's, less that part"
own_gives, odds_gives, rest_gives = (
    gives_back(name) for name in ("its domain's", odds_name, rest_name)
)
over_own = gives_back("its own text's", less="its domain's")
over_odds = gives_back("its domain's", less=odds_name)
over_odds_there = gives_back("its domain's", model="SmolLM2", less=odds_name)
there_e, *_ = given_there = [gives_back(name, model="SmolLM2") for name in VECTORS]
paid_there = rose["SmolLM2"][ENGLISH][QUIET]
other_e, random_e = (
    on(lasting[name] - lasting["none"], in_english) if len(in_english) else NONE
    for name in ("another domain's", "random")
)
with_shared = judged.cost(lambda rows: [inside(silent[None]), cx.decoders.add_direction(0, shared[rows])])  # fmt: skip
kind_gives = repaired(with_shared.rise.mean(1), in_english, lasting["none"]) if len(in_english) else NONE  # fmt: skip
kind_long = float(shared[in_english].norm(dim=1).mean() / own[in_english].norm(dim=1).mean())
display(
    cx.claims.finding(
        f"Most of what {MODEL} uses is the domain, and not only its words: one vector per domain, made from other texts, gives back {own_gives[0]:.0%} of the loss that silence costs at tokens {READ // 2} to {READ - 1} of an English text, the domain's word frequencies at the logits {odds_gives[0]:.0%}.",
        holds=own_gives[1] > 0.5 > odds_gives[2] and over_odds[1] > 0,
    ),
    cx.claims.finding(
        f"Without the part that is the same at every place the vector still gives back {words(rest_gives, '.0%')}. Whole it exceeds the domain's word frequencies by {words(over_odds, '.0%')}, and the text's own exceeds it by {words(over_own, '.0%')}.",
        holds=rest_gives[0] / own_gives[0] > REST and min(over_own[1], over_odds[1]) > 0,
    ),
    cx.claims.finding(
        f"Length is not what helps: in English a random vector as long, or another domain's, costs {MODEL} more than silence alone. Nor is kind: the vector of all English texts, {kind_long:.0%} as long, gives back at most {kind_gives[2]:.0%}.",
        holds=min(random_e[1], other_e[1]) > 0 and kind_gives[2] < 0.05,
    ),
    cx.claims.finding(
        "In English SmolLM2 loses little when its stable heads are silent, and no vector, the text's own included, gives back a share that can be told from nothing.",
        holds=0 < paid_there[1] < paid_there[0] < 0.1 and max(v[1] for v in given_there) < 0,
    ),
    cx.claims.finding(
        f"There its domain's vector gives back {words(there_e, '.0%')}, the text's own {words(given_there[1], '.0%')}: the intervals exclude half.",
        holds=max(there_e[2], given_there[1][2]) < 0.5,
    ),
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "And in other kinds of text?"}
pd.DataFrame(
    {(named, k): {name: f"{v[0]:+.2f}".replace("+nan", "").replace("-", "−") for name, v in of[k].items()} for named, of in rose.items() for k in of if k != ENGLISH}
)  # fmt: skip

# %% [markdown]
r"""
Means over few documents. In other languages the vector works best, in SmolLM2, too (six documents), where another language's does nearly as well. (Code has no other domain.)

## Which heads?

On `mini` all heads are stable, so it cannot say whether that matters; nor can SmolLM2: single heads cost too little to be told apart. SmolLM2 (135M, Instruct, weights of 4 bits) has seven stable heads, a broad one whose denominators spread too much, *unsteady*, and one that looks at few tokens, *local* ([chapter 4](04_denominators) has the two measures). Rises of the loss at the same places, under another tokenizer and against means over all first windows of half A, with intervals in English; the last row sums the seven.
"""

# %% tags=["hide-input", "nbval-check-output"]
alone = {which: tuple(map(np.array, v)) for which, v in kept["silenced"].items()}
facts = {f"head {h}": v for h, v in kept["roster"].items()}
role = {k: "stable" if v["stable"] else "local" if v["family"] == "local" else "unsteady" for k, v in facts.items()}  # fmt: skip


def costs_there(values, kind=ENGLISH):
    """Rise of SmolLM2's loss, with the wider interval."""
    return over(there_of[kind], lambda d: values[d].mean(), real)


together = sum(alone[k][0] for k in facts if role[k] == "stable")
rows = {
    k: (v["effective tokens"], f"{v['relative spread']:.2f}", role[k]) for k, v in facts.items()
}
silenced = {k: v[0] for k, v in alone.items()} | {"the stable ones, summed": together}
pd.DataFrame(
    {
        "SmolLM2, silenced": list(silenced),
        "effective tokens": [str(rows[k][0]) if k in rows else "" for k in silenced],
        "spread": [rows[k][1] if k in rows else "" for k in silenced],
        "kind of head": [rows[k][2] if k in rows else "" for k in silenced],
        **{
            f"{k} (nats)": [words(costs_there(v, k), ".3f") for v in silenced.values()]
            for k in KINDS
        },
    }
).set_index("SmolLM2, silenced")

# %% tags=["hide-input", "nbval-check-output"]
stable_there, all_there = (costs_there(alone[f"all {which}"][0]) for which in ("stable", "heads"))
local, unsteady = (
    costs_there(sum(alone[k][0] for k in facts if role[k] == r)) for r in ("local", "unsteady")
)
joint = costs_there(alone["all stable"][0] - together)
saved = {k: alone[k][0] - alone[k][1] for k in alone}
by_local = sum(saved[k] for k in facts if role[k] == "local")
late_here = float(lasting["none"][in_english].mean()) if len(in_english) else np.nan
by_head = {k: costs_there(alone[k][0]) for k in facts}
told_apart = [k for k, (_, low, high) in by_head.items() if not low < 0 < high]
negative = costs_there(saved["all stable"] - by_local)
stable_saved, local_saved = map(costs_there, (saved["all stable"], by_local))
display(
    cx.claims.finding(
        f"In English silence of SmolLM2's seven stable heads together costs {words(stable_there, '.3f')} nats per token, that of {MODEL}'s eight {late_here:.2f}. Of single heads only the cost of {cx.claims.listed(told_apart)} can be told from zero, as one interval of nine may by chance.",
        holds=stable_there[1] > 0 > max(unsteady[1], local[1])
        and late_here > stable_there[2]
        and len(told_apart) == 1
        and sum(v == "stable" for v in role.values()) == 7
        and (len(role), len(heads)) == (9, 8),
    ),
    cx.claims.finding(
        f"Together the seven cost more than the sum of each alone: by {words(joint, '.3f')} nats.",
        holds=joint[1] > 0,
        otherwise=f"whether the seven together cost more than their sum is undecided: by {words(joint, '.3f')} nats.",
    ),
)

# %% tags=["hide-input", "nbval-check-output"]
firsts = np.unique(of, return_index=True)[1]  # the first document of each domain
FIRSTS = torch.from_numpy(firsts)
first_of = {k: firsts[kinds[firsts] == k] for k in of_kind}
first_e, first_o, first_c = (first_of.get(k, firsts[:0]) for k in KINDS)
tokens_A = torch.stack([text.tokens[: n + 1] for text in half_A])
outputs = torch.cat(  # text head d_model, of half A at n
    [circuit.at.outputs(some)[:, heads] for some in tokens_A.split(32)]
)
said = (outputs @ weights.mlp_input()[0]).var(0)  # head neuron
share = (said / said.sum(0)).quantile(0.5, dim=1)  # of each head
a, b = sorted(share.argsort(descending=True)[:2].tolist()) if len(heads) > 1 else (0, 0)


def without(some):
    """A change that silences some of the stable heads and leaves the others."""
    quiet = z.clone()
    quiet[:, :, some] = silent[:READ, some]
    return lambda rows: [inside(quiet[rows])]


def of_firsts(values):
    """A number a text, NaN for all but the first document of each domain."""
    found = np.full(len(read), np.nan)
    found[firsts] = values
    return found


def first_cost(change):
    """KL of the first document of each domain, and the square of the size of the change."""
    made = cost(change, FIRSTS)
    return [of_firsts(a_text(v)) for v in (made.kl, made.size)]


(alone_a, _), (alone_b, _), (rest_a, _) = (
    first_cost(without(some)) for some in ([a], [b], [k for k in range(len(heads)) if k != a])
)
cx.claims.finding(
    f"Of the two heads of {MODEL} with the largest shares of the variance at the neurons each is missed little alone in English (one document per domain): silence of head {heads[a]} does a damage of {alone_a[first_e].mean():.2f}, of head {heads[b]} {alone_b[first_e].mean():.2f}; that of head {heads[a]} adds {words(on(silent_kl - rest_a, first_e))} when the others are silent. In other languages, where means mostly of English mislead, they do {alone_a[first_o].mean():.2f} and {alone_b[first_o].mean():.2f}.",
    holds=on(silent_kl - rest_a - alone_a, first_e)[1] > 0
    and bool(silencing.get(ENGLISH, 0) > silencing.sum() / 2)
    and bool(alone_b[first_o].mean() > 10 * max(alone_a[first_o].mean(), alone_b[first_e].mean())),
) if len(first_e) else None

# %% [markdown]
r"""
So one head silenced at a time is a poor measure of its worth. Nor does a sum show it: two heads that push the same way cost more together than summed, as damage is quadratic. Whether later layers make up for a missing part {cite}`mcgrath2023hydra` was not tested.

## Through the neurons, or past them?

What the heads write reaches later layers by two ways: through the neurons of the same layer (the indirect effect), or past them in the residual stream (the direct one) {cite}`pearl2001direct,vig2020investigating`. Either can be cut. Silence the heads, but *hold* the neurons' pre-activations as they were: what damage is left is direct. Leave the heads, but give the neurons the pre-activations that they have in silence: what they do *alone* is indirect. Some can be held: the `NEURONS` that weights choose ([chapter 5](05_circuit)), as many others at random, as many that vary most over texts.
"""

# %% tags=["hide-input"]
as_they_were = told.first_layer("mlp.hook_pre")  # text pos neuron
in_silence_pre = told.first_layer("mlp.hook_pre", hooks=silence(everyone))
J = cx.find_neurons(circuit, threshold=-np.inf)[:NEURONS].index.tolist()
rest = sorted(set(range(weights.n_neurons)) - set(J))
some_others = np.random.default_rng(0).choice(rest, min(len(J), len(rest)), replace=False).tolist()
spread = (outputs.sum(1) @ weights.mlp_input()[0]).std(0).topk(len(J)).indices.tolist()
ALL = list(range(weights.n_neurons))


def fixed(values, members):
    """A hook that fixes the pre-activations of some neurons."""

    def hook(own, hook):
        own = own.clone()
        held = values if own.shape[1] == values.shape[1] else values[:, asked]  # in a last layer
        own[..., members] = held[..., members].to(own)
        return own

    return "blocks.0.mlp.hook_pre", hook


def hold(members):
    """Silence, with some neurons held as they were."""
    return lambda rows: [*silence(rows), fixed(as_they_were[rows], members)]


def share_of(change):
    """Damage and size of a change as shares of those of silence, in English, and damage by kind."""
    damage, size = first_cost(change)
    whole = of_firsts(a_text(early["silence"].size)[firsts])
    by_kind = [float(damage[d].mean() / silent_kl[d].mean()) for d in first_of.values()]
    ends = over(first_e, lambda d: damage[d].mean() / silent_kl[d].mean()) if len(first_e) else NONE
    return ends, float(np.sqrt(np.nanmean(size[first_e]) / np.nanmean(whole[first_e]))), by_kind


past, past_size, past_kinds = share_of(hold(ALL))
through, _, through_kinds = share_of(lambda rows: [fixed(in_silence_pre[rows], ALL)])
left_J, left_others, left_spread = (share_of(hold(some))[0] for some in (J, some_others, spread))

# %% tags=["hide-input", "nbval-check-output"]
display(
    cx.claims.finding(
        f"In English {words(through, '.0%')} of the damage to {MODEL} arises through the layer's neurons alone, and past them {words(past, '.1%')} ({past_size:.0%} of the size of the change). In no kind of text is the first less than {min(through_kinds):.0%}, or the second more than {max(past_kinds):.1%}.",
        holds=min(through_kinds) > 0.9 and max(past_size, *past_kinds) < 0.1,
    ),
    cx.claims.finding(
        f"Hold the {len(J)} neurons that weights choose, and {words(left_J, '.0%')} of the damage in English is left; hold {len(some_others)} others, and {words(left_others, '.0%')} is; of those that vary most over half A, {len({*J} & {*spread})} of them the same, {words(left_spread, '.0%')}.",
        holds=left_J[2] < left_others[1],
    ),
)

# %% [markdown]
r"""
So the neurons pass the context on; the `NEURONS` far more of it than as many drawn once, and as many chosen by their spread about as much.

What of half a message? Early in a text BOS weakens all that heads say, from which the post infers, "arguably", *weak linear representations* {cite}`gibson2025contextual`.
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "Does half of the message do half? (It decides little.)"}
middling = silent[:READ] + 0.5 * (z - silent[:READ])  # of the message, and of silence
quiet, part = (
    predicted(change(FIRSTS), FIRSTS) for change in (silence, lambda rows: [inside(middling[rows])])
)
mixed = torch.stack([quiet, as_it_is[FIRSTS]]).logsumexp(0) - np.log(2)  # of the predictions
ways = [v - quiet for v in (as_it_is[FIRSTS], part, mixed)]
centred = [v - v.mean(-1, keepdim=True) for v in ways]  # text place vocab
along, along_half, along_mixed = (of_firsts((v * centred[0]).sum((1, 2))) for v in centred)


def way(v, rows):
    """Share of the way, with its interval."""
    return over(rows, lambda d: v[d].sum() / along[d].sum()) if len(rows) else NONE


half, mixed_way = (way(v, first_e) for v in (along_half, along_mixed))
cx.claims.finding(
    f"In English half of the message takes the prediction {words(half)} of the way, by projection: a little more than in proportion. The even mixture of the two predictions goes {words(mixed_way)}, so this agrees with the post and decides little.",
    holds=half[1] > max(0.5, mixed_way[2]) and half[2] < 0.75 and mixed_way[1] > 0.25,
)

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What became of the conditions that were set beforehand? (Two in nats, the others as shares.)"}
late_key, late_ours = (v[:, -len(second) : -1].mean(1).numpy() for v in (by_key, early[OURS].kl))
late_gain = repaired(late_key, everyone.numpy(), late_ours)
stands_for = rest_gives[0] / own_gives[0]
CONDITIONS = {
    "negative control: the domain's vector gives back more of what silence of SmolLM2's stable heads costs in English than of what silence of its local head does, in nats": (
        words(negative, "+.3f"), negative[1] > 0, "no: the reverse" if negative[2] < 0 else "no"),
    "jointly: in English silence of its stable heads costs more than the sum of what each costs alone": (words(joint, "+.3f"), joint[1] > 0, "no"),
    "prior: the vector gives back more in English than log odds at the weight that is best on half A, in both models": (
        f"{MODEL}, weight {weight:.1f}: {words(over_odds)}; SmolLM2, weight {kept['weight']:.1f}: {words(over_odds_there)}",
        over_odds[1] > 0 and over_odds_there[1] > 0, f"no: {MODEL} only" if over_odds[1] > 0 else "no"),
    "rest: without its constant part the vector gives back half of what it does whole, in English, in both models": (
        f"{MODEL}: {stands_for:.2f}; SmolLM2: the whole vector gives back nothing that can be told from zero", stands_for > REST and there_e[1] > 0, f"no: {MODEL} only" if stands_for > REST else "no"),
    f"BOS read by its own key repairs a tenth of what the self-normalised circuit leaves, in the second half of the early tokens (from token {READ // 2} on; all kinds)": (words(late_gain), late_gain[1] > TENTH, "no"),
}  # fmt: skip
met = sum(bool(holds) for _, holds, _ in CONDITIONS.values())
pd.DataFrame(
    [(k, found, "yes" if holds else no) for k, (found, holds, no) in CONDITIONS.items()],
    columns=["condition", "found", "met"],
).set_index("condition")

# %% tags=["hide-input", "nbval-check-output"]
cx.claims.finding(
    f"Of the {len(CONDITIONS)} conditions set beforehand {met} are met; {len(CONDITIONS) - met} fail because of SmolLM2, one of these reversed: in English the vector of its stable heads adds {-stable_saved[0]:.3f} nats to the loss in silence, that of the local head takes {local_saved[0]:.3f} away.",
    holds=0 < met < len(CONDITIONS)
    and negative[2] < 0
    and stable_saved[0] < 0 < local_saved[0]
    and local[1] < 0 < local[2]
    and min(over_odds[1], stands_for - REST, late_gain[1] - TENTH) > 0,
)

# %% [markdown]
r"""
## What breaks it

- **A mean for silence.** It is a mean over some texts of half A; another may move every share.
- **Domains as collected.** A domain is a source of texts, so its vector holds the source's habits, spelling and layout, too.
- **One place.** What later layers cancel when all places share it does damage at one.
- **Early places.** Vectors, heads, neurons and doses were tried in the first `READ` tokens.
- **Out of the ordinary.** Changed states are new to the model; a random vector shows what that alone can cost.

## Turn it

In Jupyter or Colab (the rocket above), choose a domain, a strength, and whether the stable heads are silent: tokens that gain most after BOS and `TOKEN`, and neurons that move most.
"""

# %% tags=["hide-cell"]
prompt = torch.tensor([[weights.tokenizer.bos_token_id, weights.token_id(TOKEN)]])
usable = ~study.at.split.untrained
vector = dict(zip(of, own, strict=True))


def draw(domain, strength, heads_are):
    quiet = [inside(silent[None])] if heads_are == "silent" else []
    g = strength * vector[domain]
    plain, pushed = (
        model.run_with_hooks(prompt, fwd_hooks=[*quiet, *hooks])[0, -1].log_softmax(-1).cpu()
        for hooks in ([], [cx.decoders.add_direction(0, g)])
    )
    gain = (pushed - plain).where(usable, torch.tensor(-torch.inf))
    best = gain.topk(min(12, int(usable.sum())))
    spelt = [ascii(t) for t in cx.neurons.spelled(weights, best.indices.tolist())]
    change = g @ weights.mlp_input()[0] / circuit.scale  # neuron
    most = change.abs().topk(min(12, len(change))).indices.tolist()
    figure, ((left, right),) = cx.plots.panels(1, 2, height=3.2)
    left.barh(range(len(spelt)), best.values, color=cx.plots.COLOURS[2])
    left.set_yticks(range(len(spelt)), spelt, family="monospace", parse_math=False)
    left.set(xlabel="gain of log-probability (nats)", title="Tokens that follow")
    right.barh(range(len(most)), change[most], color=cx.plots.COLOURS[1])
    right.set_yticks(range(len(most)), most)
    right.set(
        xlabel="change of the pre-activation (linear estimate)",
        ylabel="neuron",
        title="Neurons moved most",
    )
    for axis in (left, right):
        axis.invert_yaxis()
    return cx.plots.picture(
        figure,
        "10.3",
        f"The vector of <i>{domain}</i> at strength {strength:g}, after BOS and {TOKEN!r}, stable heads {heads_are}.",
        f"Two bar charts. Tokens that gain most: {', '.join(spelt[:6])}; neurons moved most: {', '.join(map(str, most[:6]))}.",
    )


cx.widgets.Turnable(
    draw,
    domain=cx.widgets.choice(
        "vector", sorted(vector), "bible-kjv" if "bible-kjv" in vector else of[0]
    ),
    strength=cx.widgets.slider("strength", 0.25, 4, 1, step=0.25),
    heads_are=cx.widgets.choice("the heads", ["silent", "at work"], "silent"),
)

# %% [markdown]
"""
## Claims

The sources have no experiment here; the bounds are this book's reading, each set before it was tried on this model. What is held against them came with the chapter, $n$ in line 2 later, and English after readers had asked for kinds apart; over all kinds line 2 is undecided. Intervals draw documents or domains, whichever is wider; fewer than five domains get none.
"""

# %% tags=["hide-input", "nbval-check-output"]
of_all = f"paper's circuit at every destination: share of the KL of silence repaired, first {READ} tokens, English"
of_home = f"the same at home ({HOME}), the circuit at every earlier place, too; English"
of_half = "share of the way that half of the message goes, English"
cx.claims.ledger(
    model,
    cx.claims.Claim("good_substitute", of_all, page_e[0], page_e[1:]),
    cx.claims.Claim("good_substitute", of_home, at_home[0], at_home[1:]),
    cx.claims.Claim("weak_linear", of_half, half[0], half[1:]),
)

# %% tags=["hide-input", "nbval-check-output"]
bound = cx.claims.published("good_substitute")
cx.claims.finding(
    "With the circuit's mean put right, tried later, line 1 would be undecided and line 2 hold.",
    holds=[bound.verdict(share[0], share[1:]) for share in (right_e, right_home)]
    == ["undecided", "holds"],
)

# %% [markdown]
r"""
## What you may now assume
"""


# %% tags=["hide-input", "nbval-check-output"]
def left_over(share):
    """One less a share, with its interval."""
    return words([1 - share[k] for k in (0, 2, 1)], ".0%")


of_size = [early[name].size[in_english].mean() for name in (BOS, "silence")]
size_left = float((of_size[0] / of_size[1]).sqrt())
display(
    cx.claims.finding(
        f"Put in at every place of an English text, Equation 1 with BOS read exactly does what {MODEL}'s heads do, but for {left_over(bos_e)} of the damage (KL) of silence early ({size_left:.0%} of the size of the change) and {left_over(bos_far)} farther on.",
        holds=1 - bos_e[1] < 0.05 and 1 - bos_far[1] < 0.1 and size_left < 0.2,
    ),
    cx.claims.finding(
        f"At tokens {READ // 2} to {READ - 1} of an English text its domain's vector gives {MODEL} back the loss that silence costs, but for {left_over(own_gives)}.",
        holds=own_gives[1] > 0.5,
    ),
    cx.claims.finding(
        f"What {MODEL}'s heads say passes through the neurons of their layer, but for {words(past, '.1%')} of the damage in English ({past_size:.0%} of the size of the change).",
        holds=past[2] < 0.05 and past_size < 0.1,
    ),
)

# %% [markdown]
r"""
## Exercises

1. *Predict, then run.* The heads are at work, and every text gets the *negative* of its domain's vector. Does the loss rise more in English or in other languages, and is it more than silence costs?
"""

# %% tags=["hide-cell", "nbval-check-output"] mystnb={"code_prompt_show": "What came out?"}
against = of_firsts(cost(lambda rows: [cx.decoders.add_direction(0, -own[rows])], FIRSTS).rise.mean(1))  # fmt: skip
pd.DataFrame(
    {
        "own vector taken away": [f"{against[rows].mean():+.2f}" for rows in first_of.values()],
        "silence": [f"{rise[rows].mean():+.2f}" for rows in first_of.values()],
    },
    index=pd.Index(first_of, name="rise of the loss"),
)

# %% [markdown]
r"""
2. *Fill in* {eq}`eq-cau-loss`: the KL divergence at every place of the first text, from the log-probabilities `p` and `q` before and after silence (`place vocab`).
"""

# %%
p, q = as_it_is[0], predicted(silence(everyone[:1]), everyone[:1])[0]
mine = ...  # one number per place

# %% tags=["hide-input", "nbval-check-output"]
if mine is ...:
    print("not yet")
else:
    wanted = cost(silence, everyone[:1]).kl[0]
    print("right" if torch.allclose(mine, wanted, atol=1e-3) else "not this")

# %% [markdown]
r"""
3. *Try to break this.* Make the vectors of half A's first two texts of a domain only. How much do they give back, and which kind of text loses most?
4. *Prove.* A gain is a function $f(a, b)$ of what goes through the neurons, $a$, and past them, $b$, each 0 or 1, with $f(0, 0) = 0$. When do what is left when the neurons are held and what they do alone add up to 1, and what does it mean if they make less?

```{admonition} Solutions
:class: dropdown

1. Other languages suffer most, as they have the longest vectors. The cost is above that of silence: a whole vector is taken at every place, also at the first, where heads have gathered little.
2. `mine = (p.exp() * (p - q)).sum(-1)`
3. In `mean_of` keep two texts of a domain: `written[np.array(theirs) == s][:2].mean(0)`. They give back a few points less, most in code: what two texts have of their own is then in the vector.
4. Left when held is $1 - f(1, 0) / f(1, 1)$, done alone $1 - f(0, 1) / f(1, 1)$; they add up to 1 if $f(1, 1) = f(1, 0) + f(0, 1)$. If they make less, $f(1, 1) < f(1, 0) + f(0, 1)$: each way can do part of the other's work, or the costs are KLs: aligned ways that add, shares $x$ and $1 - x$ of one change, make $(1-x)^2 + x^2 < 1$.
```

## Where this comes from

The question and the argument from BOS are the earlier post's {cite}`gibson2025contextual`, the circuit that of {cite:t}`gibson2025decomposing`; neither intervenes in the model. Vectors added to a stream are those of {cite:t}`turner2023steering`, with differences of means as in {cite:t}`rimsky2024steering`; direct and indirect effects were defined by {cite:t}`pearl2001direct` and brought to language models by {cite:t}`vig2020investigating`. The rest is worked out here.
"""
