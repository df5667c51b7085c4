"""The request bodies that a NIM takes, and what it says about the others.

Knows: pydantic, the fields that matter. Must not know: HTTP, what is answered.
Sources: the OpenAI API reference; NVIDIA's NIM pages for LLMs, embedding and reranking.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

#: What one call may ask for at most, as in real engines.
MOST_INPUTS = 1024
MOST_PASSAGES = 512
MOST_CHOICES = 128
LARGEST_VECTOR = 4096


#: One text, or texts, or one or more texts as token ids.
Inputs = (
    Annotated[str, Field(min_length=1)]
    | Annotated[list[str] | list[int] | list[list[int]], Field(min_length=1, max_length=MOST_INPUTS)]
)


class Invalid(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A body that is not taken: `message` in words, `param` the field at fault."""

    def __init__(self, message: str, param: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class StreamOptions(_Body):
    include_usage: bool = False


class Message(_Body):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None

    def text(self) -> str:
        """The words of this message; pictures and sounds have none."""
        if isinstance(self.content, list):
            return " ".join(str(part["text"]) for part in self.content if part.get("type") == "text" and "text" in part)
        return self.content or ""


class _Generation(_Body):
    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES)] = 1
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    @property
    def usage_chunk(self) -> bool:
        """Whether a stream ends with its token counts."""
        return self.stream_options is not None and self.stream_options.include_usage


class Chat(_Generation):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None

    def limit(self) -> int | None:
        """The caller's bound on tokens of the answer."""
        return self.max_completion_tokens or self.max_tokens

    def prompts(self) -> list[str]:
        """What to answer."""
        return ["\n".join(f"{message.role}: {message.text()}" for message in self.messages)]


class Completion(_Generation):
    prompt: Inputs

    def limit(self) -> int | None:
        """The caller's bound on tokens of the answer; this API has always had a small one of its own."""
        return self.max_tokens or 16

    def prompts(self) -> list[str]:
        """What to answer."""
        return as_texts(self.prompt)


class Embeddings(_Body):
    model: str
    input: Inputs
    input_type: Literal["query", "passage"] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=LARGEST_VECTOR)] = 64
    truncate: Literal["NONE", "START", "END"] = "NONE"


class Passage(_Body):
    text: str


class Ranking(_Body):
    model: str
    query: Passage
    passages: Annotated[list[Passage], Field(min_length=1, max_length=MOST_PASSAGES)]
    truncate: Literal["NONE", "END"] = "NONE"


Taken = TypeVar("Taken", bound=BaseModel)


def read(kind: type[Taken], body: object) -> Taken:
    """The body as `kind`. Raises `Invalid` with the first mistake."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = [str(part) for part in first["loc"]]
        raise Invalid(f"{'.'.join(place) or 'body'}: {first['msg']}", place[0] if place else None) from None


def as_texts(given: str | list[str] | list[int] | list[list[int]]) -> list[str]:
    """One text per input; token ids stand for words."""
    if isinstance(given, str):
        return [given]
    if all(isinstance(item, int) for item in given):
        return [_words(given)]
    return [item if isinstance(item, str) else _words(item) for item in given]


def _words(ids: object) -> str:
    return " ".join(str(number) for number in ids) if isinstance(ids, list) else str(ids)
