"""An explainer behind a chat endpoint (chapter 13): a language model that reads prompts on which a
head is active and prompts on which it is not, says in a sentence what tells them apart, and
classifies prompts it has not seen by that sentence alone.

Any endpoint that speaks OpenAI's chat completions with structured outputs will do, a server of your
own included. Every answer is kept on disk, so that none is paid for twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ctxlib.texts import batched

if TYPE_CHECKING:
    from ctxlib.decoders.explain import Split

OPENAI = "https://api.openai.com/v1"  #: where the openai package turns when nothing else is named
CUT = "…"  # in front of a prompt whose beginning was left out
CHARACTERS = 4  # to a token, a rule of thumb for English
ASSUMED = 200  # characters of an explanation that is not written yet, for the estimate
SHOWN = 200  # characters of what an endpoint said, in an error

#: What a model is told: `explain` to find a sentence, `classify` to judge prompts by one.
TOLD = tomllib.loads((Path(__file__).parent / "data" / "chat.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Estimate:
    """What is still to be asked: requests, tokens to read and to write, and their cost in the
    currency of the price, None without one.

    >>> print(cx.chat.Estimate(requests=24, tokens_in=31_210, tokens_out=1_180, cost=0.048))
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
        tokens = (
            f"{counted(self.requests, 'request')}, about {rounded(self.tokens_in)} tokens to read "
            f"and {rounded(self.tokens_out)} to write, at four characters a token"
        )
        if self.cost is None:
            return tokens
        cost = f"about {self.cost:,.2f}" if self.cost >= 0.01 else "less than 0.01"
        return f"{tokens}: {cost} in the currency of the price"


@dataclass(frozen=True, eq=False)
class Request:
    """One question to a model: `identity` is all that its answer depends on, kept beside it."""

    identity: dict[str, Any]

    @cached_property
    def name(self) -> str:
        """64 hexadecimal digits that stand for the identity."""
        return digest(json.dumps(self.identity, sort_keys=True))

    @property
    def wanted(self) -> dict[str, dict[str, str]]:
        """The properties of the answer, each with its type."""
        return self.identity["schema"]["properties"]

    @property
    def size(self) -> int:
        """Characters for the model to read: messages and schema."""
        texts = [message["content"] for message in self.identity["messages"]]
        return sum(map(len, [*texts, json.dumps(self.identity["schema"])]))

    @property
    def expected(self) -> int:
        """Characters of its answer, as far as one can say."""
        blank = {"string": "x" * ASSUMED, "boolean": False}
        return len(json.dumps({name: blank[of["type"]] for name, of in self.wanted.items()}))

    def read(self, answer: str) -> Any:
        """What an answer means, a sentence or a verdict for each number; Unusable where that is
        nothing.
        """
        try:
            read = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise Unusable(f"no JSON: {answer}") from error
        if not isinstance(read, dict):
            raise Unusable(f"no JSON object: {answer}")
        if "explanation" in self.wanted:
            said = read.get("explanation")
            if not isinstance(said, str) or not said.strip():
                raise Unusable(f"no explanation: {answer}")
            return sendable(said.strip())
        count = len(self.wanted)
        if read.keys() != self.wanted.keys() or not all(isinstance(v, bool) for v in read.values()):
            raise Unusable(f"not true or false for each number from 1 to {count}: {answer}")
        return [read[number] for number in self.wanted]


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
    >>> explainer = cx.chat.ChatExplainer("a-model", cache="answers", base_url=here)
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
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: choose 1 or more")
        if not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout}: choose more than 0 seconds")
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"cache={self.folder} is a file: name a folder")
        address = self.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        object.__setattr__(self, "endpoint", checked_address(address))

    @property
    def folder(self) -> Path:
        return Path(self.cache)

    # ------------------------------------------------------------ what an explainer does

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        """One sentence on what the active prompts share and the inactive ones lack.

        Raises ValueError when either group is empty, and as the class says.

        >>> explainer = cx.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.explain(["It was", "He was"], ["It is", "He is"])
        'The prompt ends in "was".'
        """
        return self.ask(self.to_explain(active, inactive))

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        """For each prompt, whether the explanation says that the head is active at its end.

        The answer does not depend on the order of the prompts or on their repetition: a request
        lists them in an order of its own, since theirs may tell what they are. Raises ValueError
        for an empty explanation, and as the class says.

        >>> explainer = cx.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.classify('The prompt ends in "was".', ["She was", "She is"])
        [True, False]
        """
        verdicts: dict[str, bool] = {}
        for request, part in self.to_classify(explanation, prompts):
            verdicts |= zip(part, self.ask(request), strict=True)
        return [verdicts[self.shortened(prompt)] for prompt in prompts]

    def estimate(
        self, splits: Iterable[Split], price: tuple[float, float] | None = None
    ) -> Estimate:
        """What it will take to explain each split from its shown prompts and to classify all of
        its held prompts together, before anything is asked.

        `price` is what a million tokens read and a million tokens written cost. Answers that are
        kept cost nothing. Tokens are counted at `CHARACTERS` characters each, the schema of the
        answer included, and an explanation that is not written yet at `ASSUMED` characters;
        repeated attempts, and what a model writes before it answers, are not foreseen. Raises
        ValueError for a price that is not two numbers from 0 up.

        >>> explainer = cx.chat.ChatExplainer("a-model", cache="answers")
        >>> shown, held = (("We had",), ("We have",)), (("They had",), ("They have",))
        >>> parts = cx.decoders.explain.Split(*shown, *held)
        >>> print(explainer.estimate([parts]))
        2 requests, about 620 tokens to read and 61 to write, at four characters a token
        >>> explainer.estimate([parts], price=(2.5, 10)).cost < 0.01
        True
        """
        if price is not None:
            check_price(price)
        todo = {request.name: request for s in splits for request in self.open_requests(s)}
        read = ceil(sum(request.size for request in todo.values()) / CHARACTERS)
        written = ceil(sum(request.expected for request in todo.values()) / CHARACTERS)
        cost = None if price is None else (read * price[0] + written * price[1]) / 1e6
        return Estimate(len(todo), read, written, cost)

    def open_requests(self, split: Split) -> Iterator[Request]:
        """The requests of a split whose answers are not kept."""
        first = self.to_explain(split.shown_active, split.shown_inactive)
        explanation = self.kept(first)
        if explanation is None:
            yield first
            # made of the request's own name, so that no two splits seem to ask the same
            explanation = (first.name * ASSUMED)[:ASSUMED]
        held = [*split.held_active, *split.held_inactive]
        for request, _ in self.to_classify(explanation, held):
            if self.kept(request) is None:
                yield request

    # ------------------------------------------------------------ from prompts to requests

    def to_explain(self, active: Sequence[str], inactive: Sequence[str]) -> Request:
        asked = {}
        for name, prompts in (("active", active), ("inactive", inactive)):
            if len(prompts) == 0:
                raise ValueError(f"no {name} prompts: an explanation needs some of both kinds")
            check_prompts(prompts)
            asked[name] = [self.shortened(prompt) for prompt in prompts]
        return self.request("explain", asked, {"explanation": {"type": "string"}})

    def to_classify(
        self, explanation: str, prompts: Sequence[str]
    ) -> Iterator[tuple[Request, Sequence[str]]]:
        """Each request with the (shortened) prompts that it is about."""
        if not explanation.strip():
            raise ValueError("the explanation is empty: give the sentence to classify by")
        check_prompts(prompts)
        # A fixed order that has nothing to do with what the prompts are.
        distinct = sorted({self.shortened(prompt) for prompt in prompts}, key=digest)
        for part in batched(distinct, self.batch):
            numbered = {str(i): prompt for i, prompt in enumerate(part, start=1)}
            asked = {"explanation": sendable(explanation), "prompts": numbered}
            # One property for each prompt: a schema that no answer of another length fits.
            yield self.request("classify", asked, {n: {"type": "boolean"} for n in numbered}), part

    def request(self, told: str, asked: dict, wanted: dict[str, dict[str, str]]) -> Request:
        user = json.dumps(asked, ensure_ascii=False, indent=1)  # a prompt a line, as it reads
        texts = {"system": TOLD[told], "user": user}
        messages = [{"role": role, "content": text} for role, text in texts.items()]
        form = {"type": "object", "additionalProperties": False}
        schema = form | {"properties": wanted, "required": list(wanted)}
        named = {"base_url": self.endpoint, "model": self.model}
        return Request({**named, "messages": messages, "schema": schema})

    def shortened(self, prompt: str) -> str:
        """The end of a prompt, where the head matters."""
        prompt = sendable(prompt)
        return prompt if len(prompt) <= self.keep else CUT + prompt[-self.keep :]

    # ------------------------------------------------------------ from requests to answers

    def ask(self, request: Request) -> Any:
        """What the answer to a request means: the one that is kept, or else a new one."""
        meaning = self.kept(request)
        if meaning is not None:
            return meaning
        client = self.client  # without a package or a key nothing is made on disk
        self.folder.mkdir(parents=True, exist_ok=True)
        what = ""
        for _ in range(self.attempts):
            try:
                answer = answer_in(self.send(client, request))
                meaning = request.read(answer)
            except Unusable as error:
                what = str(error)
            else:
                self.keep_answer(request, answer)
                return meaning
        raise ValueError(
            f"{self.model} at {self.endpoint} gave no usable answer in "
            f"{counted(self.attempts, 'attempt')}, in the end {self.shown(what)}; "
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
        return openai.OpenAI(
            api_key=checked_key(),
            base_url=self.endpoint,
            timeout=self.timeout,
            max_retries=self.attempts - 1,
        )

    def send(self, client: Any, request: Request) -> str:
        """What the endpoint returns, unread; the client repeats what fails on the way."""
        import openai

        schema = {"name": "answer", "strict": True, "schema": request.identity["schema"]}
        try:
            reply = client.chat.completions.with_raw_response.create(
                model=self.model,
                messages=request.identity["messages"],
                temperature=0,
                response_format={"type": "json_schema", "json_schema": schema},
            )
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            means = self.meaning(error)
            # What an endpoint says of a key may quote it, and a chained error is printed too.
            quotes = isinstance(means, PermissionError) or client.api_key in str(error)
            raise means from (None if quotes else error)
        return reply.http_response.text

    def meaning(self, error: Any) -> Exception:
        """What an error of the client means here: a status, or no answer at all."""
        import openai

        at, tries = self.endpoint, counted(self.attempts, "attempt")
        if isinstance(error, openai.APITimeoutError):
            return TimeoutError(
                f"{at} left {tries} unanswered for {self.timeout:g} s; {self.goes_on}"
            )
        if isinstance(error, openai.APIConnectionError):
            why = self.shown(str(error.__cause__) or type(error.__cause__).__name__)
            return ConnectionError(f"no connection to {at} held in {tries} ({why}); {self.goes_on}")
        status, said = error.status_code, self.shown(error.message)
        if status in (401, 403):
            return PermissionError(
                f"{at} does not accept the key for {self.model} ({status}): check OPENAI_API_KEY"
            )
        if status in (408, 409, 429) or status >= 500:
            wait = error.response.headers.get("retry-after")
            until = f" (Retry-After: {self.shown(wait)})" if wait else ""
            return ConnectionError(f"{at} is not ready: {said}{until}; {self.goes_on}")
        if status == 404 or error.code == "model_not_found":
            return ValueError(
                f"no model {self.model} at {at}: {said}; "
                "check the model's name and the address, which often ends in /v1"
            )
        return ValueError(f"{at} refused the request to {self.model}: {said}")

    def shown(self, said: str) -> str:
        """What an endpoint said, on one short line and without the key."""
        line = " ".join(sendable(said).replace(self.client.api_key, "[key]").split())
        line = "".join(c if c.isprintable() else "?" for c in line)
        return line if len(line) <= SHOWN else line[:SHOWN] + CUT

    # ------------------------------------------------------------ answers on disk

    @property
    def goes_on(self) -> str:
        held = len(list(self.folder.glob("*.json")))
        are = f"{counted(held, 'answer')} {'is' if held == 1 else 'are'}"
        return f"{are} kept in {self.folder}, and running again goes on from there"

    def file(self, request: Request) -> Path:
        return self.folder / f"{request.name}.json"

    def kept(self, request: Request) -> Any:
        """What the answer on disk means; None where there is none, or a damaged one."""
        try:
            held = json.loads(self.file(request).read_text(encoding="utf-8"))
            return request.read(held["answer"])
        except (FileNotFoundError, ValueError, LookupError, TypeError, RecursionError):
            return None

    def keep_answer(self, request: Request, answer: str) -> None:
        """Write beside the place, then put it there: a kill leaves a whole file or none."""
        file = self.file(request)
        beside = file.with_name(f"{file.name}.{os.getpid()}.part")
        held = {**request.identity, "answer": answer}
        beside.write_text(json.dumps(held, indent=1), encoding="utf-8")
        os.replace(beside, file)


# ---------------------------------------------------------------- reading what comes back


class Unusable(ValueError):
    """An answer that means nothing; says what it is instead."""


def answer_in(reply: str) -> str:
    """The model's answer in what an endpoint returned; Unusable where there is no whole one."""
    try:
        choice = json.loads(reply)["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unusable(f"no chat completion: {reply}") from error
    if refusal:
        raise Unusable(f"a refusal: {refusal}")
    if finish in ("length", "content_filter"):
        raise Unusable(f"an answer cut off ({finish}): {content}")
    if not isinstance(content, str) or not content.strip():
        raise Unusable("an empty answer")
    return content


# ---------------------------------------------------------------- checks and words


def check_prompts(prompts: Sequence[str]) -> None:
    if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
        raise ValueError("prompts are a list of strings: put a single one in brackets")


def check_price(price: object) -> None:
    if isinstance(price, tuple | list) and len(price) == 2 and all(p >= 0 for p in price):
        return
    raise ValueError(
        f"price={price}: give two numbers from 0 up, the prices of a million tokens read and of a "
        "million tokens written, or None"
    )


def checked_address(address: str) -> str:
    """An address without the slash at its end.

    The errors do not show it: whatever is not part of a plain address may be a password.
    """
    try:
        parts = urlsplit(address)
        plain = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that does not close
        plain = False
    if not plain:
        raise ValueError(
            "the endpoint's address is not of the form https://host/path: "
            "check base_url or OPENAI_BASE_URL"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "the endpoint's address holds more than https://host/path: take what stands before @ "
            "or behind ? out of base_url or OPENAI_BASE_URL; a key goes into OPENAI_API_KEY"
        )
    return address.rstrip("/")


def checked_key() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        raise ValueError(
            "the environment variable OPENAI_API_KEY is not set: put the endpoint's key there, or "
            "any word for a server of your own that asks for none"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(
            "OPENAI_API_KEY holds a character that cannot be sent (a space, a line break, an "
            "accent): copy the key again"
        )
    return key


def sendable(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs, which have no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rounded(number: int) -> str:
    """Two digits, as much as an estimate is good for."""
    return f"{int(float(f'{number:.2g}')):,}"
