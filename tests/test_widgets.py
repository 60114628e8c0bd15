"""The views as notebooks and pages take them: one module each, state in traits, and a place in the
page that no state can break out of.
"""

import json
import re
from functools import partial

import numpy as np
import pytest
import traitlets
from bs4 import BeautifulSoup
from py_mini_racer import MiniRacer
from store_layers import save_layer
from viewing import MODULES, VIEWS, header, opened, tensors, whole

import ctxlib as cx
import ctxviews as cv
from ctxviews import bundle as in_bundles
from ctxviews import fixedfile, layerfile
from ctxviews import views as in_python

HOSTILE = "</div></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u2028\0"
every_view = pytest.mark.parametrize("view", VIEWS)


def test_every_view_has_a_module_and_a_class():
    exporting = {file.stem for file in MODULES if "export default" in file.read_text()}
    assert exporting - {"spellings"} == set(VIEWS)  # test_view_spellings.py has that


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.stem)
def test_no_module_makes_markup_of_a_text(file):
    source = file.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", source)
    assert "https://" not in source


def test_what_a_module_calls_otherwise_is_called_so_where_modules_are_one(tmp_path, monkeypatch):
    monkeypatch.setattr(in_bundles, "HERE", tmp_path)
    (tmp_path / "named.js").write_text("export const one = 1;\nexport const two = 2;\n")
    view = (
        'import { one as few, two } from "./named.js";\nexport default { render: () => few + two };'
    )
    (tmp_path / "view.js").write_text(view)
    module = in_bundles.bundled("view.js").replace("export default", "const view =")
    place = "{ el: { classList: { add() {} } } }"
    assert MiniRacer().eval(f"{module} view.render({place})") == 3


# ---------------------------------------------------------------- in a notebook and in a page


def parsed(page):
    """A piece of a page: its tags, and the attributes of the first."""
    tags = BeautifulSoup(page, "html.parser").find_all(True)
    return [tag.name for tag in tags], tags[0].attrs


@every_view
def test_a_notebook_gets_the_widget_and_a_page_its_state_and_a_still(views, view, monkeypatch):
    picture = cv.picture.Picture("<svg></svg><figcaption>Two lines</figcaption>", "two lines")
    monkeypatch.setattr(views[view], "picture", picture)
    bundle, _ = views[view]._repr_mimebundle_()
    found = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert found == views[view].model_id
    assert bundle["text/plain"] == "two lines"
    tags, place = parsed(bundle["text/html"])
    assert {"div", "svg", "figcaption"} <= set(tags)
    assert place["data-view"] == view
    assert json.loads(place["data-state"]) == whole(views[view])


def test_a_state_cannot_break_out_of_its_place_in_the_page(mini_view):
    html = mini_view("LiveReader", text=HOSTILE).place()
    tags, place = parsed(html)
    assert tags == ["div", "p"]
    assert "LiveReader: run this cell" in html, "what a saved notebook shows"
    assert json.loads(place["data-state"])["text"] == HOSTILE


# ---------------------------------------------------------------- traits


def up_to(last):
    """The last of what there is, and what there is not."""
    return last, last + 1, -2


# trait, in a view if it is another one there: what it can be, and what it cannot
VALUES = {
    **dict.fromkeys(("head", "heads"), up_to(7)),
    "neuron": up_to(1023),
    "n": up_to(511),
    **dict.fromkeys(("passage", "denominators text"), up_to(71)),
    **dict.fromkeys(("kind", "prompt"), up_to(2)),
    **dict.fromkeys(("text", "other", "search"), ("words",)),
    "kernels n": (*up_to(511), 0),
    "lookups neuron": up_to(1),
    "lookups heads": ([0], [6]),
    "octaves": (0.5, 2.5),
    "token": (284, 1),
    "threshold": (4.0, -1.0, float("nan"), float("inf")),
    "bound": ("Bernstein",),
    "level": (0.5, 0.4, 1.0),
}


@every_view
def test_a_trait_can_be_the_last_of_what_there_is_and_is_refused_what_it_cannot_be(views, view):
    shown, first, turned = views[view], views[view].state(), {}

    def put(name, value):
        listed = isinstance(first[name], list) and not isinstance(value, list)
        turned[name] = [value] if listed else value
        setattr(shown, name, turned[name])

    for name in first:
        can, *cannot = VALUES.get(f"{view} {name}", VALUES.get(name))
        for value in (*cannot, -7.5):
            with pytest.raises(traitlets.TraitError, match=re.escape(str(value))):
                put(name, value)
        put(name, can)
    assert shown.state() == turned
    assert "record" not in repr(shown)
    for name, value in reversed(first.items()):
        shown.set_state({name: value})  # as a page sets it
    assert shown.state() == first


def test_a_view_is_refused_a_wrong_state_from_the_start(mini_view, look_ups):
    with pytest.raises(traitlets.TraitError, match="destination 512"):
        mini_view("Kernels", n=512)
    with pytest.raises(traitlets.TraitError, match=r"token 1: the query tokens are .*, and -1"):
        mini_view("Kernels", token=1)
    with pytest.raises(traitlets.TraitError, match=r"heads \[3\]: .* record has \[0, 1, 2\]"):
        cv.LookUps(look_ups, neuron=1, heads=[3])
    with pytest.raises(TypeError, match="no setting neurn; there are heads, neuron"):
        cv.LookUps(look_ups, neurn=1)
    with pytest.raises(traitlets.TraitError, match="look_up_record"):
        cv.LookUps({"neurons": []})


# ---------------------------------------------------------------- the packed layer


@pytest.fixture(scope="module")
def one_study(of_kind):
    """A study of a model with rotary positions."""
    return cx.study(of_kind("Llama").model, texts=20, or_all=True)


@pytest.mark.parametrize("kind", ["NeuronExplorer", "LiveReader"])
def test_a_view_of_anything_has_its_sizes(one_study, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(in_python, "study", partial(cx.study, texts=20))  # of what is no study yet
    stored = save_layer(one_study.fixed, tmp_path / "layer.safetensors")
    for of in (one_study, one_study.fixed, stored, str(stored)):
        view = getattr(cv, kind)(of, heads=[3], neuron=39)
        head = header(view.prepared.data)
        assert (head["n"], head["heads"], head["neurons"]) == (one_study.fixed.n, 4, 40)
        for trait, wrong in (("heads", [4]), ("neuron", 40)):
            with pytest.raises(traitlets.TraitError, match=r"4: there are 0 to 3|40: there are 0"):
                setattr(view, trait, wrong)
        assert (view.heads, view.neuron) == ([3], 39)
    assert header(cv.NeuronExplorer(one_study).prepared.data)["stable"] == list(one_study.heads)


@pytest.mark.parametrize("kind", ["Rows", "Kernels"])
def test_views_that_move_the_destination_want_learned_positions(one_study, kind):
    for of, called in ((one_study, "Study"), (one_study.fixed, "FixedQuery"), ("mini", "str")):
        with pytest.raises(ValueError, match=f"^{kind} of a {called}: give it LayerWeights of a d"):
            getattr(cv, kind)(of)
    with pytest.raises(ValueError, match="NeuronExplorer of a dict: give it LayerWeights, a dest"):
        cv.NeuronExplorer({})


def test_the_tokens_of_a_large_vocabulary_that_a_page_has(one_study, monkeypatch):
    monkeypatch.setattr(fixedfile, "ROOM", 150 * one_study.fixed.readout.W_O.shape[1] * 2)
    monkeypatch.setattr(layerfile, "RANKED", 0)
    ids = tensors(fixedfile.packed_destination(one_study))["token_ids"]
    read = one_study.fixed.prepare(one_study.passages).unique().numpy()
    assert set(read) <= set(ids) and len(ids) == max(150, len(read))
    assert (ids[1:] > ids[:-1]).all()


def test_the_parts_of_a_layer_hold_what_the_whole_does(one_study, monkeypatch):
    """Those of all heads, in whatever file they are, and every token once."""
    study = cx.study(one_study.fixed, texts=20, heads=[1, 3])
    whole = tensors(fixedfile.packed_destination(study))
    monkeypatch.setattr(fixedfile, "ROOM", 0)
    monkeypatch.setattr(fixedfile, "SHARED", 64)
    files = fixedfile.parts_of_destination(study, "it")
    folder, *other = (layerfile.folder_of("it", {"x": np.arange(n, n + 2)}) for n in (0, 1))
    assert folder not in other, "no page puts parts of two layers together"
    held = [tensors(file) for file in files.values()]
    readouts = {name: t for part in held for name, t in part.items() if "readout" in name}
    assert readouts.keys() == {name for name in whole if "readout" in name}
    assert sorted(name.rpartition("/")[2] for name in files) == sorted(
        ["it.bin", "head-0.bin", "head-2.bin", *(f"tokens-{k}.bin" for k in range(len(held) - 3))]
    )
    for name, table in readouts.items():
        np.testing.assert_array_equal(table, whole[name])
    for head, W_O in enumerate(one_study.fixed.readout.W_O):
        levels, *of = (readouts[f"readout_{head}{p}"] for p in ("", "_step", "_spread", "_mean"))
        again, exact = levels * of[0][:, None] * of[1] + of[2], W_O @ one_study.fixed.readout.W_in
        np.testing.assert_allclose(again, exact.T, atol=0.02 * float(exact.abs().max()))
    of_tokens = [part for part in held if "token_ids" in part]
    ids = np.concatenate([part["token_ids"] for part in of_tokens])
    assert sorted(ids) == [*range(one_study.fixed.d_vocab)] and len(of_tokens) > 1
    content = np.concatenate([part["content"] for part in of_tokens], axis=1)
    in_order = content[:, ids.argsort()]
    np.testing.assert_array_equal(in_order[:, whole["token_ids"]], whole["content"])


# ---------------------------------------------------------------- a page that is one file

HOSTILE_NAME = "</title></script><script>alert(1)</script>"


def test_a_page_alone_requests_nothing_and_shows_the_neurons(one_study, browser, tmp_path):
    view = cv.NeuronExplorer(one_study, search=HOSTILE, neuron=7)
    file = cv.page(view, tmp_path / "page.html", title=HOSTILE_NAME)
    with opened(browser, offline=True) as page:
        page.goto(file.as_uri())
        page.locator(".ctx-neurons:not([aria-busy]) .ctx-neurons-list tbody tr").first.wait_for()
        assert page.title() == page.locator("h1").inner_text() == HOSTILE_NAME
        assert page.locator(".ctx-neurons-one h3").inner_text() == "Neuron 7"
        assert page.get_by_text(f"n = {one_study.fixed.n}, ").first.is_visible()
        first = page.locator(".ctx-neurons-list tbody input").first.get_attribute("value")
        assert int(first) == cx.find_neurons(one_study.circuit, threshold=-1e9).index[0]
        page.locator("[data-view=reader]").scroll_into_view_if_needed()
        page.get_by_role("textbox", name="First text", exact=True).fill("the colour of the harbour")
        page.get_by_text("The destination is fixed").wait_for()
        page.locator("fieldset input[type=checkbox]").first.click()  # other heads
        page.locator(".ctx-neurons:not([aria-busy])").wait_for()


def test_python_answers_a_notebook_with_the_layer(mini_view, packed_mini, monkeypatch):
    view, sent = mini_view("Rows"), []
    monkeypatch.setattr(view, "send", lambda content, buffers: sent.append((content, buffers)))
    view._handle_custom_msg({"wanted": "nothing"}, [])
    assert sent == []
    view._handle_custom_msg({"wanted": "layer"}, [])
    assert sent == [({"layer": view.layer}, [packed_mini])]
