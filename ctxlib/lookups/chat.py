"""Ask a language model to explain a head and to predict it from the explanation (chapter 16).

The model reads prompts on which a head is active and prompts on which it is not, writes a sentence
on what tells them apart, and classifies new prompts by that sentence alone. Any endpoint works that
speaks OpenAI's chat completions with structured outputs, such as the server of llama.cpp.

Every answer is kept on disk with its request, one JSON file each, so that none is paid for twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlib.texts.batching import batched

OPENAI = "https://api.openai.com/v1"  #: the endpoint when nothing else is named
CUT = "…"  # in front of a prompt whose beginning was left out
SHOWN = 200  # characters of what went wrong, in an error
WORDS = 2  # to a token: no tokenizer packs more of them into one, on average
SENTENCE = "^[^\\n]{1,300}$"  # a small model may never end its sentence; this ends it

#: What a model is told: `explain` to find a sentence, `classify` to judge prompts by one.
TASKS = tomllib.loads((Path(__file__).parent / "chat.toml").read_text(encoding="utf-8"))


@dataclass
class ChatExplainer:
    """Explain heads through an OpenAI-compatible chat endpoint.

    `model` is the model's name there. `cache` is a folder, made when needed, that keeps every
    answer: from then on the same request is answered without a connection or a key. `client` is an
    `openai.OpenAI` with an address, a key, a timeout and retries of your choice. Without one, the
    first new request makes it from the environment: OPENAI_BASE_URL, by default OpenAI's, and
    OPENAI_API_KEY. A request classifies `batch` prompts, and the endpoint sees the last `keep`
    characters of each. It is asked at `temperature` 0. A model that refuses this is asked again
    without it, and `temperature` is then None, here and in the files of the answers that follow:
    such answers may differ from one time to the next.

    An answer is refused, and not kept, if the endpoint says that it has read fewer tokens than half
    of the words that were sent: it has cut the request to its context. (Most tokenizers need more
    tokens than words, and those that join words still need more than half as many.)

    Raises ValueError if `batch` or `keep` is not positive. The methods raise ImportError without
    the package openai, openai.OpenAIError without a key, ConnectionError if the endpoint fails or
    refuses a request after all retries, and ValueError if it gives no usable answer.

    >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
    >>> explainer.endpoint
    'https://api.openai.com/v1'
    """

    model: str
    cache: str | os.PathLike[str]
    client: Any = None
    batch: int = 20
    keep: int = 400
    temperature: int | None = 0

    def __post_init__(self) -> None:
        if min(self.batch, self.keep) < 1:
            raise ValueError(f"batch={self.batch}, keep={self.keep}: choose more than 0")
        if self.temperature not in (0, None):
            raise ValueError(f"temperature={self.temperature}: choose 0, or None to leave it out")

    @property
    def endpoint(self) -> str:
        url = self.client.base_url if self.client else os.environ.get("OPENAI_BASE_URL") or OPENAI
        if set("@?#").intersection(str(url)):  # it would be kept with every answer
            raise ValueError("an address must not hold a password: use OPENAI_API_KEY for the key")
        return str(url).rstrip("/")

    def explain(self, active: Sequence[str], inactive: Sequence[str]) -> str:
        """Return one sentence on what the active prompts share and the inactive ones lack.

        Raises ValueError if either group is empty, and errors as the class says.

        >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.explain(["It was", "He was"], ["It is", "He is"])
        'The prompt ends in "was".'
        """
        question = {"active": self.ends(active), "inactive": self.ends(inactive)}
        if not all(question.values()):
            raise ValueError("an explanation needs active and inactive prompts")
        return self.ask("explain", question, {"explanation": str})["explanation"].strip()

    def classify(self, explanation: str, prompts: Sequence[str]) -> list[bool]:
        """Return for each prompt whether the explanation says that the head is active at its end.

        The order of the prompts changes nothing, nor does their repetition: a request lists each
        once, in an order that says nothing about what they are.

        >>> explainer = cx.lookups.chat.ChatExplainer("a-model", cache="answers")
        >>> explainer.classify('The prompt ends in "was".', ["She was", "She is"])
        [True, False]
        """
        ends = self.ends(prompts)
        verdicts: dict[str, bool] = {}
        for part in batched(sorted(set(ends), key=digest), self.batch):
            numbered = {str(i): prompt for i, prompt in enumerate(part, start=1)}
            question = {"explanation": explanation, "prompts": numbered}
            answer = self.ask("classify", question, dict.fromkeys(numbered, bool))
            verdicts |= {prompt: answer[n] for n, prompt in numbered.items()}
        return [verdicts[prompt] for prompt in ends]

    def ends(self, prompts: Sequence[str]) -> list[str]:
        """Return the ends of the prompts, where the head matters."""
        if isinstance(prompts, str):
            raise ValueError("prompts are a list of strings: put a single one in brackets")
        return [p if len(p) <= self.keep else CUT + p[-self.keep :] for p in prompts]

    def ask(self, task: str, question: dict[str, Any], fields: dict[str, type]) -> dict[str, Any]:
        """Return an answer with these fields: the one that is kept, or else a new one."""
        form = answer_form(fields)
        user = json.dumps(question, ensure_ascii=False, indent=1)  # a prompt a line, as it reads
        messages = [{"role": "system", "content": TASKS[task]}, {"role": "user", "content": user}]
        request = {"base_url": self.endpoint, "model": self.model, "messages": messages}
        request["schema"] = form.model_json_schema()
        file = Path(self.cache).expanduser() / f"{digest(json.dumps(request, sort_keys=True))}.json"
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):  # none, or a damaged one
            return form.model_validate_json(json.loads(file.read_bytes())["answer"]).model_dump()
        answer = self.send(messages, form)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")  # a kill leaves a whole file or none
        record = {**request, "temperature": self.temperature, "answer": answer}
        part.write_text(json.dumps(record, indent=1), "utf-8")
        part.replace(file)
        return form.model_validate_json(answer).model_dump()

    def send(self, messages: list[dict[str, str]], form: Any) -> str:
        """Return what the endpoint answers, which is of this form."""
        import openai

        self.client = self.client or openai.OpenAI(base_url=self.endpoint)
        asked = {} if self.temperature is None else {"temperature": self.temperature}
        try:
            reply = self.client.chat.completions.parse(
                model=self.model, messages=messages, response_format=form, **asked
            )
            message = reply.choices[0].message
            if message.parsed is None:
                raise ValueError(f"refusal: {message.refusal}")
            self.check_read(messages, reply.usage)
            return message.content
        # the client's errors, and what comes of a reply that is no chat completion
        except (openai.OpenAIError, ValueError, AttributeError, IndexError, TypeError) as error:
            if asked and isinstance(error, openai.BadRequestError) and "temperature" in str(error):
                self.temperature = None
                return self.send(messages, form)
            said = " ".join(str(error.__cause__ or error).split())
            for part in self.client.api_key.split():
                said = said.replace(part, "[key]")
            if getattr(error, "status_code", 0) in (401, 403):  # the endpoint may quote part of it
                said = "the key is refused: check OPENAI_API_KEY"
            kind = ConnectionError if isinstance(error, openai.APIError) else ValueError
            raise kind(  # from None, for a chained error would be printed too
                f"no usable answer from {self.model} at {self.endpoint} (often ends in /v1; must "
                f"support structured outputs): {said[:SHOWN]!r}; answers are kept in {self.cache}"
            ) from None

    def check_read(self, messages: list[dict[str, str]], usage: Any) -> None:
        """Raise ValueError if the endpoint says that it read less than was sent."""
        sent = "\n".join(message["content"] for message in messages)
        words, read = len(re.findall(r"\w+", sent)), getattr(usage, "prompt_tokens", None) or 0
        if 0 < read < words / WORDS:
            raise ValueError(
                f"it was sent {words} words ({len(sent)} characters) and read {read} tokens: give "
                "it a larger context, or fewer or shorter prompts"
            )


def answer_form(fields: dict[str, type]) -> Any:
    """Make the class of an answer that has these fields and no other, and no empty sentence."""
    try:
        import pydantic  # comes with openai, an optional extra
    except ImportError as error:
        raise ImportError("a chat endpoint needs the package openai: pip install openai") from error

    def untitled(schema: dict[str, Any]) -> None:
        for part in (schema, *schema["properties"].values()):
            del part["title"]  # a kept answer is known by a schema without titles

    config = pydantic.ConfigDict(  # an input is not shown, for it may hold the key
        extra="forbid", strict=True, hide_input_in_errors=True, json_schema_extra=untitled
    )
    sentence = pydantic.Field(pattern=r"\S", json_schema_extra={"pattern": SENTENCE})
    columns: Any = {n: (kind, sentence if kind is str else ...) for n, kind in fields.items()}
    return pydantic.create_model("answer", __config__=config, **columns)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
