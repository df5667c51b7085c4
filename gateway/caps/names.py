"""Names of members that limits speak of or that are closed.

Knows: lists of names. Must not know: limits, bodies.
"""

from __future__ import annotations

from typing import Final

from gateway.caps.numbers import means_a_number
from gateway.terms import ENGINE_FIELDS

#: Lists of tools.
TOOLS: Final = frozenset(("tools", "functions"))

#: Members of which each item is a prompt.
PROMPTS: Final = frozenset(("prompt", "prompt_embeds", "messages", "input", "text_input"))

#: Members that name an adapter below the top level, where nobody compares them with the model that was asked for.
ADAPTERS: Final = frozenset(("lora_name", "lora_path", "lora_request"))

_NOTED: Final = ENGINE_FIELDS | TOOLS | PROMPTS | ADAPTERS


def noted(name: str) -> bool:
    """Whether a member of this name is looked at."""
    return name in _NOTED or means_a_number(name)
