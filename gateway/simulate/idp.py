"""A simulated OpenID provider: discovery, keys, access tokens. For the demo and for trying out policies; not for more.

Knows: the endpoints, OAuth errors. Must not know: how tokens are signed, where accounts are kept.
Sources: OpenID Connect Discovery 1.0; RFC 6749 (tokens, errors), RFC 7662 (introspection), RFC 8707 (resource).
"""

from __future__ import annotations

import argparse
import base64
import binascii
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import unquote_plus

from aiohttp import web

import gateway.simulate.web as sim_web
from gateway.simulate.idp_accounts import Account, Accounts, kept
from gateway.simulate.idp_tokens import ALGORITHMS, Signer, Subject

ACCOUNTS = ".demo/idp-accounts.json"
#: Larger forms than this are nobody's token request.
MAX_FORM = 64 * 1024
LONGEST_LIFETIME = 7 * 24 * 3600
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}

Form = Mapping[str, str]


class OAuthError(Exception):
    """An error of RFC 6749 section 5.2."""

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Provider:
    """What the endpoints need. `lifetime` of tokens is in seconds."""

    signer: Signer
    accounts: Accounts
    audience: str
    algorithm: str
    lifetime: int

    def client_of(self, request: web.Request, form: Form) -> Account:
        """The client that proved itself, by Basic or in the form (RFC 6749 section 2.3.1). Raises `OAuthError`."""
        name, secret = _basic(request.headers.get("Authorization", "")) or (
            form.get("client_id", ""), form.get("client_secret", "")
        )  # fmt: skip
        client = self.accounts.clients.get(name)
        if client is None or not client.proves(secret):
            raise OAuthError("invalid_client", "unknown client or wrong secret", 401)
        return client

    def by_password(self, client: Account, form: Form) -> Subject:
        """Whom a user name and password stand for. Raises `OAuthError`."""
        user = self.accounts.users.get(form.get("username", ""))
        if user is None or not user.proves(form.get("password", "")):
            raise OAuthError("invalid_grant", "unknown user or wrong password")
        return Subject(user.name, client.name, user.groups, form.get("scope", "openid"))

    def by_client(self, client: Account, form: Form) -> Subject:
        """The client itself."""
        return Subject(client.name, client.name, client.groups, form.get("scope", ""))


Page = Callable[[Provider, web.Request], Awaitable[web.StreamResponse]]
GRANTS: dict[str, Callable[[Provider, Account, Form], Subject]] = {
    "client_credentials": Provider.by_client,
    "password": Provider.by_password,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part beside those that all parts have."""
    parser.add_argument("--issuer", help="the issuer's name (default: the URL it listens on)")
    parser.add_argument("--audience", default="nim-gateway", help="aud of the tokens (default: nim-gateway)")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="RS256", help="how tokens are signed")
    parser.add_argument("--lifetime", type=int, default=3600, metavar="SECONDS", help="of the tokens (default: 3600)")
    parser.add_argument(
        "--accounts", type=Path, default=Path(ACCOUNTS), metavar="FILE", help=f"made when missing (default: {ACCOUNTS})"
    )


def builder(args: argparse.Namespace) -> sim_web.Build:
    """What builds the application once its address is known. Raises ValueError, OSError for bad options or accounts."""
    if abs(args.lifetime) > LONGEST_LIFETIME:
        raise ValueError(f"--lifetime must be within {LONGEST_LIFETIME} seconds, not {args.lifetime}")
    accounts = kept(args.accounts)

    def build_at(url: str) -> web.Application:
        signer = Signer(args.issuer or url, time.time)
        provider = Provider(signer, accounts, args.audience, args.algorithm, args.lifetime)
        return build(provider, rotation=args.knobs)

    return build_at


def build(provider: Provider, *, rotation: bool = False) -> web.Application:
    """The provider's endpoints; `rotation` lets whoever reaches it change its keys with `POST /sim/rotate`."""
    app = web.Application(middlewares=[errors], client_max_size=MAX_FORM)
    for method, path, page in ROUTES:
        app.router.add_route(method, path, partial(page, provider))
    if rotation:
        app.router.add_post("/sim/rotate", partial(rotate, provider))
    return app


@web.middleware
async def errors(request: web.Request, handler: sim_web.Handler) -> web.StreamResponse:
    """OAuth errors as RFC 6749 section 5.2 says them."""
    try:
        return await handler(request)
    except OAuthError as error:
        headers = {**NO_STORE, **({"WWW-Authenticate": 'Basic realm="idp"'} if error.status == 401 else {})}
        body = {"error": error.code, "error_description": str(error)}
        return web.json_response(body, status=error.status, headers=headers)


async def discovery(provider: Provider, _request: web.Request) -> web.Response:
    """OpenID Connect Discovery 1.0, section 4."""
    issuer = provider.signer.issuer
    return web.json_response(
        {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/jwks",
            "token_endpoint": f"{issuer}/token",
            "introspection_endpoint": f"{issuer}/introspect",
            "grant_types_supported": list(GRANTS),
            "response_types_supported": [],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": list(ALGORITHMS),
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "claims_supported": ["iss", "sub", "aud", "exp", "iat", "jti", "client_id", "scope", "groups"],
        }
    )


async def keys(provider: Provider, _request: web.Request) -> web.Response:
    """The public keys."""
    return web.json_response(provider.signer.published())


async def token(provider: Provider, request: web.Request) -> web.Response:
    """An access token for a client, or (demo only) for a user by password."""
    form = await _form(request)
    client = provider.client_of(request, form)
    grant = GRANTS.get(form.get("grant_type", ""))
    if grant is None:
        raise OAuthError("unsupported_grant_type", f"there are: {', '.join(GRANTS)}")
    subject = grant(provider, client, form)
    audience = form.get("resource") or form.get("audience") or provider.audience
    signed = provider.signer.sign(subject, audience, provider.algorithm, provider.lifetime)
    body = {"access_token": signed, "token_type": "Bearer", "expires_in": provider.lifetime, "scope": subject.scope}
    return web.json_response(body, headers=NO_STORE)


async def introspect(provider: Provider, request: web.Request) -> web.Response:
    """Whether a token holds (RFC 7662); only a client may ask."""
    form = await _form(request)
    provider.client_of(request, form)
    claims = provider.signer.claims_of(form.get("token", ""))
    body = {"active": False} if claims is None else {"active": True, "token_type": "Bearer", **claims}
    return web.json_response(body, headers=NO_STORE)


async def rotate(provider: Provider, request: web.Request) -> web.Response:
    """New keys; with `?drop=1` the former are no longer published."""
    provider.signer.rotate(drop=request.query.get("drop") == "1")
    return web.json_response(provider.signer.published())


ROUTES: tuple[tuple[str, str, Page], ...] = (
    ("GET", "/.well-known/openid-configuration", discovery),
    ("GET", "/jwks", keys),
    ("POST", "/token", token),
    ("POST", "/introspect", introspect),
)


async def _form(request: web.Request) -> dict[str, str]:
    """The fields of the form, each once (RFC 6749 section 3.2). Raises `OAuthError`."""
    given = await request.post()
    if len(given) != len(set(given)):
        raise OAuthError("invalid_request", "a field stands twice")
    return {name: value for name, value in given.items() if isinstance(value, str)}


def _basic(header: str) -> tuple[str, str] | None:
    """Name and secret out of `Authorization: Basic`, both form-encoded as RFC 6749 section 2.3.1 wants."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise OAuthError("invalid_client", "the Basic credential is malformed", 401) from None
    return unquote_plus(name), unquote_plus(secret)
