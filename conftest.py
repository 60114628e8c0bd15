"""What the examples in docstrings take as given, the names that the reference page states; and what
every one of them is held to as well: the shapes that annotations name.
"""

import inspect
import json
import re
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem
from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

ROOT = Path(__file__).parent
PAGE = ROOT / "book" / "api.md"
COMPUTE = {  # where, and in which modules
    "ctxlib": "weights decompose exact additive query store fix heads denominators circuit neurons "
    "evaluation adapter",
    "ctxlib.lookups": "causal attribution congruence",
}
checker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int will do for a float
checked = cache(partial(jaxtyped, typechecker=checker))


def pytest_configure(config):
    """What is deprecated, or will change, is an error where our own code calls it."""
    files = [*ROOT.glob("tools/*.py"), *ROOT.glob("benchmarks/*.py")]
    ours = "|".join(["ctxlib", "ctxviews", "ctxbook", *sorted(file.stem for file in files)])
    for kind in ("DeprecationWarning", "FutureWarning"):
        config.addinivalue_line("filterwarnings", rf"error::{kind}:({ours})\b")


@pytest.fixture
def annotations_checked(monkeypatch):
    """Lets every function that computes with tensors check the shapes that it names."""
    modules = []
    for place, parts in COMPUTE.items():
        package = import_module(place)
        for name in package.__all__:
            getattr(package, name)  # which is loaded with its first use, and then held
        modules += [package, *(import_module(f"{place}.{part}") for part in parts.split())]
    names = {module.__name__ for module in modules}

    def check(holder):
        for name, thing in [*vars(holder).items()]:
            if inspect.isfunction(thing) and thing.__module__ in names:
                monkeypatch.setattr(holder, name, checked(thing))
            elif isinstance(thing, cached_property):
                monkeypatch.setattr(thing, "func", checked(thing.func))
            elif inspect.isclass(thing) and thing.__module__ == vars(holder).get("__name__"):
                check(thing)

    for module in modules:
        check(module)


@pytest.fixture(scope="session")
def stated():
    """What the first block of code on the page makes."""
    (code, *_) = re.findall(r"(?s)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M)
    names = {}
    exec(code, names)
    return names


def answer_in(folder):
    """Keep what a chat model answers in the examples, so that none is asked."""
    from ctxlib.lookups.chat import ChatExplainer

    sentence = 'The prompt ends in "was".'

    class Answering(ChatExplainer):
        def send(self, messages, form):
            user = json.loads(messages[1]["content"])
            verdicts = {n: p.endswith("was") for n, p in user.get("prompts", {}).items()}
            return json.dumps(verdicts or {"explanation": sentence})

    explainer = Answering("a-model", cache=folder)
    explainer.explain(["It was", "He was"], ["It is", "He is"])
    explainer.classify(sentence, ["She was", "She is"])


@pytest.fixture(autouse=True)
def examples(request):
    """Gives each docstring those names, in a folder of its own."""
    if not isinstance(request.node, DoctestItem):
        return
    names = request.getfixturevalue("stated")
    request.getfixturevalue("annotations_checked")
    patch = request.getfixturevalue("monkeypatch")
    for name in ("CTX_TEXTS", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        patch.delenv(name, raising=False)
    patch.chdir(request.getfixturevalue("tmp_path"))
    answer_in(Path("answers"))
    request.getfixturevalue("doctest_namespace").update(names)
