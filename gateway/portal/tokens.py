"""`POST /auth/token`: a token of the gateway for a name and a password. `GET /.well-known/jwks.json`: its public keys.

Knows: HTTP Basic, the forms of OAuth answers (RFC 6749 section 5). Must not know: directories, keys, how pages look.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from aiohttp import web

from gateway.errors import MethodNotAllowed, NotFound, Refusal, Unidentified
from gateway.identity.credentials.basic import name_and_password
from gateway.identity.passwords.login import first_of
from gateway.identity.refused import BASIC_CHALLENGE, BadLogin, Result
from gateway.identity.tokens.own import NotMinted
from gateway.portal.asked import id_of, peer_of, tell
from gateway.portal.services import Services

TOKEN_PATH: Final = "/auth/token"  # noqa: S105  a path
KEYS_PATH: Final = "/.well-known/jwks.json"

# Seconds that others may keep the key set; a new key signs from the reload on, and whoever meets an unknown key id
# asks again.
KEYS_FRESH: Final = 300

_BASIC_ONLY: Final = "Send your name and password by HTTP Basic."

# RFC 6749 section 5.2: who authenticates by the Authorization field and fails gets 401 and `invalid_client`.
# `slow_down` is of RFC 8628 section 3.5, `temporarily_unavailable` of RFC 6749 section 4.1.2.1.
_ERRORS: Final = {
    401: "invalid_client",
    403: "access_denied",
    404: "invalid_request",
    405: "invalid_request",
    429: "slow_down",
    503: "temporarily_unavailable",
}

Answer = Callable[[web.Request], Awaitable[web.Response]]

_log = logging.getLogger(__name__)


def routes(services: Services) -> Iterable[web.AbstractRouteDef]:
    """The routes of this part."""

    async def token(request: web.Request) -> web.Response:
        _needs_keys(services)
        return await _issued(services, request)

    async def keys(_: web.Request) -> web.Response:
        _needs_keys(services)
        fresh = {"Cache-Control": f"public, max-age={KEYS_FRESH}"}
        return web.json_response(services.key_set(), headers=fresh)

    return (
        web.post(TOKEN_PATH, _for_programs(token)),
        web.get(KEYS_PATH, _for_programs(keys)),
        web.route("*", TOKEN_PATH, _for_programs(_only("POST"))),
        web.route("*", KEYS_PATH, _for_programs(_only("GET"))),
    )


def _for_programs(answer: Answer) -> Answer:
    """`answer`, with refusals as OAuth has them."""

    async def answered(request: web.Request) -> web.Response:
        try:
            return await answer(request)
        except Refusal as refusal:
            tell(request, refusal.detail or refusal.code)
            _log_refused(request, refusal.detail or refusal.code)
            return _refused(refusal)
        except NotMinted as error:
            tell(request, "not_minted")
            _log_refused(request, "not_minted")
            return _error(403, str(error), {})

    return answered


def _only(method: str) -> Answer:
    """For every other one."""

    async def refused(_: web.Request) -> web.Response:
        raise MethodNotAllowed(headers=((b"allow", method.encode("ascii")),))

    return refused


async def _issued(services: Services, request: web.Request) -> web.Response:
    """Raises `Refusal` and `NotMinted`. The body is not looked at: there is one grant, and nothing to choose."""
    name, password = _credential(request)
    _, principal = await first_of(services.directories, name, password, peer_of(request))
    if not services.still(principal):
        raise BadLogin(Result.REVOKED)
    minted = services.mint(principal)
    tell(request, principal=principal, credential=minted.id)
    _log.info(
        "token.issued subject=%r provider=%s id=%s request_id=%s",
        principal.subject,
        principal.provider,
        minted.id,
        id_of(request),
    )
    return web.json_response({"access_token": minted.text, "token_type": "Bearer", "expires_in": int(minted.lifetime)})


def _credential(request: web.Request) -> tuple[str, str]:
    """Raises `Unidentified`."""
    values = request.headers.getall("Authorization", [])
    pair = name_and_password(values[0].encode("latin-1", "replace")) if len(values) == 1 else None
    if pair is None:
        if len(values) > 1:
            raise BadLogin(Result.MALFORMED)
        raise Unidentified(_BASIC_ONLY, detail="no_credential", headers=((b"www-authenticate", BASIC_CHALLENGE),))
    return pair


def _refused(refusal: Refusal) -> web.Response:
    headers = {name.decode("ascii"): value.decode("ascii") for name, value in refusal.headers}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    return _error(refusal.status, refusal.message, headers)


def _error(status: int, text: str, headers: Mapping[str, str]) -> web.Response:
    """RFC 6749 section 5.2."""
    body = {"error": _ERRORS.get(status, "server_error"), "error_description": text}
    return web.json_response(body, status=status, headers=headers)


def _needs_keys(services: Services) -> None:
    if not services.mints:
        raise NotFound("No key is configured for tokens of the gateway (identity.tokens).")


def _log_refused(request: web.Request, reason: str) -> None:
    """The name that was typed is left out: it may be a password, typed a line too early."""
    _log.warning("token.refused reason=%r peer=%s request_id=%s", reason, peer_of(request), id_of(request))
