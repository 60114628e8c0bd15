"""What a study found, in plain text: what `python -m ctxlib` prints."""

from __future__ import annotations

import pandas as pd

from ctxlib.studies import Study

OWN = " self-normalised"  # ends the columns of the self-normalised circuit
CENTERED = " centred"  # of the circuit that takes its constants from the calibration text
WELL, ROUGHLY = 0.9, 0.7  # r: a line explains four fifths, or half, of the variance across texts
SCALE = 0.1  # of the FVU: a scale is wrong if a slope and an offset would take more than this off
ROWS, LABELS = 10, 25  # of the tables
TOKENS = 6  # of a neuron
BEST = "The best neuron of each label, chosen on half A of the texts, with its AUC on half B:"


def report(study: Study, found: pd.DataFrame, labels: pd.DataFrame, notes: list[str]) -> str:
    """Return the heads, the first neurons of a table, the best neuron of each label, notes, and how
    well the circuit predicts the neurons.

    `found` and `labels` are the tables of `ctxviews.command.neurons`.
    """
    none = "" if study.head_table["stable"].any() else "\nno head is stable"
    heads = study.head_table.assign(**{"variance share": study.head_variance_share.round(2)})
    first = labels.groupby(level=0).head(1).sort_values("auc", ascending=False)
    parts = [
        str(study),
        heads.rename_axis("head").to_string() + none,
        f"calibrated on {study.calibration_text.name}; {counted(study, found)}",
        display_table(found.head(ROWS)),
        f"{BEST}\n{display_table(first.head(LABELS))}" if len(first) else "",
        "\n".join(notes),
        verdict(found),
    ]
    return "\n\n".join(filter(None, parts))


def counted(study: Study, found: pd.DataFrame) -> str:
    """Return how many neurons are found, of which MLP, and how many others are listed."""
    of, out = study.fixed, int(found["found"].sum())
    others = f"; the next {len(found) - out} are listed too" if out < len(found) else ""
    return f"{out} of the {of.n_neurons} neurons of layer {of.mlp_layer}'s MLP are found{others}"


def display_table(found: pd.DataFrame) -> str:
    """Return the columns of a table that fit on a line."""
    words = [" ".join(str(token).strip() for token in row[:TOKENS]) for row in found["top tokens"]]
    columns = [name for name in ("neuron", "top", "label", "auc", "r", "fvu") if name in found]
    return found[columns].round(2).assign(tokens=words).to_string()


def verdict(found: pd.DataFrame) -> str:
    """Return how well the circuit predicts the neurons that are found, all that are listed if none
    is, by medians over them; and which circuit to use.
    """
    if "fvu" not in found:
        return "a stored layer holds an approximation: there is nothing exact to compare it with"
    of, kind = found[found["found"]], "are found"
    if of.empty:
        of, kind = found, "are listed, for none is found"
    (one, enough), (own, better), (constant, mended) = (
        quality(of[f"r{suffix}"], of[f"fvu{suffix}"]) for suffix in ("", OWN, CENTERED)
    )
    if enough:
        advice = "One calibration text is enough."
    elif mended:
        advice = f"Use circuit.centered(), with the constants of that text: it {constant}."
    elif better:
        advice = "Use the self-normalised circuit: circuit.self_normalized()."
    else:
        advice = "Trust neither's amounts: cx.evaluation.error_budget says where the errors arise."
    return (
        f"Medians over the {len(of)} neurons that {kind}, on {found.attrs['texts']} texts:\n"
        f"With the denominators of one calibration text, the circuit {one}.\n"
        f"Self-normalised, it {own}.\n{advice}"
    )


def quality(r: pd.Series, fvu: pd.Series) -> tuple[str, bool]:
    """Return in words how well a circuit ranks texts and whether it gets the scale right; and
    whether both are good.
    """
    said = f"(r {r.median():.2f}, FVU {fvu.median():.2f})"
    if not r.median() > ROUGHLY:
        return f"hardly ranks texts as the model does {said}", False
    how, wrong = "well" if r.median() > WELL else "roughly", (fvu - (1 - r**2)).median() > SCALE
    scale = "but gets the scale wrong" if wrong else "and gets the scale right"
    return f"ranks texts {how} {scale} {said}", how == "well" and not wrong
