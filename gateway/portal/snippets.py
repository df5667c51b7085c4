"""Calls to copy: for a model, one call for each usual tool, by the protocols its pool speaks.

Knows: curl, the openai and tritonclient packages as their users know them. Must not know: pages, who calls.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gateway.portal.services import Granted

#: Where the calls take their token from.
VARIABLE: Final = "NIM_GATEWAY_TOKEN"


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to copy. `tool`: what runs it."""

    tool: str
    text: str


def snippets(model: Granted, public_url: str) -> Iterator[Snippet]:
    """The calls for `model`, in the order of its protocols."""
    base = public_url + model.prefix
    for protocol in model.protocols:
        yield from _BY_PROTOCOL.get(protocol, _none)(model.name, base)


def _none(_: str, __: str) -> Iterable[Snippet]:
    return ()


def _openai(model: str, base: str) -> Iterable[Snippet]:
    if "embed" in model.lower():  # models say so by convention; nothing else here tells the two kinds apart
        yield _curl(f"{base}/v1/embeddings", {"model": model, "input": ["Hello"]})
        yield Snippet("OpenAI SDK", _client(base) + _EMBEDS.format(model=_quoted(model)))
        return
    yield _curl(f"{base}/v1/chat/completions", {"model": model, "messages": _HELLO})
    yield Snippet("OpenAI SDK", _client(base) + _CHATS.format(model=_quoted(model)))


def _anthropic(model: str, base: str) -> Iterable[Snippet]:
    yield _curl(f"{base}/v1/messages", {"model": model, "max_tokens": 256, "messages": _HELLO})


def _kserve(model: str, base: str) -> Iterable[Snippet]:
    yield _curl(f"{base}/v2/models/{quote(model, safe='')}", None)
    parts = urlsplit(base)
    place = (parts.netloc if parts.port else f"{parts.netloc}:443") + parts.path
    yield Snippet("tritonclient", _TRITON.format(place=_quoted(place), model=_quoted(model), variable=VARIABLE))


def _retriever(model: str, base: str) -> Iterable[Snippet]:
    passages = [{"text": "A gateway lets callers in."}, {"text": "Paris is a city."}]
    yield _curl(
        f"{base}/v1/ranking", {"model": model, "query": {"text": "What does a gateway do?"}, "passages": passages}
    )


def _with_a_file(path: str) -> Callable[[str, str], Iterable[Snippet]]:
    """A call whose body depends on the model: it is taken from a file."""

    def made(model: str, base: str) -> Iterable[Snippet]:
        yield _curl(base + path.format(model=quote(model, safe="/")), "@request.json")

    return made


def _voices(_: str, base: str) -> Iterable[Snippet]:
    yield _curl(f"{base}/v1/audio/list_voices", None)


_BY_PROTOCOL: Final[dict[str, Callable[[str, str], Iterable[Snippet]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "kserve": _kserve,
    "retriever": _retriever,
    "generic-infer": _with_a_file("/v1/infer"),
    "bio": _with_a_file("/biology/{model}/generate"),
    "hosted": _with_a_file("/v1/genai/{model}"),
    "speech-http": _voices,
}

_HELLO: Final = [{"role": "user", "content": "Hello"}]


def _curl(url: str, body: dict[str, Any] | str | None) -> Snippet:
    """`body`: JSON to send, or where curl is to take it from; None asks with GET."""
    lines = [f"curl {shlex.quote(url)}", f'-H "Authorization: Bearer ${VARIABLE}"']
    if body is not None:
        text = body if isinstance(body, str) else _lines(body)
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(text)}"]
    return Snippet("curl", " \\\n  ".join(lines))


def _lines(body: dict[str, Any]) -> str:
    """JSON with a line for each member, so that it can be read on a phone."""
    return "{" + ",\n      ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in body.items()) + "}"


def _quoted(text: str) -> str:
    """As Python writes it: JSON's escapes are among Python's."""
    return json.dumps(text, ensure_ascii=False)


def _client(base: str) -> str:
    return _CLIENT.format(base=_quoted(f"{base}/v1"), variable=VARIABLE)


_CLIENT: Final = """\
import os
from openai import OpenAI

client = OpenAI(
    base_url={base},
    api_key=os.environ["{variable}"],
)
"""

_CHATS: Final = """\
answer = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": "Hello"}}],
)
print(answer.choices[0].message.content)
"""

_EMBEDS: Final = """\
answer = client.embeddings.create(
    model={model},
    input=["Hello"],
)
print(len(answer.data[0].embedding))
"""

_TRITON: Final = """\
import os
import tritonclient.http as triton

client = triton.InferenceServerClient({place}, ssl=True)
token = os.environ["{variable}"]
headers = {{"Authorization": "Bearer " + token}}
print(client.get_model_metadata({model}, headers=headers))
"""
