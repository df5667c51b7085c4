"""What a grant asks of a call: the most it may want, and the fields that reach into the engine.

Knows: its own fields. Must not know: bodies, rules, how a call is held against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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


#: Of a rule that says nothing about it.
NO_TERMS = Terms()
