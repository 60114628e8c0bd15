"""Page 7 as a second oracle beside `by_hand`: its program, run as it stands on another checkpoint,
gives what the package gives.
"""

import jupytext
import pytest
import torch
from command import ROOT
from kinds import drawn
from safetensors.torch import load_file, save_file

import ctxlib as cx

PAGE = jupytext.read(ROOT / "chapters/07_hundred_lines.py")
CODE = [cell for cell in PAGE.cells if cell.cell_type == "code"]
FOLDED = {"hide-cell", "hide-input", "parameters", "setup"}
IN_VIEW = [cell.source for cell in CODE if not FOLDED & {*cell.metadata.get("tags", ())}]


def test_the_program_is_in_view_short_and_plain():
    lines = [line for source in IN_VIEW for line in source.splitlines()]
    assert sum(bool(line.strip()) for line in lines) <= 120
    assert "class " not in "\n".join(lines)
    assert "cx." not in "\n".join(lines) and "cb." not in "\n".join(lines)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_program_gives_what_the_package_gives(make_folder, seed):
    """On a random checkpoint of GPT-2's kind, with a context long enough for broad heads."""
    folder = make_folder(drawn("gpt2", max_position_embeddings=128), seed)
    state = load_file(file := folder / "model.safetensors")
    state["transformer.h.0.attn.c_attn.weight"] *= 0.2
    save_file(state, file, metadata={"format": "pt"})
    there = {"MODEL": str(folder), "TOKEN": " the", "TEXTS": 200}
    for cell in CODE:
        if "parameters" not in cell.metadata.get("tags", ()):
            exec(cell.source, there)
    torch.set_printoptions(profile="default")  # as the page found them
    fixed, heads = there["study"].fixed, there["heads"].tolist()
    assert fixed.n == 64 and heads and len(there["found"])
    circuit = cx.ContextualCircuit.calibrate(fixed, there["page"][0], heads)
    torch.testing.assert_close(there["contribution"], circuit.contribution, rtol=1e-4, atol=1e-4)
    table = cx.evaluate(circuit, there["half_B"], there["found"].tolist())
    for name, values in (("r", there["r"]), ("fvu", there["FVU"])):
        expected = torch.tensor(table[name].to_numpy(), dtype=torch.float32)
        torch.testing.assert_close(values, expected, rtol=1e-3, atol=1e-4)
