"""What the examples in docstrings take as given: the names that the reference page states."""

import json
import re
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem

PAGE = Path(__file__).parent / "book" / "api.md"


@pytest.fixture(scope="session")
def stated():
    """What the first block of code on the page makes."""
    (code, *_) = re.findall(r"(?s)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M)
    names = {}
    exec(code, names)
    return names


def answer_in(folder):
    """Keep what a chat model answers in the examples, so that none is asked."""
    from ctxlib.chat import ChatExplainer

    folder.mkdir()
    explainer = ChatExplainer("a-model", cache=folder)
    sentence = 'The prompt ends in "was".'
    request = explainer.to_explain(["It was", "He was"], ["It is", "He is"])
    explainer.keep_answer(request, json.dumps({"explanation": sentence}))
    ((request, prompts),) = explainer.to_classify(sentence, ["She was", "She is"])
    verdicts = {str(i): p.endswith("was") for i, p in enumerate(prompts, start=1)}
    explainer.keep_answer(request, json.dumps(verdicts))


@pytest.fixture(autouse=True)
def examples(request):
    """Gives each docstring those names, in a folder of its own."""
    if not isinstance(request.node, DoctestItem):
        return
    patch = request.getfixturevalue("monkeypatch")
    for name in ("CTX_TEXTS", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        patch.delenv(name, raising=False)
    patch.chdir(request.getfixturevalue("tmp_path"))
    answer_in(Path("answers"))
    request.getfixturevalue("doctest_namespace").update(request.getfixturevalue("stated"))
