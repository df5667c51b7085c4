"""What a simulated model says: the same words for the same prompt, on every machine.

Knows: words, numbers. Must not know: HTTP, JSON, who asks.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Iterator

_TEXT = (
    "a the every one this that small large quiet bright model token tensor kernel stream vector layer prompt answer "
    "gateway request batch cache queue graph weight signal river forest harbour engine morning winter garden letter "
    "runs waits learns carries opens closes reads writes follows returns counts balances under over beside between "
    "after before without within slowly quickly always seldom often again and or while because until"
)
WORDS = tuple(_TEXT.split())


def tokens_of(text: str) -> int:
    """How many tokens the simulated tokenizer sees: words."""
    return len(text.split())


def answer(prompt: str, count: int) -> list[str]:
    """`count` tokens in answer to `prompt`; joined they are the text."""
    numbers = _numbers(prompt)
    words = [WORDS[next(numbers) % len(WORDS)] for _ in range(count)]
    if words:
        words[0] = words[0].capitalize()
    return [word if place == 0 else f" {word}" for place, word in enumerate(words)]


def embedding(text: str, size: int) -> list[float]:
    """A vector of length 1 with `size` numbers."""
    numbers = _numbers(text)
    raw = [next(numbers) / 2**31 - 1.0 for _ in range(size)]
    length = math.sqrt(sum(value * value for value in raw)) or 1.0
    return [value / length for value in raw]


def packed(vector: list[float]) -> str:
    """A vector as `encoding_format: base64` has it: little-endian 32 bit floats."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def logit(query: str, passage: str) -> float:
    """How well a passage fits a query: shared words, with a fraction that keeps equals in a fixed order."""
    shared = len(_bag(query) & _bag(passage))
    return round(4.0 * shared - 8.0 + next(_numbers(f"{query}\n{passage}")) / 2**32, 6)


def _bag(text: str) -> set[str]:
    return {word.strip(".,;:!?").lower() for word in text.split()}


def _numbers(seed: str) -> Iterator[int]:
    """Endless 32 bit numbers out of `seed`."""
    block = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
    while True:
        yield from struct.unpack("<8I", block)
        block = hashlib.sha256(block).digest()
