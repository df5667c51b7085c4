"""How each protocol spells a refusal: error bodies, and error events within a stream that has begun.

Knows: three shapes of an error, the words their clients branch on. Must not know: why a call was refused, HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from gateway.call import Dialect
from gateway.errors import Refusal

JSON = b"application/json"

# What users of the `openai` SDK branch on beside the status; any other code is a request error or, from 500, ours.
OPENAI_TYPE: dict[str, str] = {
    "model_not_allowed": "permission_error",
    "groups_overage": "permission_error",
    "route_not_allowed": "permission_error",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "no_backend": "service_unavailable",
    "identity_unavailable": "service_unavailable",
    "shutting_down": "service_unavailable",
    "overloaded": "service_unavailable",
    "upstream_error": "upstream_error",
    "upstream_timeout": "upstream_error",
    "stream_truncated": "upstream_error",
}

# https://docs.anthropic.com/en/api/errors
ANTHROPIC_TYPE: dict[str, str] = {
    "invalid_api_key": "authentication_error",
    "model_not_allowed": "permission_error",
    "groups_overage": "permission_error",
    "route_not_allowed": "permission_error",
    "model_not_found": "not_found_error",
    "not_found": "not_found_error",
    "request_too_large": "request_too_large",
    "rate_limit_exceeded": "rate_limit_error",
    "no_backend": "overloaded_error",
    "identity_unavailable": "overloaded_error",
    "shutting_down": "overloaded_error",
    "overloaded": "overloaded_error",
}


def dialect_of(path: str) -> Dialect:
    """Whose errors a caller of this path (behind any prefix) understands."""
    if path.startswith("/v2"):
        return Dialect.KSERVE
    return Dialect.ANTHROPIC if path.startswith("/v1/messages") else Dialect.OPENAI


def render(refusal: Refusal, dialect: Dialect) -> tuple[bytes, bytes]:
    """Content type and body of an error answer."""
    return JSON, _BODIES[dialect](refusal)


def error_event(refusal: Refusal, dialect: Dialect) -> bytes | None:
    """What to write at the edge of an event so that a cut stream is seen to be cut; None where no such event exists."""
    return _EVENTS[dialect] + _BODIES[dialect](refusal) + b"\n\n"


def _openai(refusal: Refusal) -> bytes:
    kind = OPENAI_TYPE.get(refusal.code) or ("invalid_request_error" if refusal.status < 500 else "server_error")
    return _dump({"error": {"message": refusal.message, "type": kind, "param": refusal.param, "code": refusal.code}})


def _anthropic(refusal: Refusal) -> bytes:
    kind = ANTHROPIC_TYPE.get(refusal.code) or ("invalid_request_error" if refusal.status < 500 else "api_error")
    return _dump({"type": "error", "error": {"type": kind, "message": refusal.message}})


def _kserve(refusal: Refusal) -> bytes:
    return _dump({"error": refusal.message})


_BODIES: dict[Dialect, Callable[[Refusal], bytes]] = {
    Dialect.OPENAI: _openai,
    Dialect.ANTHROPIC: _anthropic,
    Dialect.KSERVE: _kserve,
}

_EVENTS: dict[Dialect, bytes] = {
    Dialect.OPENAI: b"data: ",
    Dialect.ANTHROPIC: b"event: error\ndata: ",
    Dialect.KSERVE: b"data: ",
}


def _dump(content: object) -> bytes:
    # All ASCII: a message can hold what is no UTF-8 (a lone surrogate) and must still go out, on one line.
    return json.dumps(content, separators=(",", ":")).encode("ascii")
