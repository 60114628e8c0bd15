"""Whatever is handed in is read, or refused in one line, and leaves nothing half written: folders,
GGUF files, texts and settings, each with something wrong that is drawn at random.
"""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_command import FILES

import ctxlib as cx
from ctxviews.command import main

few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUES = [None, True, -1, 0, 2, 7, 1.5, float("nan"), 1000, "x", "10", "", [], {}, [1], {"a": 1}]
TOKENS = torch.arange(9)[None]
byte, share = st.integers(0, 255), st.floats(0, 1, exclude_max=True)


def read_or_refused(place):
    """The model there, or nothing."""
    try:
        return cx.load(place)
    except (ValueError, OSError, TypeError) as error:
        assert str(error) and "\n" not in str(error)


def cut(held, share):
    return held[: int(share * len(held))]


def overwritten(held, share, byte, first=0, last=None):
    """With another byte, somewhere between two places."""
    at = first + int(share * ((last or len(held)) - first))
    return held[:at] + bytes([byte]) + held[at + 1 :]


def misspelled(held, share, value):
    """A JSON file with something else in one of its places, for all that it held there."""
    found, nodes = [], [whole := json.loads(held)]
    for node in nodes:
        found += [(node, key) for key in (node if isinstance(node, dict) else range(len(node)))]
        nodes += [node[k] for n, k in found if n is node and isinstance(node[k], dict | list)]
    node, key = found[int(share * len(found))]
    node[key] = value
    return json.dumps(whole).encode()


@few
@given(kind=st.sampled_from([cut, overwritten, misspelled]), share=share, byte=byte, data=st.data())
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_with_a_damaged_file_is_read_or_refused(llama, name, kind, share, byte, data):
    held = (llama()[0] / name).read_bytes()
    if kind is misspelled and name.endswith(".json"):
        damaged = misspelled(held, share, data.draw(st.sampled_from(VALUES)))
    else:
        damaged = cut(held, share) if kind is cut else overwritten(held, share, byte, last=4000)
    with TemporaryDirectory() as place:
        folder = Path(shutil.copytree(llama()[0], Path(place) / "model"))
        (folder / name).write_bytes(damaged)
        if model := read_or_refused(folder):
            assert bool(model(TOKENS).isfinite().all())


@few
@given(kind=st.sampled_from([cut, overwritten]), share=share, byte=byte)
def test_a_gguf_file_with_damaged_tensors_is_what_it_was_or_refused(llama, kind, share, byte):
    """Cut, or with another byte where it says where its tensors are."""
    held = llama()[1].read_bytes()
    said = held.index(b"token_embd.weight") - 8, held.index(b"output_norm.weight") + 40
    damaged = cut(held, share) if kind is cut else overwritten(held, share, byte, *said)
    with TemporaryDirectory() as place:
        file = Path(place) / "damaged.gguf"
        file.write_bytes(damaged)
        if model := read_or_refused(file):
            assert float((model(TOKENS) - cx.load(llama()[1])(TOKENS)).abs().max()) == 0


# ---------------------------------------------------------------- the command

PROSE = "the colour of the water at the harbour \n" * 40
PIECES = [b"", b"\n", b"\xff\xfe", b"\0" * 50, b"a" * 9000, b"<|endoftext|>\n" * 9, b"\xed\xa0\x80"]
PIECES += [*3 * [PROSE.encode()], "日本🎉\ufeff\u2028".encode() * 30]
NAMES = ["a.txt", "sea/b.txt", "sea/deep/ü.txt", "=1/c,d.txt", "<b>/x.txt", "e.txt.xz", "a\nb.txt"]
CHOSEN = {
    "n": ["-1", "2", "9", "31", "32", "x", "1.5"],
    "token": [" the", "", " ", "é", "two words"],
    "heads": ["", "0", "0,0", "9", "-1", "0,", "2,1"],
    "threshold": ["0", "-1", "nan", "inf", "1e400", "x"],
    "calibrate": ["", ".", "\1", PROSE],
}
texts = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
)
options = st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in CHOSEN.items()})


@few
@example({"sea/b.txt": 9 * PIECES[-2], "=1/c,d.txt": 9 * PIECES[-2][4:]}, {"n": "9"})
@given(texts, options)
def test_texts_and_settings_of_any_kind_give_all_files_or_one_line(llama, capsys, texts, options):
    with TemporaryDirectory() as place:
        for name, text in texts.items():
            (file := Path(place, "texts", name)).parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        asked = [str(llama()[0]), f"--texts={place}/texts", f"--out={place}/out"]
        capsys.readouterr()
        try:
            code = main([*asked, *(f"--{name}={value}" for name, value in options.items())])
        except SystemExit as stopped:  # of argparse
            code = stopped.code
        assert {file.name for file in Path(place, "out").glob("*")} == (set() if code else FILES)
        said = capsys.readouterr().err
        assert code in (0, 1, 2) and (code != 1 or said.rpartition("ctxlib: ")[2].count("\n") == 1)
