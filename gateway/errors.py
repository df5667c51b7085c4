"""Why a call stops: one family of refusals, and how each protocol says them.

Knows: codes, sides, the retry flag, the status tables.
Must not know: who raises them, or how a body spells them (`dialects` does).
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Self


class Side(Enum):
    """Whose doing it was; only `UPSTREAM` counts against a backend."""

    CLIENT = "client"
    GATEWAY = "gateway"
    UPSTREAM = "upstream"


class Refusal(Exception):  # noqa: N818  the word for it everywhere: the call is refused, the gateway is well
    """A call that stops here.

    `message` goes to the caller: what is needed, in words a client developer can act on, and nothing of other tenants.
    `detail` goes to the log only. `param` names the field at fault. `retry_after` is whole seconds, 1 to 60.
    `retry` says that nothing was executed, so another backend may be tried while the answer has not begun.
    """

    code: ClassVar[str] = "internal_error"
    side: ClassVar[Side] = Side.GATEWAY
    retry: ClassVar[bool] = False
    result: ClassVar[str] = "error"
    default: ClassVar[str] = "The gateway failed to handle this call."
    rule: str = ""  # the id of the policy rule that refused, if one did

    def __init__(
        self,
        message: str = "",
        *,
        detail: str = "",
        param: str | None = None,
        retry_after: int | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.message = message or self.default
        super().__init__(self.message)
        self.detail = detail
        self.param = param
        self.retry_after = retry_after
        self.headers = headers

    @property
    def status(self) -> int:
        """The HTTP status of this refusal."""
        return HTTP_STATUS[self.code]


class Unidentified(Refusal):
    """No credential, or one that does not hold. `headers` carries the `WWW-Authenticate` challenges."""

    code, side, result = "invalid_api_key", Side.CLIENT, "denied"
    default = "A credential is needed: send 'Authorization: Bearer <token>'."


class IdentityUnavailable(Refusal):
    """The provider that would know the caller cannot be asked; never blurred with a bad credential."""

    code = "identity_unavailable"
    default = "The identity provider cannot be asked at the moment; try again shortly."


class Forbidden(Refusal):
    code, side, result = "model_not_allowed", Side.CLIENT, "denied"
    default = "You are not allowed to use this model."


class GroupsUnknown(Refusal):
    """There are more groups than the token or the directory tells (overage), and no rule without groups let it in."""

    code, side, result = "groups_overage", Side.CLIENT, "denied"
    default = (
        "Your groups are not all known here because there are too many; "
        "ask your administrator to limit those that are told to the ones this application needs."
    )


class UnknownModel(Refusal):
    code, side, result = "model_not_found", Side.CLIENT, "invalid"
    default = (
        "No model of this name is served here; names are case-sensitive, and GET /v1/models lists those you may use."
    )


class NotFound(Refusal):
    """A route that is closed or does not exist: the two look alike, whoever asks."""

    code, side, result = "not_found", Side.CLIENT, "invalid"
    default = "Nothing is served at this path with this method."


class RouteForbidden(Refusal):
    """A closed route that a policy names and denies."""

    code, side, result = "route_not_allowed", Side.CLIENT, "denied"
    default = "You are not allowed to use this route."


class AmbiguousModel(Refusal):
    code, side, result = "ambiguous_model", Side.CLIENT, "invalid"
    default = "The model must be named exactly once."


class BadRequest(Refusal):
    code, side, result = "invalid_request", Side.CLIENT, "invalid"
    default = "The request is malformed."


class CapExceeded(Refusal):
    """The call asks for more than the rules that let it in allow. `param` names the field."""

    code, side, result = "cap_exceeded", Side.CLIENT, "denied"
    default = "The call asks for more than you are allowed to ask for."


class UnsupportedMedia(Refusal):
    code, side, result = "unsupported_media_type", Side.CLIENT, "invalid"
    default = "This content type or content coding is not taken here."


class MethodNotAllowed(Refusal):
    code, side, result = "method_not_allowed", Side.CLIENT, "invalid"
    default = "This method is not taken here."


class ExpectationFailed(Refusal):
    code, side, result = "expectation_failed", Side.CLIENT, "invalid"
    default = "The only expectation taken is '100-continue'."


class Misdirected(Refusal):
    code, side, result = "misdirected_request", Side.CLIENT, "invalid"
    default = "The request names a host that is not served here."


class RequestTimeout(Refusal):
    code, side, result = "request_timeout", Side.CLIENT, "timeout"
    default = "The request did not arrive in time."


class TooLarge(Refusal):
    code, side, result = "request_too_large", Side.CLIENT, "invalid"
    default = "The request body is larger than allowed here."

    @classmethod
    def beyond(cls, limit: int) -> Self:
        """A body of more than `limit` bytes."""
        return cls(f"The request body is larger than the {limit} bytes allowed here.", detail=f"body > {limit} bytes")


class HeaderTooLarge(Refusal):
    code, side, result = "request_too_large", Side.CLIENT, "invalid"
    default = "The request header is larger than allowed here."

    @property
    def status(self) -> int:
        """RFC 6585 §5: the same code as a body that is too large, but a status of its own."""
        return 431


class RateLimited(Refusal):
    code, side, result = "rate_limit_exceeded", Side.CLIENT, "limited"
    default = "Too many requests; wait before the next one."


class LoginThrottled(RateLimited):
    """Too many failed logins of this account or from this address; nothing was asked of a directory."""

    default = "Too many logins failed; wait before the next one."


class NoBackend(Refusal):
    code, result = "no_backend", "upstream_error"
    default = "No healthy backend serves this model at the moment; try again shortly."


class ConnectFailed(Refusal):
    """Nothing reached the backend, so another one may be tried."""

    code, side, retry, result = "upstream_error", Side.UPSTREAM, True, "upstream_error"
    default = "The backend could not be reached."


class UpstreamBusy(Refusal):
    """The backend answered 502, 503 or 504 and the answer's body has not begun."""

    code, side, retry, result = "upstream_error", Side.UPSTREAM, True, "upstream_error"
    default = "The backend could not take the call."


class UpstreamBroke(Refusal):
    """The backend closed before its answer began."""

    code, side, result = "upstream_error", Side.UPSTREAM, "upstream_error"
    default = "The backend closed the connection or answered something that is not HTTP."


class UpstreamNonsense(UpstreamBroke):
    """What the backend sent is no HTTP answer."""


class Overloaded(Refusal):
    """A bound that all callers share was reached; nothing was executed, and soon there may be room."""

    code, result = "overloaded", "limited"
    default = "The gateway holds as much as it can at the moment; send the call again shortly."


class UpstreamTimeout(Refusal):
    code, side, result = "upstream_timeout", Side.UPSTREAM, "timeout"
    default = "The backend did not answer in time."


class Truncated(Refusal):
    """The answer had begun and broke off; the caller must be able to tell."""

    code, side, result = "stream_truncated", Side.UPSTREAM, "truncated"
    default = "The backend closed the stream before it was complete."


class Stalled(Truncated):
    """The answer had begun and then nothing came for the idle limit."""

    result = "timeout"
    default = "The backend stopped sending before its answer was complete."


class ClientGone(Refusal):
    code, side, result = "client_gone", Side.CLIENT, "client_gone"
    default = "The client went away."


class Stopping(Refusal):
    """The gateway's own drain time ran out."""

    code, result = "shutting_down", "error"
    default = "The gateway is shutting down; try again."


HTTP_STATUS: dict[str, int] = {
    "invalid_request": 400,
    "ambiguous_model": 400,
    "cap_exceeded": 400,
    "invalid_api_key": 401,
    "model_not_allowed": 403,
    "groups_overage": 403,
    "route_not_allowed": 403,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "request_too_large": 413,
    "unsupported_media_type": 415,
    "expectation_failed": 417,
    "misdirected_request": 421,
    "rate_limit_exceeded": 429,
    "client_gone": 499,
    "internal_error": 500,
    "upstream_error": 502,
    "stream_truncated": 502,
    "no_backend": 503,
    "identity_unavailable": 503,
    "shutting_down": 503,
    "overloaded": 503,
    "upstream_timeout": 504,
}

# google.rpc.Code, for the gRPC door: https://grpc.io/docs/guides/status-codes/
GRPC_CODE: dict[str, int] = {
    "client_gone": 1,
    "invalid_request": 3,
    "ambiguous_model": 3,
    "cap_exceeded": 3,
    "unsupported_media_type": 3,
    "expectation_failed": 3,
    "misdirected_request": 3,
    "upstream_timeout": 4,
    "request_timeout": 4,
    "model_not_found": 5,
    "model_not_allowed": 7,
    "groups_overage": 7,
    "route_not_allowed": 7,
    "request_too_large": 8,
    "rate_limit_exceeded": 8,
    "not_found": 12,
    "method_not_allowed": 12,
    "internal_error": 13,
    "upstream_error": 14,
    "stream_truncated": 14,
    "no_backend": 14,
    "identity_unavailable": 14,
    "shutting_down": 14,
    "overloaded": 14,
    "invalid_api_key": 16,
}
