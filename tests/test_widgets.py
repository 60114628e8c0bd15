"""The views as notebooks and pages take them: one module each, state in traits, and a place in the
page that no state can break out of.
"""

import base64
import json
import re
from html.parser import HTMLParser

import pytest
import traitlets
from viewing import needs_chromium, served

import ctxlib as cx
from ctxlib.widgets.views import HERE, View, bundled

MODULES = sorted(f.stem for f in HERE.glob("*.js"))
VIEWS = [name for name in MODULES if "export default" in (HERE / f"{name}.js").read_text()]
HOSTILE = "</div></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;\u2028\0"


def declared(source):
    """The names that a module declares outside any block."""
    pattern = r"^(?:export )?(?:async )?(?:function\*?|class|const|let) (\w+|[\[{][^=]*[\]}])"
    found = re.findall(pattern, source, re.MULTILINE)
    return [name for names in found for name in re.findall(r"\w+", names)]


def test_every_view_has_a_module_and_a_class():
    classes = {c.module for c in subclasses(View) if hasattr(c, "module")}
    assert classes == set(VIEWS)


def subclasses(kind):
    return {kind} | {deeper for one in kind.__subclasses__() for deeper in subclasses(one)}


@pytest.mark.parametrize("name", VIEWS)
def test_a_bundle_imports_nothing_and_declares_no_name_twice(name):
    """Modules become one file in a notebook, where a name in two of them would be an error."""
    bundle = bundled(f"{name}.js")
    assert not re.search(r"^\s*(import\b|export (?!default))", bundle, re.MULTILINE)
    assert bundle.count("export default") == 1
    words = declared(bundle)
    assert [word for word in set(words) if words.count(word) > 1] == []


@pytest.mark.parametrize("name", MODULES)
def test_no_module_makes_markup_of_a_text(name):
    source = (HERE / f"{name}.js").read_text()
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

HOST = """async ([source, state, data]) => {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const module = await import(url);
  const listeners = [];
  const bytes = data && Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  window.state = { ...state, data: bytes && new DataView(bytes.buffer) };
  window.saved = [];
  window.model = {
    get: (name) => window.state[name],
    set(name, value) {
      if (JSON.stringify(window.state[name]) === JSON.stringify(value)) return;
      window.state[name] = value;
      for (const [names, run] of listeners)
        if (names.split(" ").some((n) => n === `change:${name}` || n === "change")) run();
    },
    save_changes: () => window.saved.push({ ...window.state, data: null }),
    on: (names, run) => listeners.push([names, run]),
    off: () => {},
  };
  const el = document.createElement("div");
  el.className = "ctx-view";
  document.body.replaceChildren(el);
  await module.default.render({ model: window.model, el });
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    (folder / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><title>host</title>"
    )
    with served(folder) as address:
        yield address


@needs_chromium
@pytest.mark.parametrize(
    ("name", "ready"),  # what the view shows when all of it is there
    [
        ("Rows", ".ctx-readable"),
        ("Kernels", ".ctx-readable"),
        ("NeuronExplorer", ".ctx-neurons:not([aria-busy]) .ctx-neurons-domains svg"),
        ("LiveReader", ".ctx-view:not([data-working]) .ctx-reader-about .ctx-word"),
    ],
)
def test_a_view_of_the_layer_runs_in_a_notebook(browser, address, mini_view, name, ready):
    view = mini_view(name)
    page = browser.new_page()
    said = []
    page.on("console", lambda m: m.type == "error" and said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.goto(address)
    data = base64.b64encode(view.data).decode()
    page.evaluate(HOST, [view._esm, view.state(), data])
    page.wait_for_selector(ready)
    assert page.locator(".ctx-view :is(input, select, textarea)").count() > 0
    page.close()
    assert said == []
