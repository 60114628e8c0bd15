"""The views as notebooks and pages take them: one module each, state in traits, and a place in the
page that no state can break out of.
"""

import base64
import json
import re
from collections import Counter
from html.parser import HTMLParser

import ipywidgets
import pytest
import traitlets
from viewing import needs_chromium, served

import ctxlib as cx
from ctxlib.widgets import views
from ctxlib.widgets.views import HERE, LayerView, View, Whole, bundled, head_count, linked

MODULES = sorted(HERE.rglob("*.js"))
VIEWS = sorted(f.stem for f in HERE.glob("views/*.js") if f.stem != "skeleton")
HOSTILE = "</div></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u2028\0"


def test_every_view_has_a_module_and_a_class():
    classes = {c.module for c in subclasses(View) if hasattr(c, "module")}
    assert classes - {"skeleton"} == set(VIEWS)


def subclasses(kind):
    return {kind} | {deeper for one in kind.__subclasses__() for deeper in subclasses(one)}


@pytest.mark.parametrize("name", VIEWS)
def test_a_bundle_imports_nothing_and_keeps_its_modules_apart(name):
    """Modules become one file in a notebook, each in a function of its own."""
    bundle = bundled(f"views/{name}.js")
    assert not re.search(r"^\s*(import\b|export (?!default))", bundle, re.MULTILINE)
    assert bundle.count("export default") == 1
    apart = re.findall(r"^const (\w+) = \(\(\) => \{$", bundle, re.MULTILINE)
    assert re.findall(r"^const (\w+) ", bundle, re.MULTILINE).count(apart[-1]) == 1
    assert len(apart) == len(set(apart)) == len(linked(f"views/{name}.js"))


def test_modules_of_a_bundle_may_use_one_name_twice(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(views, "HERE", tmp_path)
    for folder in ("engine", "views"):
        (tmp_path / folder).mkdir()
    (tmp_path / "engine" / "two.js").write_text(
        "const hidden = 2;\nexport const two = hidden;\nexport async function* none() {}\n"
    )
    (tmp_path / "engine" / "four.js").write_text(
        'import { two } from "./two.js";\n\nconst hidden = 2;\n'
        "export function four() {\n  return hidden * two;\n}\n"
    )
    (tmp_path / "views" / "six.js").write_text(
        'import { four } from "../engine/four.js";\nimport {\n  none,\n  two,\n} from '
        '"../engine/two.js";\n\nconst hidden = four();\n'
        "export default { six: hidden + two, none };\n"
    )
    page = browser.new_page()
    run = """async (source) => {
        const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        const { six, none } = (await import(url)).default;
        return [six, typeof none().next];
    }"""
    assert page.evaluate(run, bundled("views/six.js")) == [6, "function"]
    page.close()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_no_module_makes_markup_of_a_text(module):
    source = module.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", source)
    assert "https://" not in source


class Place(HTMLParser):
    """The tags of a piece of a page, and the attributes of the first."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.first = [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.first = self.first or dict(attributes)


def test_a_state_cannot_break_out_of_its_place_in_the_page(mini_view):
    view = mini_view("LiveReader", text=HOSTILE)
    place = Place(view._repr_mimebundle_()[0]["text/html"])
    assert place.tags == ["div"]
    assert place.first["data-view"] == "reader"
    assert json.loads(place.first["data-state"])["text"] == HOSTILE


def test_a_notebook_gets_the_widget_and_a_page_its_stand_in(mini_view):
    picture = cx.plots.Picture("<svg></svg>", "two lines", "<b>Figure.</b> Two lines")
    view = mini_view("Rows", picture=picture, head=3)
    bundle, _ = view._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert "<svg></svg>" in bundle["text/html"]
    assert bundle["text/plain"] == "two lines"
    assert json.loads(Place(bundle["text/html"]).first["data-state"])["head"] == 3


def test_traits_can_be_set_observed_and_refuse_what_does_not_exist(mini_view):
    view = mini_view("Rows")
    seen = []
    view.observe(lambda change: seen.append(change["new"]), names="head")
    view.head = 5
    with pytest.raises(traitlets.TraitError, match="head 8: there are 0 to 7"):
        view.head = 8
    assert view.head == 5
    assert seen == [5]


# ---------------------------------------------------------------- as anywidget runs them

# A host of the plain anywidget protocol: a model has these six functions and nothing else, and an
# event is one name. Every view gets a bundle of its own, as in a notebook.
HOST = """async ([source, state, data]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = await import(url);
  const bytes = data && Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const values = { ...state };
  const listeners = new Map();
  const heard = (name) => {
    if (!/^(change(:\\w+)?|msg:custom)$/.test(name)) throw new Error(`no event: ${name}`);
    if (!listeners.has(name)) listeners.set(name, new Set());
    return listeners.get(name);
  };
  const model = {
    get: (name) => values[name],
    set(name, value) {
      if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
      values[name] = value;
      for (const event of [`change:${name}`, "change"]) for (const run of heard(event)) run();
    },
    save_changes() {},
    on: (name, run) => void heard(name).add(run),
    off: (name, run) => void heard(name).delete(run),
    async send(said) {
      window.asked = (window.asked ?? 0) + 1;
      await null; // an answer is never there at once
      const [answer, buffers] = [{ layer: values.layer }, [new DataView(bytes.buffer)]];
      if (said.wanted === "layer") for (const run of heard("msg:custom")) run(answer, buffers);
    },
  };
  const el = document.createElement("div");
  el.className = "ctx-view";
  document.body.append(el);
  const end = await module.default.render({ model, el });
  window.hosted = [...(window.hosted ?? []), { model, el, end, listeners }];
}"""
LISTENING = "hosted.map(({ listeners }) => [...listeners.values()].reduce((n, s) => n + s.size, 0))"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    (folder / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><title>host</title>"
    )
    with served(folder) as address:
        yield address


@pytest.fixture
def hosting(browser, address):
    """A function that shows views in one document, as a notebook does, and gives the page."""
    page = browser.new_page()
    said = []
    page.on("console", lambda m: m.type == "error" and said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.goto(address)

    def show(*views):
        for view in views:
            data = base64.b64encode(view.prepared.data).decode()
            page.evaluate(HOST, [view._esm, view.state() | {"layer": view.layer}, data])
        return page

    yield show
    page.close()
    assert said == []


@needs_chromium
@pytest.mark.parametrize(
    ("name", "ready", "turned", "then"),  # all of it is there; a trait is set; what it comes to
    [
        ("Rows", ".ctx-readable", {"n": 100}, ".ctx-readable[aria-valuemax='100']"),
        ("Kernels", ".ctx-readable", {"n": 100}, ".ctx-readable[aria-valuemax='100']"),
        (
            "NeuronExplorer",
            ".ctx-neurons:not([aria-busy]) .ctx-neurons-domains svg",
            {"neuron": 77},
            ".ctx-neurons-one h3:text-is('Neuron 77')",
        ),
        (
            "LiveReader",
            ".ctx-view:not([data-working]) .ctx-reader-about .ctx-word",
            {"neuron": 77},
            ".ctx-reader svg[aria-label*='neuron 77']",
        ),
    ],
)
def test_a_view_runs_in_any_host_of_the_protocol(hosting, mini_view, name, ready, turned, then):
    page = hosting(mini_view(name))
    page.wait_for_selector(ready)
    assert page.locator(".ctx-view :is(input, select, textarea)").count() > 0
    assert page.evaluate(LISTENING)[0] > 0
    for trait, value in turned.items():
        page.evaluate("([name, value]) => hosted[0].model.set(name, value)", [trait, value])
    page.wait_for_selector(then)
    page.evaluate("hosted[0].end()")
    assert page.evaluate(LISTENING) == [0]


@needs_chromium
def test_a_notebook_asks_for_a_layer_once(hosting, mini_view):
    page = hosting(mini_view("Rows"), mini_view("Kernels"), mini_view("Rows"))
    page.wait_for_function("document.querySelectorAll('.ctx-readable').length === 3")
    assert page.evaluate("asked") == 1


def test_weights_are_packed_once_and_their_passages_read_once(make_folder, monkeypatch):
    weights = cx.LayerWeights.of(cx.load(make_folder(n_head=2, seed=5)))
    counts = Counter()

    def counted(name):
        real = getattr(views, name)

        def run(*arguments):
            counts[name] += 1
            return b"packed" if name == "packed_layer" else real(*arguments)

        return run

    for name in ("packed_layer", "passages"):
        monkeypatch.setattr(views, name, counted(name))
    shown = [cx.widgets.Rows(weights), cx.widgets.NeuronExplorer(weights)]
    for view in shown:
        view.passage = 3
        view.passage = 4
    assert counts == {"packed_layer": 1, "passages": 1}
    assert all(len(json.dumps(view.get_state(), default=str)) < 200_000 for view in shown)


def test_python_answers_a_notebook_with_the_layer(mini_view, packed_mini, monkeypatch):
    view, sent = mini_view("Rows"), []
    monkeypatch.setattr(view, "send", lambda content, buffers: sent.append((content, buffers)))
    view._handle_custom_msg({"wanted": "nothing"}, [])
    assert sent == []
    view._handle_custom_msg({"wanted": "layer"}, [])
    assert sent == [({"layer": view.layer}, [packed_mini])]


@needs_chromium
def test_two_widgets_of_a_kind_leave_each_other_alone(hosting, mini_view):
    page = hosting(mini_view("Rows", head=1), mini_view("Rows", head=2))
    page.wait_for_function("document.querySelectorAll('.ctx-readable').length === 2")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(set(ids)) == len(ids)
    page.locator(".ctx-view").last.locator("input[value='5']").check()
    page.wait_for_function("hosted[1].model.get('head') === 5")
    checked = "document.querySelectorAll('.ctx-view')[0].querySelectorAll('input:checked')"
    assert page.evaluate(f"[...{checked}].map(({{ value }}) => value)") == ["1", "linear"]


# ---------------------------------------------------------------- the view that is copied


class Skeleton(LayerView):
    """As CONTRIBUTING.md has it."""

    module = "skeleton"
    _esm = bundled("views/skeleton.js")
    head = Whole(0, head_count, "head").tag(sync=True, turned=True)


def test_the_skeleton_is_a_view(hosting, mini_weights):
    page = hosting(Skeleton(mini_weights, head=3))
    page.wait_for_selector(".ctx-readable")
    assert page.locator("input:checked").get_attribute("value") == "3"
    page.focus(".ctx-readable")
    page.keyboard.press("End")
    assert page.locator(".ctx-said").inner_text() == "within 256 tokens: 100.0%"
    page.evaluate("hosted[0].model.set('head', 4)")
    page.wait_for_selector("svg[aria-label*='head 4']")
    page.evaluate("hosted[0].end()")
    assert page.evaluate(LISTENING) == [0]


def test_a_saved_notebook_without_a_kernel_says_what_to_do(mini_view, browser, address):
    page = browser.new_page()
    page.clock.install()
    page.goto(address)
    view = mini_view("Rows")
    silent = HOST.replace('if (said.wanted === "layer")', "if (false)")
    silent = silent.replace("const end = await module", "const end = module")
    data = base64.b64encode(b"none").decode()
    page.evaluate(silent, [view._esm, view.state() | {"layer": "of no kernel"}, data])
    waiting = page.locator(".ctx-waiting")
    page.clock.run_for(9_000)
    assert "run the cell again" not in waiting.inner_text()
    page.clock.run_for(2_000)
    assert "They come from Python: if they do not, run the cell again." in waiting.inner_text()
    page.close()


def test_views_compose_with_ipywidgets(mini_view):
    slider, view = ipywidgets.IntSlider(min=0, max=7), mini_view("Rows", head=2)
    box = ipywidgets.VBox([slider, view])
    link = traitlets.link((slider, "value"), (view, "head"))
    assert view.head == 0  # as the slider says
    seen = []
    view.observe(lambda change: seen.append(change.new), "head")
    slider.value = 5
    assert (view.head, seen) == (5, [5])
    view.set_state({"head": 6})  # as a page tells it
    assert slider.value == 6
    link.unlink()
    slider.value = 1
    assert view.head == 6
    assert box.children == (slider, view)
    assert "jupyter.widget-view" in "".join(box._repr_mimebundle_())
