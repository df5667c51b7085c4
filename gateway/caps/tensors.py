"""Bodies whose members are the tensors of a model on Triton, and what the model's maker called them.

What is not known to be harmless may be a budget of the model's own, so such a number is held to the lowest limit.
Knows: tensors of Triton's models for texts (vLLM, TensorRT-LLM). Must not know: limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from gateway.caps.members import LONGEST, SAID, plain
from gateway.caps.names import noted

# How tokens are chosen and weighed, never how many there are.
_HARMLESS: Final = frozenset(
    (
        "bad_words", "beam_search_diversity_rate", "early_stopping", "embedding_bias_weights", "embedding_bias_words",
        "end_id", "exclude_input_from_output", "exclude_input_in_output", "frequency_penalty", "id", "len_penalty",
        "length_penalty", "min_p", "pad_id", "presence_penalty", "random_seed", "repetition_penalty", "runtime_top_k",
        "runtime_top_p", "seed", "stop_token_ids", "stop_words", "temperature", "top_k", "top_p",
    )
)  # fmt: skip

# Words that are looked for in an answer, beside which there are only prompts.
_WORDS: Final = frozenset(("bad_words", "embedding_bias_words", "stop", "stop_words"))


def highest(fields: Mapping[str, object]) -> tuple[float, str]:
    """The highest number whose meaning nobody knows, and the member that holds it; no number is higher than a negative
    one, which some take for no limit."""
    found: tuple[float, str] = (0.0, "")
    waiting: list[tuple[str, object]] = list(fields.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.items())
        elif name not in _HARMLESS and name not in SAID and not noted(name):
            number = _highest(value)
            if number > found[0]:
                found = (number, plain(name) or name[:LONGEST])
    return found


def texts(fields: Mapping[str, object]) -> tuple[str, int]:
    """The member of the top level that holds the most texts, and how many they are."""
    counted = [
        (len(value), name)
        for name, value in fields.items()
        if isinstance(value, list) and name not in _WORDS and any(isinstance(each, str) for each in value)
    ]
    count, name = max(counted, default=(0, ""))
    return name, count


def _highest(value: object) -> float:
    """The highest number in a value; an object in a list could hold any."""
    most = 0.0
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            most = inf
        elif isinstance(value, int | float):
            most = max(most, float(value) if value >= 0 else inf)
    return most
