"""What would others score on chapter 16's cases? A classifier of sentence embeddings, and a
language model, asked for its answers or judged by their odds. And what do the rules score on
SmolLM2's cases?

    python tools/evidence/semantic.py              # embeddings, to semantic.json
    python tools/evidence/semantic.py --odds       # and Qwen's odds
    python tools/evidence/semantic.py --chat qwen  # sentences of a model at OPENAI_BASE_URL, to
                                                   # explained.json
    python tools/evidence/semantic.py --rules      # the rules on SmolLM2's cases, to cases.json

All in `data/evidence/`. Set before any of it was measured:

- The *ceiling*: MiniLM's embedding of a prompt (the mean over its tokens) and logistic regression,
  fitted on the prompts that an explainer is shown, half A, and judged on those held out, half B. It
  needs no sentence, so what a sentence about meaning can score lies about here. Cases are `mini`'s
  in chapter 16; the score is that of the page, the AUC stands beside it.
- It works if it scores 0.9 or more on each planted subject (cooking, law, French). It sees
  something in heads if over neurons the mean score exceeds that of shuffled labels (permutation of
  neurons, p below 0.05), and more than the rules if their mean is lower (the same).
- *Odds*: the sentences that Qwen wrote for the page (kept with it) go back to Qwen, a prompt at a
  time; it is judged by the AUC of log P(true) - log P(false), which no habit of answering *false*
  moves. On the planted subjects the mean must be 0.9 or more if it can apply a sentence; it sees
  something in heads if over the eight cases the mean AUC of true labels is above that of shuffled
  ones (sign flips over cases, p below 0.05).
- *Answers*: a language model explains if its sentences score more for true labels than for shuffled
  ones, interval above 0; few-shot adds if it scores more than zero-shot, interval above 0.

Set last, of the page's tests of every head of the first layer, with prompts cut anywhere, before
rules were made that see nothing but the length of those prompts (the page makes them):

- *Trap*: the length is what makes these heads look easy if the length alone gets at least three
  quarters as far above a half as the rules do.
- *More than the length*: the rules say more than it if they are ahead of it, p below 0.05 by sign
  flips, each head counted once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import openai
import torch
from command import ROOT, command
from evidence import kept, provenance, resumed, rounded
from files import replace
from scipy import stats
from sklearn.linear_model import LogisticRegression
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer

import ctxbook as cb
import ctxlib as cx
from ctxbook.cases import Case, Read
from ctxlib.files import kept_folder
from ctxlib.lookups.explain import Explainer, Prompts
from ctxlib.models import real_models

OUT = ROOT / "data" / "evidence" / "semantic.json"
SUBJECTS = ("cooking", "law", "french")  # planted: active means of this domain


def embedder(folder: Path):
    """A function from prompts to embeddings of length one, each computed once."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    tokenizer.truncation_side = "left"  # the end matters
    known: dict[str, np.ndarray] = {}

    def embed(prompts):
        new = sorted({*prompts} - {*known}, key=len)
        for some in tqdm(
            [new[i : i + 32] for i in range(0, len(new), 32)], "embedding", leave=False
        ):
            words = tokenizer(
                some, padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            mask = words["attention_mask"][..., None]
            mean = (model(**words).last_hidden_state * mask).sum(1) / mask.sum(1)
            known.update(zip(some, torch.nn.functional.normalize(mean, dim=1).numpy(), strict=True))
        return np.stack([known[p] for p in prompts])

    return embed


def by_meaning(embed, split) -> dict[str, float]:
    """Score and AUC of logistic regression on embeddings, both kinds counting alike."""
    shown_on, shown_off, held_on, held_off = map(embed, astuple(split))
    fit = LogisticRegression(class_weight="balanced", max_iter=1000)
    fit.fit(np.concatenate([shown_on, shown_off]), [1] * len(shown_on) + [0] * len(shown_off))
    on, off = fit.decision_function(held_on), fit.decision_function(held_off)
    auc = cx.neurons.auc(
        np.concatenate([on, off])[:, None], np.arange(len(on) + len(off)) < len(on)
    )
    return {"score": float(((on > 0).mean() + (off <= 0).mean()) / 2), "auc": float(auc[0])}


def embeddings(read: Read, cases: Sequence[Case]) -> dict:
    """Every case and planted subject, by meaning and by the rules."""
    embed, rows = embedder(kept_folder("minilm")), []
    rules = cx.lookups.explain.RuleExplainer(read.model.tokenizer)
    for seed, case in enumerate(tqdm(cases, "cases")):
        row: dict[str, Any] = {
            "case": [*case.neuron, *case.head],
            "predicts a token": bool(case.token),
        }
        mixed = cx.lookups.explain.shuffled(case.prompts, seed)
        for kind, prompts in (("", case.prompts), ("shuffled", mixed)):
            row[kind or "true"] = by_meaning(embed, prompts)
            by_rules = cx.lookups.explain.score(rules, prompts).score
            row[", ".join(filter(None, ("rules", kind)))] = float(by_rules)
        rows.append(row)
    planted = {d: by_meaning(embed, cb.cases.planted_subject(read, d)) for d in SUBJECTS}
    neurons = [tuple(row["case"][:2]) for row in rows]

    def of_neurons(values):  # a mean for each neuron
        return np.array(
            [
                np.mean([v for v, n in zip(values, neurons, strict=True) if n == one])
                for one in sorted(set(neurons))
            ]
        )

    def exceeds(one, other):
        moved = of_neurons(one) - of_neurons(other)
        test = stats.permutation_test((moved,), np.mean, permutation_type="samples", rng=0)
        return {"by": float(moved.mean()), "p": float(test.pvalue)}

    columns = {
        k: [row[k]["score"] for row in rows]
        if k in ("true", "shuffled")
        else [row[k] for row in rows]
        for k in ("true", "shuffled", "rules", "rules, shuffled")
    }
    aucs = {k: [row[k]["auc"] for row in rows] for k in ("true", "shuffled")}
    result = {
        "cases": len(rows),
        "neurons": len(set(neurons)),
        **{f"{k}, mean": float(np.mean(v)) for k, v in columns.items()},
        **{f"{k}, mean AUC": float(np.mean(v)) for k, v in aucs.items()},
        "true over shuffled": exceeds(columns["true"], columns["shuffled"]),
        "AUC, true over shuffled": exceeds(aucs["true"], aucs["shuffled"]),
        "meaning over rules": exceeds(columns["true"], columns["rules"]),
        "r with rules over cases": float(np.corrcoef(columns["true"], columns["rules"])[0, 1]),
        "cases where meaning scores 0.75 or more": int((np.array(columns["true"]) >= 0.75).sum()),
        "the same, shuffled": int((np.array(columns["shuffled"]) >= 0.75).sum()),
        "planted": planted,
    }
    return {"result": result, "rows": rows}


# ---------------------------------------------------------------- sentences


class FewShot:
    """A sentence, and beside it some of the prompts that it was written from."""

    def __init__(self, asking: Explainer, each: int = 4):
        self.asking, self.each = asking, each

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        lines = [self.asking.explain(active, inactive)]
        for kind, prompts in (("Active", active), ("Inactive", inactive)):
            ends = [prompt.replace("\n", "↵") for prompt in prompts[: self.each]]
            lines += [f"{kind}, for example: …{end[-200:]}" for end in ends]
        return "\n".join(lines)

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        return self.asking.classify(explanation, prompts)


def answered(explainer: Explainer, prompts: Prompts) -> dict[str, Any]:
    """What an explainer scores; one that gives no sentence in time knows as much as a coin."""
    try:
        s = cx.lookups.explain.score(explainer, prompts)
    except ValueError as error:
        return {"sentence": None, "score": 0.5, "why": str(error)}
    return {"sentence": s.explanation, "score": s.score, "tpr": s.tpr, "tnr": s.tnr}


def told(read: Read, cases: Sequence[Case], explainer: Explainer) -> dict[str, Any]:
    """Drawn cases and planted subjects: zero-shot, few-shot, rules, and under shuffled labels."""
    drawn = [cases[k] for k in np.random.default_rng(0).permutation(len(cases))[:8]]
    asked = {f"planted: {d}": cb.cases.planted_subject(read, d) for d in SUBJECTS}
    asked |= {str(case): cb.cases.few(case.prompts) for case in drawn}
    rules = cx.lookups.explain.RuleExplainer(read.model.tokenizer)
    ways = {"zero-shot": explainer, "few-shot": FewShot(explainer), "rules": rules}
    facts: dict[str, Any] = {}
    for seed, (name, prompts) in enumerate(tqdm(asked.items(), "explaining")):
        mixed = cx.lookups.explain.shuffled(prompts, seed)
        kinds = {"": prompts, ", shuffled": mixed}
        facts[name] = {
            way + kind: answered(who, of) for way, who in ways.items() for kind, of in kinds.items()
        }
    return facts


def by_rules(read: Read, cases: Sequence[Case]) -> dict[str, list]:
    """What the rules score on every case: on the prompts shown and on those held out, for true and
    for shuffled labels, and from half B to half A.
    """
    explain = cx.lookups.explain
    rules = explain.RuleExplainer(read.model.tokenizer)
    table: dict[str, list] = defaultdict(list)
    for seed, case in enumerate(tqdm(cases, "cases")):
        for kind, p in (("true", case.prompts), ("shuffled", explain.shuffled(case.prompts, seed))):
            fit = Prompts(p.shown_active, p.shown_inactive, p.shown_active, p.shown_inactive)
            table[f"{kind}, shown"].append(explain.score(rules, fit).score)
            table[f"{kind}, held out"].append(explain.score(rules, p).score)
        p = case.prompts
        turned = Prompts(p.held_active, p.held_inactive, p.shown_active, p.shown_inactive)
        table["B to A"].append(explain.score(rules, turned).score)
        table["neuron"].append([*case.neuron])
        table["predicts a token"].append(bool(case.token))
    return table


def odds(read: Read, cases: Sequence[Case], work: Path) -> dict:
    """AUC of log P(true) - log P(false), sentence by sentence."""
    told = json.loads((ROOT / "data" / "evidence" / "explained.json").read_text())["cases"]
    (file,) = real_models()["qwen"]["files"]
    folder = kept_folder("qwen")
    from transformers import AutoModelForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.bfloat16)
    yes, no = (tokenizer.encode(w, add_special_tokens=False)[0] for w in ("true", "false"))

    def odd(sentence, prompt):
        end = prompt if len(prompt) <= 400 else "…" + prompt[-400:]
        question = {"explanation": sentence, "prompts": {"1": end}}
        messages = [
            {"role": "system", "content": cx.lookups.chat.TASKS["classify"]},
            {"role": "user", "content": json.dumps(question, ensure_ascii=False, indent=1)},
        ]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(ids + '{"1": ', return_tensors="pt", add_special_tokens=False)["input_ids"]
        logits = model(ids, logits_to_keep=1).logits[0, -1].float().log_softmax(-1)
        return float(logits[yes] - logits[no])

    splits = {f"planted: {d}": cb.cases.planted_subject(read, d) for d in SUBJECTS}
    splits |= {str(case): cb.cases.few(case.prompts) for case in cases}
    rows: dict[str, dict[str, Any]] = {}
    for seed, (name, answers) in enumerate(tqdm(told.items(), "cases")):
        mixed = cx.lookups.explain.shuffled(splits[name], seed)
        rows[name] = {}
        for kind, split in (("zero-shot", splits[name]), ("zero-shot, shuffled", mixed)):
            sentence = answers[kind]["sentence"]
            of = {
                half: [
                    resumed(work / f"{seed}-{kind}-{half}-{i}.json", odd, sentence, p)
                    for i, p in enumerate(prompts)
                ]
                for half, prompts in (("on", split.held_active), ("off", split.held_inactive))
            }
            both = np.array(of["on"] + of["off"])
            auc = cx.neurons.auc(both[:, None], np.arange(len(both)) < len(of["on"]))
            rows[name][kind] = {"auc": float(auc[0]), "says true": float((both > 0).mean()), **of}
    planted, heads = (
        [n for n in rows if n.startswith("planted") == kind] for kind in (True, False)
    )
    aucs = {
        kind: np.array([rows[n][kind]["auc"] for n in heads])
        for kind in ("zero-shot", "zero-shot, shuffled")
    }
    test = stats.permutation_test(
        (aucs["zero-shot"] - aucs["zero-shot, shuffled"],),
        np.mean,
        permutation_type="samples",
        rng=0,
    )
    result = {
        "planted, mean AUC": float(np.mean([rows[n]["zero-shot"]["auc"] for n in planted])),
        "heads, mean AUC": float(aucs["zero-shot"].mean()),
        "heads, shuffled, mean AUC": float(aucs["zero-shot, shuffled"].mean()),
        "heads over shuffled, p": float(test.pvalue),
        "says true": float(
            np.mean([of["says true"] for row in rows.values() for of in row.values()])
        ),
    }
    return {"result": result, "rows": rows}


@command("semantic")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--odds", action="store_true", help="ask Qwen, too")
    parser.add_argument("--chat", help="a model's name at OPENAI_BASE_URL, to explain")
    parser.add_argument("--rules", action="store_true", help="the rules on SmolLM2's cases")
    parser.add_argument("--work", type=Path, default=Path("build/semantic"))
    args = parser.parse_args(argv)
    torch.set_grad_enabled(False)
    name = "smollm2" if args.rules else "mini"
    read = Read.of(cx.load(name), 440)
    said, drawn, _ = cb.cases.predicting(read, 0.1)
    cases = cb.cases.cases_of(read, said | dict.fromkeys(drawn, ""))
    if args.rules:
        facts: dict[str, Any] = provenance(name) | {"texts": len(read.texts)}
        facts["cases"] = [[*case.neuron, *case.head] for case in cases]
        facts["table"] = rounded(by_rules(read, cases), 3)
        replace(OUT.with_name("cases.json"), json.dumps(facts) + "\n")
    elif args.chat:
        explainer = cx.lookups.chat.ChatExplainer(
            args.chat, cache=args.work, client=openai.OpenAI(timeout=600, max_retries=0),
            batch=8, keep=100,
        )  # fmt: skip
        files = real_models().get(args.chat, {}).get("files")
        facts = {"model": args.chat, "files": files, "cases": told(read, cases, explainer)}
        replace(OUT.with_name("explained.json"), json.dumps(facts, indent=0) + "\n")
    else:
        kept(OUT, "embeddings", provenance("minilm") | embeddings(read, cases))
    if args.odds:
        kept(OUT, "odds", provenance("qwen") | odds(read, cases, args.work))


if __name__ == "__main__":
    sys.exit(main())
