"""Numbers that a call asks for: tokens to generate, answers, log probabilities.

Engines take much for a number (`"4096"`, `1e5`, `true`, and -1 for no limit at all), each in its own way. So where
there is a limit only a whole number is one, as JSON writes it; null is what an absent member is.
Knows: the members of the interfaces that mean a number, and of which interface one stands for the budget.
Must not know: how bodies are changed, which rules there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.caps.excess import Change, Excess, above
from gateway.caps.members import Member
from gateway.seams import Interface
from gateway.terms import Terms

#: Members that say how many tokens may be generated: OpenAI's and Anthropic's, then those of engines beside them.
BUDGETS: Final = (
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "n_predict", "num_predict",
    "request_output_len",
)  # fmt: skip

#: Members that say how many must be generated, or be thought; none is fine.
PARTS: Final = (
    "min_tokens", "min_new_tokens", "budget_tokens", "reasoning_budget", "thinking_budget", "thinking_token_budget",
    "max_thinking_tokens",
)  # fmt: skip

#: Members that say how many answers come, and how many are tried for them.
ANSWERS: Final = (
    "n", "num_outputs_per_prompt", "num_images_per_prompt", "num_return_sequences", "samples", "num_samples",
    "num_images",
)  # fmt: skip
TRIED: Final = ("best_of",)
BEAMS: Final = ("beam_width", "num_beams")  # tried, and all of them are answers

#: Members that say how many log probabilities come with each token.
PROBABILITIES: Final = ("logprobs", "top_logprobs", "prompt_logprobs")

NUMBERS: Final = (*BUDGETS, *PARTS, *ANSWERS, *TRIED, *BEAMS, *PROBABILITIES)
_NUMBERS: Final = frozenset(NUMBERS)

# Whatever else an engine may call so. How much of a prompt is taken is no budget.
_MORE_PARTS: Final = re.compile(
    r"(?:max|min)_(?!(?:[a-z]+_)*(?:prompt|input|image|video|context)_)(?:[a-z]+_)+tokens|(?:reasoning|thinking)(?:_[a-z]+)*_(?:budget|tokens)"
)

#: By interface: the members of which one is the budget, the one to be written first.
_BUDGET: Final[Mapping[Interface, tuple[str, ...]]] = {
    Interface.CHAT: ("max_tokens", "max_completion_tokens"),
    Interface.COMPLETIONS: ("max_tokens",),
    Interface.MESSAGES: ("max_tokens",),
    Interface.RESPONSES: ("max_output_tokens",),
    Interface.GENERATE: ("max_tokens",),
}


def means_a_number(name: str) -> bool:
    """Whether a member of this name is held to be a number."""
    return name in _NUMBERS or _MORE_PARTS.fullmatch(name) is not None


def too_many(members: Iterable[Member], terms: Terms) -> Iterator[Excess]:
    """Numbers beyond the terms; what is too much below the top level cannot be lowered."""
    for member in members:
        value = member.value
        if value is None or (member.plain == "logprobs" and isinstance(value, bool)):
            continue
        cap, least = _cap(member.plain, terms)
        if cap is None:
            continue
        if type(value) is int and least <= value <= cap:
            continue
        path = member.path
        if type(value) is not int or value < least:
            yield Excess(path, f"'{path}' must be a whole number from {least} to {cap}.")
        else:
            lowers = member.place is None and member.name.isascii()  # what was changed is told in a header
            yield above(path, value, cap, Change(member.name, b"%d" % cap) if lowers else None)


def _cap(name: str, terms: Terms) -> tuple[int | None, int]:
    """The most and the least that a member may say."""
    if name in BUDGETS:
        return terms.max_tokens, 1
    if name in PROBABILITIES:
        return terms.logprobs, 0
    if name in ANSWERS:
        return terms.n, 1
    if name in TRIED:
        return terms.best_of, 1
    if name in BEAMS:
        return min((cap for cap in (terms.n, terms.best_of) if cap is not None), default=None), 1
    return (terms.max_tokens if means_a_number(name) else None), 0


def unbudgeted(fields: Mapping[str, object], interface: Interface) -> str | None:
    """The member to be filled in where a call names no budget and its interface has one."""
    names = _BUDGET.get(interface, ())
    if not names or any(fields.get(name) is not None for name in names):
        return None
    if interface is Interface.GENERATE:  # Triton takes what a model has no tensor for as one of `parameters`
        inner = fields.get("parameters")
        if isinstance(inner, dict) and inner.get(names[0]) is not None:
            return None
    return names[0]
