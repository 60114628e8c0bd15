"""The view of look-ups: its record against ctxlib's terms, and what the page shows against both."""

import copy
import html
import json
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
import traitlets
from viewing import serious, served, view_page, watched

import ctxlib as cx
from ctxlib.widgets import LookUps, look_up_record, looked_up, record

HOSTILE = ["<img src=x onerror=hacked=1>", "</script><script>hacked=1</script>", "<b>", "\r\n", " "]
PLACES = [(1, 7), (0, 3)]  # the neurons of the record; the first has heads of two layers
COUNT = 3  # prompts of each


@pytest.fixture(scope="module")
def measured(tiny, tiny_tokens):
    """Terms and sources of two neurons of `tiny` at the end of three prompts."""
    prompts = [tiny_tokens[:length] for length in (4, 9, 20)]
    usual = [tiny_tokens[[0, *range(k, k + 5)]] for k in (3, 11, 17, 26)]

    def of(layer, neuron):
        terms = cx.decoders.attribution(tiny, layer, neuron, prompts)
        usually = cx.decoders.attribution(tiny, layer, neuron, usual)
        sources = torch.zeros(COUNT, layer + 1, tiny.cfg.n_heads, 20)
        e = tiny.blocks[layer].mlp.W_in[:, neuron]
        for p, ids in enumerate(prompts):
            _, cache = tiny.run_with_cache(ids[None])
            for k in range(layer + 1):
                for i in range(tiny.cfg.n_heads):
                    a = cache[f"blocks.{k}.attn.hook_pattern"][0, i, -1]
                    v = cache[f"blocks.{k}.attn.hook_v"][0, :, i]
                    part = a * (v @ tiny.blocks[k].attn.W_O[i] @ e) / terms.scale[p]
                    sources[p, k, i, : len(ids)] = part
        return terms, usually, sources

    return prompts, [of(*place) for place in PLACES]


@pytest.fixture(scope="module")
def made(tiny, measured):
    """The record of both neurons."""
    prompts, found = measured
    return look_up_record(
        tiny,
        [
            looked_up(
                tiny,
                f"{layer}.{neuron}",
                ["next-token neurons", "random neurons"][x],
                40 + x,
                prompts,
                *found[x],
                torch.tensor([0.5, 0.25, 1e-5]),
            )
            for x, (layer, neuron) in enumerate(PLACES)
        ],
        looks=[f"look {h}" for h in range(6)],
    )


# ---------------------------------------------------------------- the record


def added(terms):
    return sum(terms[part] for part in ("bias", "embedding", "mlps", "rest")) + sum(terms["heads"])


def test_the_terms_of_the_record_add_up_to_the_models_pre_activations(made, measured):
    for neuron, (terms, usually, _) in zip(made["neurons"], measured[1], strict=True):
        for prompt, pre in zip(neuron["prompts"], terms.pre_activation, strict=True):
            assert added(prompt) == pytest.approx(float(pre), abs=1e-3)
        assert added(neuron["usual"]) == pytest.approx(
            float(usually.pre_activation.mean()), abs=1e-3
        )


def test_the_sources_of_the_record_add_up_to_the_terms(made):
    for neuron in made["neurons"]:
        for prompt in neuron["prompts"]:
            length = len(prompt["tokens"])
            by_head = torch.tensor(prompt["sources"]).reshape(-1, length) / 1000
            torch.testing.assert_close(
                by_head.sum(1), torch.tensor(prompt["heads"]), atol=0.0005 * length + 1e-4, rtol=0
            )


def test_only_the_heads_that_move_most_are_told_apart(tiny, measured, monkeypatch):
    monkeypatch.setattr(record, "LISTED", 2)
    prompts, found = measured
    neuron = looked_up(tiny, "", "", 0, prompts, *found[0], torch.ones(3))
    terms, usually, _ = found[0]
    moved = (terms.heads.flatten(1) - usually.heads.flatten(1).mean(0)).abs().amax(0)
    assert neuron["heads"] == sorted(moved.argsort(descending=True)[:2].tolist())
    for prompt, pre in zip(neuron["prompts"], terms.pre_activation, strict=True):
        assert len(prompt["heads"]) == 2
        assert added(prompt) == pytest.approx(float(pre), abs=1e-3)


def test_the_table_is_the_models_activation_function(tiny, tiny_tokens, made):
    _, cache = tiny.run_with_cache(tiny_tokens[None])
    x, y = (cache[f"blocks.0.mlp.hook_{w}"].flatten().numpy() for w in ("pre", "post"))
    table = made["activation"]
    values = torch.tensor(table["values"]).double().numpy()
    grid = table["from"] + table["step"] * torch.arange(len(values)).numpy()
    assert abs(np.interp(x, grid, values) - y).max() < 1e-3


def test_the_record_is_plain_json(made):
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_as_many_prompts_as_were_attributed(tiny, measured):
    prompts, found = measured
    with pytest.raises(ValueError, match="4 prompts: give one at least, and no more"):
        looked_up(tiny, "", "", 0, [*prompts, prompts[0]], *found[0], torch.ones(4))


# ---------------------------------------------------------------- the traits


def test_traits_can_be_set_and_observed(made):
    view = LookUps(made, heads=[2, 4])
    seen = []
    view.observe(lambda change: seen.append(change.new), names=["neuron", "prompt", "heads"])
    view.heads = [0]
    view.prompt = 2
    view.neuron = 1
    assert seen == [[0], 2, 1]
    assert view.state() == {"neuron": 1, "prompt": 2, "heads": [0]}
    written = re.search(r'data-state="([^"]*)"', view.place())[1]
    assert json.loads(html.unescape(written)) == view.state() | {"record": made}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"neuron": 2}, "neuron 2: there are 0 to 1"),
        ({"prompt": -1}, "prompt -1: there are 0 to 2"),
        ({"heads": [1, 6]}, r"heads \[6\]: this neuron's record has"),
        ({"neuron": 1, "heads": [3]}, r"heads \[3\]: this neuron's record has \[0, 1, 2\]"),
    ],
)
def test_traits_that_do_not_exist_are_refused(made, state, message):
    with pytest.raises(traitlets.TraitError, match=message):
        LookUps(made, **state)


def test_a_record_without_neurons_is_refused():
    with pytest.raises(traitlets.TraitError, match="look_up_record"):
        LookUps({"neurons": []})


# ---------------------------------------------------------------- the page


def damaged(whole):
    """Records that are not sound, each in its own way."""
    changes = [
        lambda r: r["neurons"].clear(),
        lambda r: r["neurons"][1]["prompts"][2]["sources"].pop(),
        lambda r: r["neurons"][0]["usual"].pop("bias"),
        lambda r: r["neurons"][0]["prompts"][0].update(tokens=[1, 2, 3, 4]),
        lambda r: r["activation"].update(step=0),
        lambda r: r["neurons"][0]["heads"].insert(0, "0"),
    ]
    broken = [copy.deepcopy(whole) for _ in changes]
    for change, own in zip(changes, broken, strict=True):
        change(own)
    return [None, {}, *broken]


@pytest.fixture(scope="module")
def address(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("site")
    first = {"neuron": 0, "prompt": 0, "heads": []}
    view_page(folder, "lookups", first | {"record": made})
    hostile = copy.deepcopy(made)
    hostile["neurons"][0]["label"] = hostile["neurons"][0]["group"] = HOSTILE[0]
    hostile["neurons"][0]["token"] = HOSTILE[1]
    hostile["neurons"][0]["prompts"][1]["tokens"][: len(HOSTILE)] = HOSTILE
    hostile["looks"] = HOSTILE + HOSTILE
    hostile["activation"]["name"] = HOSTILE[2]
    view_page(folder, "lookups", first | {"record": hostile, "prompt": 1}, name="hostile")
    for i, broken in enumerate(damaged(made)):
        view_page(folder, "lookups", first | {"record": broken}, name=f"damaged{i}")
    many = copy.deepcopy(made)
    many["nHeads"], many["looks"] = 12, ["spread"] * 144
    for neuron in many["neurons"]:  # as a larger model's: 32 heads, scattered
        heads = list(range(0, 144, 5))
        neuron["heads"] = heads
        for terms in (neuron["usual"], *neuron["prompts"]):
            terms["heads"] = [0.01 * h for h in heads]
        for prompt in neuron["prompts"]:
            prompt["sources"] = [1] * len(heads) * len(prompt["tokens"])
    view_page(folder, "lookups", first | {"record": many}, name="many")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="module")
def window(browser):
    page = watched(browser.new_page())
    yield page
    page.close()


@pytest.fixture
def visit(window, address):
    """A function that opens a page of the folder anew and waits for its view."""
    window.set_viewport_size({"width": 900, "height": 900})

    def visit(name="index", state=""):
        window.goto("about:blank")
        window.goto(f"{address}/{name}.html{state}")
        window.wait_for_selector(".ctx-lookups-sum, .ctx-failed")
        return window

    yield visit
    assert (window.elsewhere, window.failed, window.said) == ([], [], [])


def number(text):
    return float(text.replace("\u2212", "-"))


def settle(page):
    """Let the next two pictures be drawn."""
    page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def account(page):
    """The rows of the first table: here, usually, rise."""
    rows = page.locator("table").nth(0).locator("tbody tr").all()
    cells = [
        (r.locator("th").inner_text(), r.locator(".ctx-number").all_inner_texts()) for r in rows
    ]
    return {name: [number(cell) for cell in texts] for name, texts in cells}


def ticked(page):
    boxes = page.locator("input[type=checkbox]:checked").all()
    return [int(box.get_attribute("value")) for box in boxes]


def hash_of(page):
    settle(page)
    return page.evaluate("location.hash")


@pytest.mark.parametrize("x, p, heads", [(0, 0, [4]), (0, 2, [0, 1, 5]), (1, 1, [0, 2])])
def test_the_account_is_ctxlibs(visit, measured, x, p, heads):
    page = visit(state=f"#neuron={x}&prompt={p}&heads={','.join(map(str, heads))}")
    terms, usually, _ = measured[1][x]
    all_heads, means = terms.heads[p].flatten(), usually.heads.mean(0).flatten()
    others = [h for h in range(len(means)) if h not in heads]
    name = ("heads " if len(heads) > 1 else "head ") + ", ".join(f"{h // 3}.{h % 3}" for h in heads)
    expected = {
        "bias": (terms.bias[p], usually.bias.mean()),
        "embedding": (terms.embedding[p], usually.embedding.mean()),
        "earlier MLPs": (terms.mlps[p].sum(), usually.mlps.sum(1).mean()),
        "all other heads": (all_heads[others].sum(), means[others].sum()),
        name: (all_heads[heads].sum(), means[heads].sum()),
        "pre-activation": (terms.pre_activation[p], usually.pre_activation.mean()),
    }
    shown = account(page)
    assert list(shown) == list(expected)
    for row, (here, usual) in expected.items():
        assert shown[row] == pytest.approx(
            [float(here), float(usual), float(here - usual)], abs=0.006
        )


def test_the_bars_of_the_account_follow_one_another(visit):
    page = visit(state="#prompt=2&heads=0,1")
    bars = page.locator("table").nth(0).locator(".ctx-lookups-bar").all()
    boxes = [bar.bounding_box() for bar in bars]
    ends = [(b["x"], b["x"] + b["width"]) for b in boxes]
    for before, after in pairwise(ends[:5]):
        assert min(abs(a - b) for a in before for b in after) < 1.5
    assert any(abs(a - b) < 1.5 for a in ends[4] for b in ends[5])


def test_without_the_chosen_heads(visit, measured):
    page = visit(state="#heads=1,4")
    terms, usually, _ = measured[1][0]
    gone = terms.heads[0].flatten()[[1, 4]].sum()
    rise = gone - usually.heads.mean(0).flatten()[[1, 4]].sum()
    pre = terms.pre_activation[0]
    values = torch.stack([pre, pre - rise, pre - gone])
    after = torch.nn.functional.gelu(values, approximate="tanh")
    table = page.locator("table").nth(1)
    shown = [number(cell) for cell in table.locator("tbody .ctx-number").all_inner_texts()]
    assert shown == pytest.approx(torch.stack([values, after], 1).flatten().tolist(), abs=0.006)
    assert "gelu_new" in table.inner_text()


@pytest.mark.parametrize("p", range(COUNT))
def test_the_head_with_the_largest_rise_is_chosen_and_leads_the_ranking(visit, measured, p):
    page = visit(state=f"#prompt={p}")
    terms, usually, _ = measured[1][0]
    rises = (terms.heads[p] - usually.heads.mean(0)).flatten()
    order = rises.argsort(descending=True).tolist()
    assert ticked(page) == order[:1]
    rows = page.locator("table").nth(2).locator("tbody tr").all()
    assert [r.locator("th").inner_text()[:3] for r in rows] == [f"{h // 3}.{h % 3}" for h in order]
    shown = [number(r.locator(".ctx-number").inner_text()) for r in rows]
    assert shown == pytest.approx(rises[order].tolist(), abs=0.006)
    assert rows[0].locator("td").last.inner_text() == f"look {order[0]}"


def test_every_token_tells_what_the_chosen_heads_bring_from_it(visit, measured, made):
    page = visit(state="#prompt=1&heads=2,5")
    sources = measured[1][0][2][1].flatten(0, 1)[[2, 5], :9].sum(0)
    tokens = made["neurons"][0]["prompts"][1]["tokens"]
    reader = page.get_by_label("Read a token")
    reader.focus()
    page.keyboard.press("Home")
    for u, value in enumerate(sources.tolist()):
        said = reader.get_attribute("aria-valuetext")
        name = tokens[u].replace(" ", "␣").replace("\n", "↵")
        assert said.startswith(f"“{name}”: ") or not name.isprintable()
        assert number(said.rpartition(" ")[2]) == pytest.approx(value, abs=0.007)
        assert page.locator(".ctx-at").get_attribute("data-place") == str(u)
        page.keyboard.press("ArrowRight")


def test_a_pointer_reads_tokens_too(visit):
    page = visit(state="#prompt=1")
    page.locator("[data-place='3']").hover()
    assert page.get_by_label("Read a token").input_value() == "3"


def test_keyboard_alone_turns_everything(visit):
    page = visit()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert hash_of(page) == "#neuron=1"
    page.keyboard.press("ArrowUp")
    assert hash_of(page) == ""
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert hash_of(page) == "#prompt=1"
    (first,) = ticked(page)
    page.keyboard.press("Tab")  # layer 0
    page.keyboard.press("Enter")
    assert hash_of(page) == "#prompt=1&heads=0,1,2"
    page.keyboard.press("Tab")  # head 0.0
    page.keyboard.press("Space")
    assert hash_of(page) == "#prompt=1&heads=1,2"
    assert ticked(page) == [1, 2]
    focused = page.evaluate("[document.activeElement.type, document.activeElement.value]")
    assert focused == ["checkbox", "0"]
    for _ in range(3 + 3):
        page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # "the largest rise"
    page.keyboard.press("Enter")
    assert hash_of(page) == "#prompt=1"
    assert ticked(page) == [first]
    page.keyboard.press("Tab")  # "all heads"
    page.keyboard.press("Enter")
    assert hash_of(page) == "#prompt=1&heads=0,1,2,3,4,5"
    assert account(page)["all other heads"][0] == 0
    page.keyboard.press("Tab")  # the reader of tokens
    page.keyboard.press("Home")
    assert page.locator(".ctx-at").get_attribute("data-place") == "0"


def test_the_last_head_taken_away_brings_back_the_largest_rise(visit):
    page = visit(state="#heads=3")
    page.locator("input[value='3']").focus()
    page.keyboard.press("Space")
    assert hash_of(page) == ""
    assert len(ticked(page)) == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        "#neuron=99&prompt=-1&heads=77",
        "#neuron=NaN&prompt=0.5&heads=0,x",
        "#record=5&heads=&neuron=%E0%A4%A",
        "#heads=1.5&prompt=1e9",
    ],
)
def test_nonsense_in_an_address_falls_back(visit, nonsense):
    plain = visit().locator("main").inner_text()
    page = visit(state=nonsense)
    assert page.locator("main").inner_text() == plain


def test_heads_that_a_neuron_does_not_have_fall_back(visit):
    page = visit(state="#neuron=1&heads=4")
    assert page.locator("select").first.input_value() == "1"
    assert ticked(page)[0] < 3


def test_an_address_that_is_followed_changes_the_view(visit):
    page = visit()
    page.evaluate("location.hash = 'neuron=1&prompt=2&heads=1,2'")
    page.wait_for_function("document.querySelectorAll('input[type=checkbox]').length === 3")
    assert ticked(page) == [1, 2]
    assert page.locator("select").nth(1).input_value() == "2"


def test_tokens_are_never_markup(visit):
    page = visit("hostile")
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator(".ctx-view img, .ctx-view script, .ctx-view b").count() == 0
    words = page.locator(".ctx-tokens").inner_text()
    assert HOSTILE[0] in words
    assert HOSTILE[1] in words
    assert HOSTILE[0] in page.locator("select").first.inner_text()


def test_a_damaged_record_is_one_line_and_the_picture_stays(visit, made):
    for i in range(len(damaged(made))):
        page = visit(f"damaged{i}")
        said = page.locator(".ctx-view").inner_text()
        assert said == "The record of this chapter’s look-ups is damaged. Reload the page."
        assert page.locator("#stand-in").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_a_reader_out(visit, scheme):
    page = visit()
    page.emulate_media(color_scheme=scheme)
    assert serious(page) == []


@pytest.mark.parametrize("name", ["index", "many"])
def test_a_phone_need_not_scroll_sideways(visit, name):
    page = visit(name)
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_role("button", name="all heads").click()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = page.evaluate(
        "[...document.querySelectorAll('.ctx-view *')].filter(e => e.textContent.trim())"
        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
