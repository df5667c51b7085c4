"""What a grant asks of a call: the most it may want, and the fields that reach into the engine.

Knows: its own fields. Must not know: bodies, rules, how a call is held against them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

#: Members of a JSON body that reach into the engine or to other callers: its scheduler, its caches, what it keeps for
#: whom, code and templates that it runs (vLLM, SGLang, TensorRT-LLM, Dynamo). Refused unless a rule names them.
ENGINE_FIELDS: Final = frozenset(
    (
        "agent_hints", "backend_instance_id", "bootstrap_host", "bootstrap_port", "bootstrap_room", "cache_salt",
        "chat_template", "conversation_params", "custom_logit_processor", "custom_params", "data_parallel_rank",
        "decode_worker_id", "disagg_prefill_dp_rank", "disaggregated_params", "ec_transfer_params", "extra_key",
        "kv_transfer_params", "media_io_kwargs", "mm_processor_kwargs", "prefill_worker_id", "priority", "request_id",
        "return_hidden_states", "rid", "routed_dp_rank", "session_control", "session_id", "session_params", "tokenize",
        "vllm_xargs",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which terms a rule lets calls in; None: not limited.

    `max_tokens` to generate, `n`, `best_of` and `logprobs` as engines take them, `prompts` in a list, `images` and
    `tools` in one call, `input` bytes of its body. `remote_media` False: pictures and the like come within the call.
    `engine_fields`: names that are otherwise refused. `clamp`: lower what is too much instead of refusing the call.
    """

    max_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: int | None = None
    prompts: int | None = None
    images: int | None = None
    tools: int | None = None
    input: int | None = None
    remote_media: bool = True
    engine_fields: frozenset[str] = frozenset()
    clamp: bool = False

    @property
    def needs_fields(self) -> bool:
        """Whether a body has to be understood to hold it against these terms."""
        counts = (self.max_tokens, self.n, self.best_of, self.logprobs, self.prompts, self.images, self.tools)
        return not self.remote_media or any(count is not None for count in counts)


#: Of a rule that says nothing about it.
NO_TERMS = Terms()


def covers(wide: Terms, narrow: Terms) -> bool:
    """Whether `wide` surely lets in every call that `narrow` lets in, the call as it is or with something changed.

    What clamps lets in more than what refuses, also where nothing is limited: it leaves engine fields out.
    """
    return all(_lets_in(getattr(wide, field.name), getattr(narrow, field.name)) for field in fields(Terms))


def _lets_in(wide: Any, narrow: Any) -> bool:
    if isinstance(wide, frozenset):
        return bool(wide >= narrow)
    if isinstance(wide, bool):
        return wide or not narrow
    return wide is None or (narrow is not None and bool(wide >= narrow))
