"""Numbers that a call asks for: tokens to generate, answers, log probabilities.

Engines take much for a number (`"4096"`, `1e5`, `true`, and -1 for no limit at all), each in its own way. So where
there is a limit only a whole number is one, as JSON writes it; null is what an absent member is.
Knows: the members of the interfaces that mean a number, and of which interface one stands for the budget.
Must not know: how bodies are changed, which rules there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gateway.caps.excess import Change, Excess, above
from gateway.seams import Interface
from gateway.terms import Terms

#: Members that say how many tokens may be generated: OpenAI's and Anthropic's, then those of engines beside them.
BUDGETS: Final = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "n_predict",
    "num_predict",
)

#: Members that say how many must be generated, or be thought; none is fine.
PARTS: Final = ("min_tokens", "min_new_tokens", "thinking_token_budget", "max_thinking_tokens")

#: Members that say how many log probabilities come with each token.
PROBABILITIES: Final = ("logprobs", "top_logprobs", "prompt_logprobs")

NUMBERS: Final = (*BUDGETS, *PARTS, "n", "best_of", *PROBABILITIES)

#: By interface: the members of which one is the budget, the one to be written first.
_BUDGET: Final[Mapping[Interface, tuple[str, ...]]] = {
    Interface.CHAT: ("max_tokens", "max_completion_tokens"),
    Interface.COMPLETIONS: ("max_tokens",),
    Interface.MESSAGES: ("max_tokens",),
    Interface.RESPONSES: ("max_output_tokens",),
    Interface.GENERATE: ("max_tokens",),
}


def too_many(fields: Mapping[str, object], terms: Terms, within: str = "") -> Iterator[Excess]:
    """Numbers beyond the terms. `within`: the member that holds `fields`; what is too much there cannot be lowered."""
    for name in NUMBERS:
        value = fields.get(name)
        if value is None or (name == "logprobs" and isinstance(value, bool)):
            continue
        cap, least = _cap(name, terms)
        if cap is None:
            continue
        full = f"{within}.{name}" if within else name
        if type(value) is not int or value < least:
            yield Excess(full, f"'{full}' must be a whole number from {least} to {cap}.")
        elif value > cap:
            yield Excess(full, above(full, value, cap), None if within else Change(name, b"%d" % cap))


def _cap(name: str, terms: Terms) -> tuple[int | None, int]:
    """The most and the least that a member may say."""
    if name in BUDGETS:
        return terms.max_tokens, 1
    if name in PARTS:
        return terms.max_tokens, 0
    if name in PROBABILITIES:
        return terms.logprobs, 0
    return (terms.n if name == "n" else terms.best_of), 1


def unbudgeted(fields: Mapping[str, object], nested: Mapping[str, object], interface: Interface) -> str | None:
    """The member to be filled in where a call names no budget and its interface has one. `nested`: what is within."""
    names = _BUDGET.get(interface, ())
    if not names or any(fields.get(name) is not None for name in names):
        return None
    if interface is Interface.GENERATE and nested.get(names[0]) is not None:
        return None
    return names[0]
