"""OAuth 2.0 as a client speaks it: requests for a provider's endpoints, and what its answers say. No I/O.
The only importer of `authlib`.

Knows: how a client proves who it is, forms of requests and answers. Must not know: sockets, callers, what claims mean.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

from authlib.common.urls import add_params_to_qs
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7009 import prepare_revoke_token_request
from authlib.oauth2.rfc7523 import PrivateKeyJWT
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from joserfc.jwk import ECKey, RSAKey

from gateway.call import Fields
from gateway.fetch import Fetched
from gateway.identity.contracts import Begun
from gateway.identity.signatures.jwt import json_object
from gateway.settings import OAuthClient

# A proof of who the client is goes out at once; what is caught on the way is soon worth nothing.
ASSERTION_SECONDS = 60

DEVICE_INTERVAL = 5.0  # seconds between two questions, where the provider names none (RFC 8628 section 3.2)

RSA_BITS = 2048  # RFC 7518 section 3.3
_CODE = re.compile(r"[a-z_]{1,40}")  # of an error, RFC 6749 section 5.2; it goes into the log
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class OddAnswer(Exception):  # noqa: N818  named for what it is, like the refusals
    """An answer that says nothing about what was asked. `ours`: because the provider does not take this client."""

    def __init__(self, why: str, *, ours: bool = False) -> None:
        super().__init__(why)
        self.ours = ours


class Declined(Exception):  # noqa: N818  likewise
    """The provider says no (RFC 6749 section 5.2): `code` is its word for why, `text` its explanation."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.text = text


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
        try:
            self._key = None if key is None else signing_key(key)
        except ValueError as error:
            raise ValueError(f"the private key of OAuth client {self.id} cannot be used: {error}") from None
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


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a device shows and polls with (RFC 8628 section 3.2). `lifetime` and `interval` are seconds."""

    code: str = field(repr=False)
    user_code: str
    uri: str
    uri_with_code: str | None
    lifetime: float
    interval: float


def device_authorization(client: Client, endpoint: str, more: Mapping[str, str]) -> Request:
    """Ask for a code for somebody to type elsewhere; `more`: `scope`, `resource` (RFC 8628 section 3.1)."""
    return client.post(endpoint, add_params_to_qs("", sorted(more.items())))


def device_code(answer: Fetched) -> DeviceCode:
    """Raises `OddAnswer` or `Declined`."""
    members = _decided(answer)
    texts = [members.get(name) for name in ("device_code", "user_code", "verification_uri")]
    code, user_code, uri = (one if isinstance(one, str) and one else None for one in texts)
    lifetime = _seconds(members.get("expires_in"))
    if code is None or user_code is None or uri is None or lifetime is None:
        raise OddAnswer("the answer lacks what a device has to show")
    whole = members.get("verification_uri_complete")
    interval = _seconds(members.get("interval")) or DEVICE_INTERVAL
    return DeviceCode(code, user_code, uri, whole if isinstance(whole, str) else None, lifetime, interval)


def device_token(client: Client, endpoint: str, code: DeviceCode, more: Mapping[str, str]) -> Request:
    """Ask whether the code was typed (RFC 8628 section 3.4); `more`: `resource`."""
    return client.post(endpoint, prepare_token_request(DEVICE_CODE_GRANT_TYPE, device_code=code.code, **more))


def access_token(answer: Fetched) -> str:
    """The token that was issued (RFC 6749 section 5.1). Raises `OddAnswer` or `Declined`."""
    token = _decided(answer).get("access_token")
    if not isinstance(token, str) or not token:
        raise OddAnswer("the answer holds no access token")
    return token


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What a provider gives for a code (OpenID Connect Core 1.0 section 3.1.3.3)."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False)


def authorization(client: Client, endpoint: str, scopes: Sequence[str], begun: Begun) -> str:
    """Where to send a browser, so that it comes back with a code (RFC 6749 section 4.1.1, RFC 7636 section 4.3)."""
    url: str = prepare_grant_uri(
        endpoint,
        client.id,
        "code",
        redirect_uri=begun.back,
        scope=list(scopes),
        state=begun.state,
        nonce=begun.nonce,
        code_challenge=create_s256_code_challenge(begun.verifier),
        code_challenge_method="S256",
    )
    return url


def redemption(client: Client, endpoint: str, code: str, begun: Begun) -> Request:
    """Ask for what a code stands for (RFC 6749 section 4.1.3, RFC 7636 section 4.5)."""
    more = {"redirect_uri": begun.back, "code": code, "code_verifier": begun.verifier}
    return client.post(endpoint, prepare_token_request("authorization_code", **more))


def redeemed(answer: Fetched) -> Redeemed:
    """The tokens that were issued. Raises `OddAnswer` or `Declined`."""
    members = _decided(answer)
    id_token, access = members.get("id_token"), members.get("access_token", "")
    if not isinstance(id_token, str) or not isinstance(access, str):
        raise OddAnswer("the answer holds no ID token; the scope openid is needed for one")
    return Redeemed(id_token, access)


def _decided(answer: Fetched) -> Mapping[str, object]:
    """The members of a good answer. Raises `Declined` for an error that has a name, else as `_members`."""
    members = _object(answer.body)
    if answer.status != 200 and members is not None and isinstance(code := members.get("error"), str):
        text = members.get("error_description")
        raise Declined(code, text if isinstance(text, str) else "")
    return _members(answer)


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _members(answer: Fetched) -> Mapping[str, object]:
    """The JSON object of a good answer. RFC 6749 section 5.2: 401, or 400 and a code, says who is not taken."""
    members = _object(answer.body)
    code = members.get("error") if members is not None else None
    if answer.status in {401, 403} or code in {"invalid_client", "unauthorized_client"}:
        raise OddAnswer(f"the provider does not accept this client (status {answer.status})", ours=True)
    if answer.status != 200:
        told = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
        raise OddAnswer(f"status {answer.status}{told}")
    if members is None:
        raise OddAnswer("the answer is not a JSON object, or has a name twice")
    return members


def _object(body: bytes) -> Mapping[str, object] | None:
    """The members of a JSON object that can be read in one way only; None for whatever else."""
    try:
        return json_object(body)
    except ValueError:
        return None


def signing_key(pem: bytes) -> tuple[str, RSAKey | ECKey]:
    """An algorithm and a key for it. Raises `ValueError`."""
    try:
        private = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise ValueError("it is not an unencrypted private key in PEM form") from None
    if isinstance(private, rsa.RSAPrivateKey) and private.key_size >= RSA_BITS:
        return "RS256", RSAKey.import_key(pem)
    if isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name in _CURVES:
        return _CURVES[private.curve.name], ECKey.import_key(pem)
    raise ValueError(f"it is neither RSA of {RSA_BITS} bits or more nor P-256, P-384, P-521")
