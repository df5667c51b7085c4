"""OAuth 2.0 as a client speaks it: requests for a provider's endpoints, and what its answers say. No I/O.
The only importer of `authlib`.

Knows: how a client proves who it is, forms of requests and answers. Must not know: sockets, callers, what claims mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

import orjson
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc7009 import prepare_revoke_token_request
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.jwk import ECKey, RSAKey

from gateway.call import Fields
from gateway.fetch import Fetched
from gateway.settings import OAuthClient

# A proof of who the client is goes out at once; what is caught on the way is soon worth nothing.
ASSERTION_SECONDS = 60

RSA_BITS = 2048  # RFC 7518 section 3.3
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class OddAnswer(Exception):  # noqa: N818  named for what it is, like the refusals
    """An answer that says nothing about what was asked. `ours`: because the provider does not take this client."""

    def __init__(self, why: str, *, ours: bool = False) -> None:
        super().__init__(why)
        self.ours = ours


@dataclass(frozen=True, slots=True)
class Request:
    """A POST to `url`."""

    url: str
    fields: Fields = field(repr=False)
    body: bytes = field(repr=False)


class Client:
    """How the gateway proves who it is: by its secret (`client_secret_basic`, RFC 6749 section 2.3.1) or its key
    (`private_key_jwt`, RFC 7523 section 2.2), else by its name alone. `now` gives UNIX seconds."""

    def __init__(self, settings: OAuthClient, key: bytes | None = None, now: Callable[[], float] = time.time) -> None:
        """`key`: the content of `settings.private_key`. Raises `ValueError` for one that cannot be used."""
        self.id: Final = settings.client_id
        self._secret = settings.client_secret
        self._key = None if key is None else _signing_key(key)
        self._now = now

    def post(self, url: str, body: str) -> Request:
        """A form for an endpoint that wants to know which client asks."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        url, headers, body = self._proof().prepare("POST", url, headers, body)
        fields = tuple((name.lower().encode(), value.encode()) for name, value in headers.items())
        return Request(url, fields, body.encode())

    def _proof(self) -> ClientAuth:
        if self._key is not None:
            algorithm, key = self._key
            now = int(self._now())
            # A new one each time: the library keeps the `jti` it made in the claims it was given.
            claims = {"iat": now, "exp": now + ASSERTION_SECONDS}
            return ClientAuth(self.id, key, PrivateKeyJWT(claims=claims, alg=algorithm))
        if self._secret is None:
            return ClientAuth(self.id, None, "none")
        # RFC 6749 section 2.3.1: both are form-encoded first, which the library leaves to us.
        return ClientAuth(quote_plus(self.id), quote_plus(self._secret), "client_secret_basic")


def introspection(client: Client, endpoint: str, token: str) -> Request:
    """Ask whether a token is active (RFC 7662 section 2.1)."""
    body, _ = prepare_revoke_token_request(token, "access_token")
    return client.post(endpoint, body)


def introspected(answer: Fetched) -> Mapping[str, object] | None:
    """What is known of an active token, None for one that is not (RFC 7662 section 2.2). Raises `OddAnswer`."""
    members = _members(answer)
    active = members.get("active")
    if not isinstance(active, bool):
        raise OddAnswer("the answer does not say whether the token is active")
    return members if active else None


def _members(answer: Fetched) -> Mapping[str, object]:
    """The JSON object of a good answer. RFC 6749 section 5.2: 401, or 400 and a code, says who is not taken."""
    try:
        members = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        members = None
    code = members.get("error") if isinstance(members, dict) else None
    if answer.status in {401, 403} or code in {"invalid_client", "unauthorized_client"}:
        raise OddAnswer(f"the provider does not accept this client (status {answer.status})", ours=True)
    if answer.status != 200:
        raise OddAnswer(f"status {answer.status}")
    if not isinstance(members, dict):
        raise OddAnswer("the answer is not a JSON object")
    return members


def _signing_key(pem: bytes) -> tuple[str, RSAKey | ECKey]:
    """An algorithm and a key for it. Raises `ValueError`."""
    try:
        private = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise ValueError("the private key of the OAuth client is not an unencrypted private key in PEM form") from None
    if isinstance(private, rsa.RSAPrivateKey) and private.key_size >= RSA_BITS:
        return "RS256", RSAKey.import_key(pem)
    if isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name in _CURVES:
        return _CURVES[private.curve.name], ECKey.import_key(pem)
    raise ValueError(f"the private key of the OAuth client is neither RSA of {RSA_BITS} bits or more nor P-256/384/521")
