"""An explainer behind a chat endpoint (chapter 14): a language model that reads prompts on which a
head is active and prompts on which it is not, says in a sentence what tells them apart, and
classifies prompts it has not seen by that sentence alone.

Any endpoint that speaks OpenAI's chat completions with structured outputs will do, a server of your
own included. Every answer is kept on disk, so that none is paid for twice.

Answers are read by hand: the client's `parse` takes a class, where a question here has a property
for each prompt, and raises at an answer that is cut off, which here is shown and asked for again.
They are kept as files of JSON, each with its request, for a reader to look at, copy or delete; a
cache's database would be neither read nor moved a file at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxlib.checks import as_index
from ctxlib.texts.batching import batched

if TYPE_CHECKING:
    from ctxlib.lookups.explain import Prompts

OPENAI = "https://api.openai.com/v1"  #: where the openai package turns when nothing else is named
CUT = "…"  # in front of a prompt whose beginning was left out
CHARACTERS = 4  # to a token, a rule of thumb for English
ASSUMED = 200  # characters of an explanation that is not written yet, for the estimate
SHOWN = 200  # characters of what an endpoint said, in an error
# a small model may never end its sentence; endpoints that know patterns then end it
SENTENCE = {"type": "string", "pattern": "^[^\\n]{1,300}$"}
# an address with nothing in it that may be a password
PLAIN = re.compile(r"https?://([\w.-]+|\[[\da-f:.]+\])(:[1-9]\d{0,4})?(/[^?#\s]*)?", re.IGNORECASE)

#: What a model is told: `explain` to find a sentence, `classify` to judge prompts by one.
TASKS = tomllib.loads((Path(__file__).parent / "chat.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Estimate:
    """What is still to be asked: requests, tokens to read and to write, and their cost in the
    currency of the price, None without one.

    >>> print(cx.lookups.chat.Estimate(requests=24, tokens_in=31_210, tokens_out=1_180, cost=0.048))
    24 requests, about 31,000 tokens to read and 1,200 to write, at four characters a token: \
about 0.05 in the currency of the price
    """

    requests: int
    tokens_in: int
    tokens_out: int
    cost: float | None = None

    def __str__(self) -> str:
        if not self.requests:
            return "no requests: every answer is kept already"
        # two digits, as much as an estimate is good for
        read, written = (int(float(f"{n:.2g}")) for n in (self.tokens_in, self.tokens_out))
        requests = (
            f"{counted(self.requests, 'request')}, about {read:,} tokens to read and {written:,} "
            "to write, at four characters a token"
        )
        if self.cost is None:
            return requests
        about = "about" if self.cost >= 0.01 else "less than"
        return f"{requests}: {about} {max(self.cost, 0.01):,.2f} in the currency of the price"


@dataclass(frozen=True, eq=False)
class Request:
    """One question to a model: all that its answer depends on."""

    base_url: str
    model: str
    messages: list[dict[str, str]]
    schema: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """The file that keeps its answer: 64 hexadecimal digits stand for the request."""
        return f"{digest(json.dumps(asdict(self), sort_keys=True))}.json"

    @property
    def blank(self) -> dict[str, Any]:
        """An answer of the form asked for, as long as one can say; its sentence is made of the
        request's own name, so that no two requests seem to have the same.
        """
        kinds = {"string": (self.name * ASSUMED)[:ASSUMED], "boolean": False}
        return {name: kinds[of["type"]] for name, of in self.schema["properties"].items()}

    def read(self, answer: Any) -> dict[str, Any] | None:
        """What an answer says, a sentence or a verdict for each number; None where it is not of
        the form asked for.
        """
        said = parsed(answer)
        given, wanted = ({name: type(v) for name, v in of.items()} for of in (said, self.blank))
        return said if given == wanted and all(str(v).strip() for v in said.values()) else None


@dataclass(frozen=True)
class ChatExplainer:
    """An explainer behind an OpenAI-compatible chat endpoint.

    `model` is the model's name there. `cache` is a folder that keeps every answer, made when
    needed: the same request has the same answer from then on, without a connection or a key.
    `base_url` is the endpoint, by default what OPENAI_BASE_URL names, or else OpenAI's; its key is
    read from OPENAI_API_KEY and is kept nowhere else.

    An answer may take `timeout` seconds. A request that the endpoint refuses for now, breaks off
    or leaves unanswered is made `attempts` times in all, with growing pauses, or those that the
    endpoint asks for; so is one whose answer is of no use. A request classifies `batch` prompts,
    and of each prompt the endpoint sees the last `keep` characters.

    Raises ValueError for settings out of range, an address that is none or that carries a
    password, and a cache that is a file. The methods that ask raise

    - ImportError without the package openai, ValueError without a key;
    - ConnectionError or TimeoutError when all attempts failed, with the number of answers kept;
    - PermissionError when the endpoint does not accept the key;
    - ValueError when the endpoint refuses the request, does not know the model, or gives no
      usable answer in all attempts.

    >>> here = "http://localhost:8000/v1"
    >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers", base_url=here)
    >>> explainer.endpoint, explainer.attempts
    ('http://localhost:8000/v1', 5)
    """

    model: str
    cache: str | os.PathLike[str]
    base_url: str | None = None
    timeout: float = 60.0
    attempts: int = 5
    batch: int = 20
    keep: int = 400
    endpoint: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("model is empty: give the model's name at the endpoint")
        for name in ("attempts", "batch", "keep"):
            if as_index(name, getattr(self, name)) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: choose more than 0")
        if not 0 < self.timeout < inf:
            raise ValueError(f"timeout={self.timeout}: choose more than 0 seconds")
        if not os.fspath(self.cache):
            raise ValueError("cache is empty: name a folder")
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"cache={self.folder} is a file: name a folder")
        address = self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        if not PLAIN.fullmatch(address):  # it is not shown: what is not plain may be a password
            raise ValueError(
                "the endpoint's address is not of the form https://host/path, with nothing before "
                "@ or behind ?: check base_url or OPENAI_BASE_URL; a key goes into OPENAI_API_KEY"
            )
        object.__setattr__(self, "endpoint", address.rstrip("/"))

    @property
    def folder(self) -> Path:
        return Path(self.cache).expanduser()

    # ------------------------------------------------------------ what an explainer does

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        """One sentence on what the active prompts share and the inactive ones lack.

        Raises ValueError when either group is empty, and as the class says.

        >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.explain(["It was", "He was"], ["It is", "He is"])
        'The prompt ends in "was".'
        """
        question = {"active": self.shortened(active), "inactive": self.shortened(inactive)}
        for name, prompts in question.items():
            if not prompts:
                raise ValueError(f"no {name} prompts: an explanation needs some of both kinds")
        answer = self.ask("explain", question, {"explanation": SENTENCE})
        return sendable(answer["explanation"].strip())

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        """For each prompt, whether the explanation says that the head is active at its end.

        The answer does not depend on the order of the prompts or on their repetition: a request
        lists them in an order of its own, since theirs may tell what they are. Raises ValueError
        for an empty explanation, and as the class says.

        >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.classify('The prompt ends in "was".', ["She was", "She is"])
        [True, False]
        """
        if not explanation.strip():
            raise ValueError("the explanation is empty: give the sentence to classify by")
        ends = self.shortened(prompts)
        verdicts: dict[str, bool] = {}
        # a fixed order that has nothing to do with what the prompts are
        for part in batched(sorted(set(ends), key=digest), self.batch):
            numbered = {str(i): prompt for i, prompt in enumerate(part, start=1)}
            question = {"explanation": sendable(explanation), "prompts": numbered}
            # one property for each prompt: a schema that no answer of another length fits
            answer = self.ask("classify", question, {n: {"type": "boolean"} for n in numbered})
            verdicts |= {prompt: answer[n] for n, prompt in numbered.items()}
        return [verdicts[prompt] for prompt in ends]

    def estimate(
        self, splits: Iterable[Prompts], price: tuple[float, float] | None = None
    ) -> Estimate:
        """What it will take to explain each set of prompts from those shown and to classify all of
        its held prompts together, before anything is asked.

        `price` is what a million tokens read and a million tokens written cost. Answers that are
        kept cost nothing. Tokens are counted at `CHARACTERS` characters each, the schema of the
        answer included, and an explanation that is not written yet at `ASSUMED` characters;
        repeated attempts, and what a model writes before it answers, are not foreseen. Raises
        ValueError for a price that is not two numbers from 0 up.

        >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
        >>> shown, held = (("We had",), ("We have",)), (("They had",), ("They have",))
        >>> parts = cx.lookups.explain.Prompts(*shown, *held)
        >>> print(explainer.estimate([parts]))
        2 requests, about 620 tokens to read and 61 to write, at four characters a token
        >>> explainer.estimate([parts], price=(2.5, 10)).cost < 0.01
        True
        """
        if price is not None and not (np.shape(price) == (2,) and all(p >= 0 for p in price)):
            raise ValueError(
                f"price={price}: give two numbers from 0 up, the prices of a million tokens read "
                "and of a million tokens written, or None"
            )
        settings = (self.timeout, self.attempts, self.batch, self.keep)
        dry = DryRun(self.model, self.cache, self.endpoint, *settings)
        for s in splits:
            sentence = dry.explain(s.shown_active, s.shown_inactive)
            dry.classify(sentence, [*s.held_active, *s.held_inactive])
        sizes = dry.sizes.values()
        read, written = (ceil(sum(size[k] for size in sizes) / CHARACTERS) for k in (0, 1))
        cost = None if price is None else (read * price[0] + written * price[1]) / 1e6
        return Estimate(len(sizes), read, written, cost)

    # ------------------------------------------------------------ from prompts to answers

    def ask(self, task: str, question: dict, form: dict[str, dict[str, str]]) -> dict[str, Any]:
        """The answer to a question: the one that is kept, or else a new one."""
        user = json.dumps(question, ensure_ascii=False, indent=1)  # a prompt a line, as it reads
        messages = [{"role": "system", "content": TASKS[task]}, {"role": "user", "content": user}]
        schema = {"type": "object", "additionalProperties": False}
        schema |= {"properties": form, "required": list(form)}
        request = Request(self.endpoint, self.model, messages, schema)
        return self.kept(request) or self.answered(request)

    def shortened(self, prompts: Sequence[str]) -> list[str]:
        """The ends of prompts, where the head matters."""
        listed = list(prompts)
        if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in listed):
            raise ValueError("prompts are a list of strings: put a single one in brackets")
        sent = map(sendable, listed)
        return [p if len(p) <= self.keep else CUT + p[-self.keep :] for p in sent]

    def answered(self, request: Request) -> dict[str, Any]:
        """A new answer, which is kept."""
        client = self.client  # without a package or a key nothing is made on disk
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in range(self.attempts):
            answer, note = answer_in(self.send(client, request))
            if (read := request.read(answer)) is not None:
                self.keep_answer(request, answer)
                return read
        raise ValueError(
            f"{self.model} at {self.endpoint} gave no usable answer in "
            f"{counted(self.attempts, 'attempt')}, in the end {self.shown(note)}; "
            "try another model, or an endpoint that supports structured outputs"
        )

    @cached_property
    def client(self) -> Any:
        try:
            import openai  # an optional extra
        except ImportError as error:
            raise ImportError(
                "a chat endpoint needs the package openai: pip install openai"
            ) from error
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not re.fullmatch("[!-~]+", key):
            raise ValueError(
                "the environment variable OPENAI_API_KEY is not set, or holds what cannot be sent "
                "(a space, a line break, an accent): put the endpoint's key there, or any word for "
                "a server of your own that asks for none"
            )
        return openai.OpenAI(
            api_key=key,
            base_url=self.endpoint,
            timeout=self.timeout,
            max_retries=self.attempts - 1,
        )

    def send(self, client: Any, request: Request) -> str:
        """What the endpoint returns, unread; the client repeats what fails on the way."""
        import openai

        schema = {"name": "answer", "strict": True, "schema": request.schema}
        try:
            reply = client.chat.completions.with_raw_response.create(
                model=request.model,
                messages=request.messages,
                temperature=0,
                response_format={"type": "json_schema", "json_schema": schema},
            )
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            # what an endpoint says may quote the key, and a chained error is printed too
            raise self.meaning(error) from None
        return reply.http_response.text

    def meaning(self, error: Any) -> Exception:
        """What an error of the client means here: a status, or no answer at all."""
        import openai

        who, cause = f"{self.model} at {self.endpoint}", error.__cause__ or error
        said = self.shown(str(cause) or type(cause).__name__)
        reply = getattr(error, "response", None)
        status = 500 if reply is None else reply.status_code
        if status in (401, 403):
            return PermissionError(f"the key for {who} is refused ({status}): check OPENAI_API_KEY")
        if status < 500 and status not in (408, 409, 429):
            return ValueError(
                f"{who} refused the request: {said}; where it does not know the model, check its "
                "name, and the address, which often ends in /v1"
            )
        if reply is not None and "retry-after" in reply.headers:
            said += f" (Retry-After: {self.shown(reply.headers['retry-after'])})"
        kind = TimeoutError if isinstance(error, openai.APITimeoutError) else ConnectionError
        tries = f"{counted(self.attempts, 'attempt')} of {self.timeout:g} s"
        held = f"{counted(len(list(self.folder.glob('*.json'))), 'answer')} kept in {self.folder}"
        again = f"{held}, and running again goes on from there"
        return kind(f"no answer from {who} within {tries}: {said}; {again}")

    def shown(self, said: str) -> str:
        """What an endpoint said, on one short line and without the key."""
        line = " ".join(sendable(said).replace(self.client.api_key, "[key]").split())
        line = "".join(c if c.isprintable() else "?" for c in line)
        return line if len(line) <= SHOWN else line[:SHOWN] + CUT

    # ------------------------------------------------------------ answers on disk

    def kept(self, request: Request) -> dict[str, Any] | None:
        """What the answer on disk says; None where there is none, or a damaged one."""
        file = self.folder / request.name
        return request.read(parsed(file.read_bytes()).get("answer")) if file.exists() else None

    def keep_answer(self, request: Request, answer: str) -> None:
        """Write beside the place, then put it there: a kill leaves a whole file or none."""
        beside = (self.folder / request.name).with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps({**asdict(request), "answer": answer}, indent=1), "utf-8")
        beside.replace(self.folder / request.name)


@dataclass(frozen=True)
class DryRun(ChatExplainer):
    """An explainer that asks nobody: what is not kept is answered in blank, and noted, with how
    many characters would be read and written.
    """

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def answered(self, request: Request) -> dict[str, Any]:
        texts = [json.dumps(request.schema), *(m["content"] for m in request.messages)]
        self.sizes[request.name] = sum(map(len, texts)), len(json.dumps(request.blank))
        return request.blank


# ---------------------------------------------------------------- reading what comes back


def answer_in(reply: str) -> tuple[Any, str]:
    """The model's answer in what an endpoint returned, None where there is no whole one; and what
    to say of it where it is of no use.
    """
    match parsed(reply):
        case {"choices": [{"message": {"refusal": str(said)}}, *_]} if said:
            return None, f"a refusal: {said}"
        case {"choices": [{"message": {"content": said}, **more}, *_]}:
            if (end := more.get("finish_reason")) in ("length", "content_filter"):
                return None, f"an answer cut off ({end}): {said}"
            return said, f"an answer of another form than was asked for: {said}"
    return None, f"no chat completion: {reply}"


def parsed(text: Any) -> dict[str, Any]:
    """The object that is written in JSON; an empty one where none is."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {}


# ---------------------------------------------------------------- words


def sendable(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs, which have no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
