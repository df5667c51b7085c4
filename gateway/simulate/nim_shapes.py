"""How a NIM spells its answers: whole, and as chunks of a stream.

Knows: the JSON of the OpenAI API. Must not know: HTTP, timing, where words come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """One call to generate. `choices` are the tokens of each answer; `created` is UNIX time in seconds."""

    chat: bool
    id: str
    model: str
    created: int
    server: str
    prompt_tokens: int
    choices: tuple[tuple[str, ...], ...]
    finish: str
    usage_chunk: bool

    @property
    def generated(self) -> int:
        """Tokens of all answers together."""
        return sum(len(words) for words in self.choices)


def usage(prompt: int, generated: int) -> Json:
    """Token counts."""
    return {"prompt_tokens": prompt, "total_tokens": prompt + generated, "completion_tokens": generated}


def whole(job: Job) -> Json:
    """The answer in one piece."""
    choices = [_choice(job, index, "".join(words)) for index, words in enumerate(job.choices)]
    kind = "chat.completion" if job.chat else "text_completion"
    return {**_frame(job, kind), "choices": choices, "usage": usage(job.prompt_tokens, job.generated)}


def opening(job: Job) -> list[Json]:
    """The chunks before the first token: who speaks."""
    if not job.chat:
        return []
    return [_chunk(job, index, {"role": "assistant", "content": ""}, None) for index in range(len(job.choices))]


def piece(job: Job, index: int, word: str) -> Json:
    """The chunk of one token."""
    return _chunk(job, index, {"content": word}, None)


def closing(job: Job) -> list[Json]:
    """The chunks after the last token: why each answer ended, and the counts for who asked for them."""
    chunks = [_chunk(job, index, {}, job.finish) for index in range(len(job.choices))]
    if job.usage_chunk:
        last = {**_frame(job, _stream_kind(job)), "choices": [], "usage": usage(job.prompt_tokens, job.generated)}
        chunks.append(last)
    return chunks


def error(status: int, message: str, kind: str, param: str | None = None) -> Json:
    """An error as the engines inside a NIM say it: nested, with the status as its code."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def _choice(job: Job, index: int, text: str) -> Json:
    said: Json = {"message": {"role": "assistant", "content": text}} if job.chat else {"text": text}
    return {"index": index, **said, "logprobs": None, "finish_reason": job.finish}


def _chunk(job: Job, index: int, delta: Json, finish: str | None) -> Json:
    said: Json = {"delta": delta} if job.chat else {"text": delta.get("content", "")}
    choice = {"index": index, **said, "logprobs": None, "finish_reason": finish}
    counts: Json = {"usage": None} if job.usage_chunk else {}
    return {**_frame(job, _stream_kind(job)), "choices": [choice], **counts}


def _stream_kind(job: Job) -> str:
    return "chat.completion.chunk" if job.chat else "text_completion"


def _frame(job: Job, kind: str) -> Json:
    return {
        "id": job.id,
        "object": kind,
        "created": job.created,
        "model": job.model,
        "system_fingerprint": f"sim-{job.server}",  # tells balancing tests which server answered
    }
