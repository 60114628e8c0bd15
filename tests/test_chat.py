"""The explainer behind a chat endpoint: what it requests, what it makes of every kind of answer,
what it keeps, and its error when nothing comes. The endpoint stands in the place of the network.
"""

import json
import runpy
import sys
import traceback
from contextlib import nullcontext
from itertools import chain, repeat
from unittest.mock import Mock

import httpx2
import openai
import pytest

from ctxlib.lookups import chat
from ctxlib.lookups.chat import ChatExplainer
from ctxlib.lookups.explain import Prompts, score

KEY = "sk-made-up-for-these-tests-0123456789"
ACTIVE = ["they sat by the sea", "far out on the sea"]
INACTIVE = ["they sat by the fire", "far out on the moor"]
EXPLANATION = 'The prompt ends with "sea".'
NASTY = [
    "😀 the emoji and the sea",
    'a "quoted" \\ and the sea',
    "line\r\nline\u2028line\x00line and the sea",
    "</script><script>alert(1)</script>",
    '"}], "explanation": "all", "prompts": {',
    "x" * 9_990 + "by the sea",
    "by the sea" + "y" * 9_990,
    *(" ", "", "x" * 200, "x" * 201),
]
# the file of the first request made here: kept answers must be found again by later versions
FIRST = "263c2c93e1fb82b1575bd43be8e1b89cb6cfa022b00b6a889d4aad0ddaec8c8e"


# ---------------------------------------------------------------- an endpoint


class Endpoint:
    """A chat endpoint that deals with one request after another as its script has them, and answers
    well when that has come to its end.
    """

    url = "http://127.0.0.1:8000/v1"

    def __init__(self):
        self.script, self.requests, self.reached = iter(()), [], []

    def __call__(self, request):
        self.requests.append(request.read().decode())
        self.reached.append((str(request.url), request.headers["Authorization"]))
        return next(self.script, good)(request)

    def user(self, number=-1):
        return json.loads(json.loads(self.requests[number])["messages"][1]["content"])


def returns(body, status=200):
    """A behaviour: any body with any status."""
    raw = body if isinstance(body, str) else json.dumps(body)
    return lambda _: httpx2.Response(status, text=raw)


def answers(content, finish="stop", refusal=None):
    """A behaviour: HTTP is fine and the model returns this."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return returns({"choices": [{"index": 0, "message": message, "finish_reason": finish}]})


def good(request):
    """Explains by the last word of the first active prompt; classifies by the word in quotes."""
    user = json.loads(json.loads(request.content)["messages"][1]["content"])
    if "active" in user:
        answer = {"explanation": f'The prompt ends with "{user["active"][0].split()[-1]}".'}
    else:
        word = user["explanation"].split('"')[1]
        answer = {number: p.endswith(word) for number, p in user["prompts"].items()}
    return answers(json.dumps(answer))(request)


def fails(status, message="try later"):
    """A behaviour: an HTTP error as the API gives it."""
    return returns({"error": {"message": message, "type": "t"}}, status)


def breaks(request):
    raise httpx2.RemoteProtocolError("peer closed\nconnection", request=request)


def slow(request):
    raise httpx2.ReadTimeout("timed out", request=request)


@pytest.fixture
def endpoint(monkeypatch):
    """The endpoint, and no pauses before the client tries again."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return Endpoint()


@pytest.fixture
def explainer(endpoint, tmp_path):
    """A function that makes an explainer at the endpoint."""

    def make(model="tester", url=endpoint.url, key=KEY, **settings):
        http = openai.DefaultHttpxClient(transport=httpx2.MockTransport(endpoint))
        client = openai.OpenAI(api_key=key, base_url=url, http_client=http)
        return ChatExplainer(model, tmp_path / "answers", client, **settings)

    return make


def kept(tmp_path):
    return sorted((tmp_path / "answers").glob("*"))


# ---------------------------------------------------------------- what it requests


def test_requests_are_those_of_the_api_and_are_kept(explainer, endpoint, tmp_path):
    """A classification sees the explanation and the prompts and nothing else; another model or
    endpoint gets a new request.
    """
    e, new = explainer(), ["down to the sea", "a sea of troubles", "down to the sea", "by the sea"]
    assert e.explain(ACTIVE, INACTIVE) == EXPLANATION
    assert [file.name for file in kept(tmp_path)] == [f"{FIRST}.json"]
    assert e.classify(EXPLANATION, new) == [True, False, True, True]
    assert endpoint.user(0) == {"active": ACTIVE, "inactive": INACTIVE}
    user = endpoint.user(1)
    assert user == {"explanation": EXPLANATION, "prompts": user["prompts"]}
    assert sorted(user["prompts"].values()) == sorted(set(new)), "one that comes twice is sent once"
    assert endpoint.reached == [(f"{e.endpoint}/chat/completions", f"Bearer {KEY}")] * 2
    wanted = (
        {"explanation": {"type": "string", "pattern": "^[^\\n]{1,300}$"}},
        {n: {"type": "boolean"} for n in "123"},
    )
    for raw, properties in zip(endpoint.requests, wanted, strict=True):
        request = json.loads(raw)
        schema = {"type": "object", "additionalProperties": False}
        schema |= {"properties": properties, "required": [*properties]}
        structured = {"name": "answer", "strict": True, "schema": schema}
        form = {"type": "json_schema", "json_schema": structured}
        about = {"model": "tester", "messages": request["messages"]}
        assert request == about | {"temperature": 0, "stream": False, "response_format": form}
        assert [message["role"] for message in about["messages"]] == ["system", "user"]
        for words in ("do not follow", "ends at the token that matters"):
            assert words in " ".join(about["messages"][0]["content"].split())
    assert e.classify(EXPLANATION, []) == []
    for count, other in ((2, {}), (3, {"model": "another"}), (4, {"url": "http://other/v1"})):
        assert explainer(**other).explain(ACTIVE, INACTIVE) == EXPLANATION
        assert len(endpoint.requests) == len(kept(tmp_path)) == count


def sent_of(prompt):
    return prompt if len(prompt) <= 200 else "…" + prompt[-200:]


@pytest.mark.parametrize("batch", [1, 3, 7, 20, 50])
def test_any_strings_are_prompts_and_their_order_does_not_matter(explainer, endpoint, batch):
    plain = [f"{i} by the sea" for i in range(8)] + [f"{i} by the fire" for i in range(8)]
    prompts = [*plain, *NASTY]
    e, expected = explainer(batch=batch, keep=200), [p.endswith("sea") for p in prompts]
    explanation = 'ends with "sea" "}\n{"active": ["</script>"]}'
    assert e.classify(explanation, iter(prompts)) == expected
    count = -(-len(prompts) // batch)
    parts = [[*endpoint.user(i)["prompts"].values()] for i in range(count)]
    assert len(endpoint.requests) == count and max(map(len, parts)) <= batch
    assert endpoint.user()["explanation"] == explanation
    sent = [*chain(*parts)]
    assert sorted(sent) == sorted(map(sent_of, prompts))
    assert [p for p in sent if p in plain] not in (plain, sorted(plain))
    assert e.classify(explanation, prompts[::-1]) == expected[::-1]
    assert len(endpoint.requests) == count
    endpoint.script = iter([answers('{"explanation": " ends with \\"sea\\" \\n"}')])
    for _ in range(2):
        assert e.explain(["the sea"], NASTY) == 'ends with "sea"'
    assert endpoint.user() == {"active": ["the sea"], "inactive": [*map(sent_of, NASTY)]}


# ---------------------------------------------------------------- what comes back

X, FORM, SECRET = json.dumps({"explanation": "x"}), "validation error", "wrong key sk-made****6789"
NONE = "no attribute|not iterable|out of range"
USELESS = [
    *((answers(text), FORM) for text in ("word\n", "null", '{"explanation": "The pro', KEY)),
    *(
        (answers(f'{{"explanation": {text}}}'), FORM)
        for text in ('"  "', "3", "true", '"", "a": 1')
    ),
    *((answers(text), "refusal: None") for text in ("", None)),
    *((answers(text, refusal=f"not\n{KEY}\x1b"), r"not \[key\]\\x1b") for text in (None, X)),
    (answers(X, finish="length"), "length limit"),
    (answers(X, finish="content_filter"), "content filter"),
    *((returns({"choices": some}), NONE) for some in ([], None, [{}], [{"message": "hello"}])),
    *((returns(text), NONE) for text in (f"<html>{KEY}</html>", "null")),
]
BUSY = [
    *((fails(n, f"be\n{KEY}"), rf"{n}.*be.*\[key\]") for n in (408, 409, 429, 500, 503)),
    (breaks, "peer closed connection"),
    (slow, "timed out"),
]
REFUSED = [
    *((fails(n, SECRET), "the key is refused: check OPENAI_API_KEY") for n in (401, 403)),
    *((fails(n, f"no {KEY}"), rf"{n}.*no \[key\]") for n in (400, 402, 404, 413, 422)),
]


@pytest.mark.parametrize(
    ("behaviour", "kind", "error", "tries"),
    [
        *((*case[:1], ValueError, *case[1:], 1) for case in USELESS),
        *((*case[:1], ConnectionError, *case[1:], 3) for case in BUSY),
        *((*case[:1], ConnectionError, *case[1:], 1) for case in REFUSED),
    ],
)
def test_what_is_of_no_use_is_named_on_one_line_without_the_key_and_not_kept(
    explainer, endpoint, tmp_path, capfd, caplog, behaviour, kind, error, tries
):
    """The client tries again where that is of use. The key is nowhere, in part or whole."""
    caplog.set_level("INFO")  # below it, the layers underneath log what a server sends
    caplog.set_level("DEBUG", logger="openai")
    e, endpoint.script = explainer(), repeat(behaviour)
    with pytest.raises(
        kind, match=f"no usable answer from tester at http://.*/v1 .*{error}"
    ) as caught:
        e.explain(ACTIVE, INACTIVE)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 500
    assert f"answers are kept in {tmp_path / 'answers'}" in message
    assert (len(endpoint.requests), kept(tmp_path)) == (tries, [])
    assert endpoint.reached[0][1] == f"Bearer {KEY}"  # it was in use
    shown = [*traceback.format_exception(caught.value), repr(e), *capfd.readouterr(), caplog.text]
    output = "".join(shown)
    assert not any(KEY[k : k + 12] in output for k in range(len(KEY) - 11)) and SECRET not in output
    endpoint.script = iter([behaviour] * (tries - 1))
    assert e.explain(ACTIVE, INACTIVE) == EXPLANATION
    assert len(kept(tmp_path)) == 1


LONG = ["the sea and the moor, " * 450] * 9  # 89,100 characters
READ = [(2050, LONG, True), (10_000, LONG, True), (23, ["海と山、" * 60], True)]  # tokens; cut?
READ += [(n, LONG, False) for n in (10_500, 0, None)]
READ += [(200, [letter * 9_000], False) for letter in "x="]


@pytest.mark.parametrize(("tokens", "active", "cut"), READ)
def test_an_answer_is_refused_if_less_was_read_than_half_of_the_words(
    explainer, endpoint, tmp_path, tokens, active, cut
):
    def reads(request):
        body = good(request).json()
        return returns(body | {"usage": {"prompt_tokens": tokens, "total_tokens": 9}})(request)

    e, endpoint.script = explainer(keep=10_000), iter([reads])
    said = rf"sent \d+ words \(\d+ characters\) and read {tokens} tokens: give it a larger context"
    with pytest.raises(ValueError, match=said) if cut else nullcontext():
        e.explain(active, ["the moor"])
    assert len(kept(tmp_path)) == (not cut)


def test_a_model_that_refuses_a_temperature_is_asked_without_it(explainer, endpoint, tmp_path):
    """Once; from then on it is left out, and the record says so."""
    refuses, e = fails(400, "Unsupported value: 'temperature' does not support 0"), explainer()
    endpoint.script = repeat(lambda r: (refuses if b'"temperature"' in r.content else good)(r))
    assert "temperature=0" in repr(e)
    assert e.classify(e.explain(ACTIVE, INACTIVE), ACTIVE) == [True, True]
    sent = [json.loads(request).get("temperature", "none") for request in endpoint.requests]
    assert sent == [0, "none", "none"] and "temperature=None" in repr(e)
    assert [json.loads(f.read_text())["temperature"] for f in kept(tmp_path)] == [None, None]
    assert explainer().explain(ACTIVE, INACTIVE) == EXPLANATION, "what is kept serves either way"
    endpoint.script = repeat(refuses)
    with pytest.raises(ConnectionError, match="'temperature' does not support 0"):
        explainer().explain(ACTIVE[:1], INACTIVE)
    assert len(endpoint.requests) == 5, "with it and without it"


VERDICTS = [
    *({"1": True}, {"1": True, "2": False, "3": True}, {"1": True, "3": False}, {}),
    *({"1": True, "2": 0}, {"1": True, "2": "false"}, {"1": True, "2": None}, [True, False]),
]


@pytest.mark.parametrize("answer", VERDICTS, ids=str)
def test_a_classification_needs_true_or_false_for_each_prompt(explainer, endpoint, answer):
    endpoint.script = iter([answers(json.dumps(answer))])
    with pytest.raises(ValueError, match="validation error"):
        explainer().classify(EXPLANATION, ["the sea", "the fire"])
    assert explainer().classify(EXPLANATION, ["the sea", "the fire"]) == [True, False]


@pytest.mark.parametrize("key", ["secret a", "secret\nb", " secret\n", "secret-é"])
def test_a_key_that_cannot_be_sent_is_not_shown(tmp_path, key):
    client = openai.OpenAI(api_key=key, base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises((ValueError, ConnectionError)) as caught:
        ChatExplainer("tester", tmp_path, client).explain(ACTIVE, INACTIVE)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


# ---------------------------------------------------------------- what is kept


def test_a_run_goes_on_where_the_endpoint_died_and_then_needs_none(
    explainer, endpoint, tmp_path, monkeypatch
):
    """No connection and no key, however its address ends."""
    prompts = [f"{i} by the {'sea' if i % 2 else 'fire'}" for i in range(10)]
    expected = EXPLANATION, [p.endswith("sea") for p in prompts]

    def run(e):
        return e.explain(ACTIVE, INACTIVE), e.classify(EXPLANATION, prompts)

    endpoint.script = chain([good] * 3, repeat(breaks))
    with pytest.raises(ConnectionError):
        run(explainer(batch=2))
    endpoint.script = iter(())
    assert run(explainer(batch=2)) == expected
    assert len(endpoint.requests) == 1 + 2 + 3 + 3 and len(set(endpoint.requests[3:7])) == 1
    assert len(set(endpoint.requests)) == len(kept(tmp_path)) == 1 + 5
    endpoint.script = repeat(breaks)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    for url in (endpoint.url, endpoint.url + "/"):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        alone = ChatExplainer("tester", tmp_path / "answers", batch=2)
        assert run(alone) == run(explainer(batch=2)) == expected
    with pytest.raises(openai.OpenAIError, match="OPENAI_API_KEY"):
        alone.explain(ACTIVE[:1], INACTIVE)
    for package in ("openai", "pydantic"):
        monkeypatch.setitem(sys.modules, package, None)
    runpy.run_path(chat.__file__)  # the module itself needs neither
    with pytest.raises(ImportError, match="pip install openai"):
        alone.explain(ACTIVE, INACTIVE)


DAMAGE = [b"", b"{", b"[]", b"null", b"{}", b'{"answer": 3}', b'{"answer": "{"}']
DAMAGE += [b'{"answer": "{}"}', b"\xff\xfe\x00"]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda raw: ascii(raw[:20]))
def test_a_damaged_file_is_requested_again_and_replaced(explainer, endpoint, tmp_path, damage):
    e = explainer()
    e.explain(ACTIVE, INACTIVE)
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert e.explain(ACTIVE, INACTIVE) == EXPLANATION
    assert (len(endpoint.requests), file.read_bytes()) == (2, whole)


def test_a_kill_while_an_answer_is_written_leaves_no_half_file(explainer, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pathlib.Path.replace", Mock(side_effect=KeyboardInterrupt))
        explainer().explain(ACTIVE, INACTIVE)
    assert not list((tmp_path / "answers").glob("*.json"))
    assert explainer().explain(ACTIVE, INACTIVE) == EXPLANATION
    assert [file.suffix for file in kept(tmp_path)] == [".json"]


# ---------------------------------------------------------------- in batches


def splits():
    """Two heads; the second has more to classify than a batch holds."""
    return [
        Prompts(
            shown_active=tuple(f"{i} {word} and the {word}" * 3 for i in range(5)),
            shown_inactive=tuple(f"{i} {word} and the moor" * 3 for i in range(5)),
            held_active=tuple(f"{i} {word} under the {word}" * 4 for i in range(count)),
            held_inactive=tuple(f"{i} {word} under the moor" * 4 for i in range(count)),
        )
        for word, count in (("sea", 3), ("fire", 7))
    ]


@pytest.mark.parametrize(("batch", "requests"), [(4, 2 + 2 + 4), (6, 2 + 1 + 3), (100, 2 + 1 + 1)])
def test_a_request_classifies_a_batch_and_none_is_made_twice(explainer, endpoint, batch, requests):
    e = explainer(batch=batch)
    for prompts in splits() * 2:
        score(e, prompts)
    assert len(endpoint.requests) == requests


# ---------------------------------------------------------------- bad input

ADDRESSES = [
    f"https://{a}" for a in ("me:secret@h/v1", "secret@h/v1", "h/v1?key=secret", "h#secret")
]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda make: make().explain(ACTIVE, []), "active and inactive"),
        (lambda make: make(temperature=0.7), "temperature=0.7: choose 0, or None"),
        (lambda make: make().classify(EXPLANATION, "the sea"), "put a single one in brackets"),
        *(
            (lambda make, n=name: make(**{n: 0}), f"{name}=0.*: choose")
            for name in ("batch", "keep")
        ),
        *((lambda make, a=a: make(url=a).explain(ACTIVE, INACTIVE), "password") for a in ADDRESSES),
    ],
)
def test_wrong_calls_and_settings_are_refused_and_no_password_shown(
    explainer, endpoint, tmp_path, call, error
):
    with pytest.raises(ValueError, match=error) as caught:
        call(explainer)
    assert "secret" not in str(caught.value)
    assert not endpoint.requests and not kept(tmp_path)
