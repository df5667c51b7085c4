"""What an OpenID provider says of itself, and the documents it names (OpenID Connect Discovery 1.0, RFC 8414).

Knows: that a document must name its issuer, that addresses must be https. Must not know: what they are asked for, when.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import orjson

from gateway.call import Fields
from gateway.fetch import Fetch
from gateway.settings import MIB, OidcIssuer

DOCUMENT_LIMIT = MIB  # real documents and key sets take a few KiB


class Unusable(Exception):  # noqa: N818  a reason for the log
    """The provider answered something that is not taken."""


class Discovery:
    """Asks the provider of `settings`. One question takes at most `patience` seconds."""

    def __init__(self, settings: OidcIssuer, fetch: Fetch, tls: ssl.SSLContext | None, patience: float) -> None:
        self._settings = settings
        self._fetch = fetch
        self._tls = tls
        self._patience = patience

    async def address(self, member: str, given: str | None) -> str:
        """The address the provider has for `member`, where it is not `given`. Raises `Unusable` or `FetchFailed`."""
        if given is not None:
            self._check_scheme(given, given, member)
            return given
        return self.address_in(await self.itself(), member)

    async def itself(self) -> Mapping[str, object]:
        """All that the provider says of itself. Section 4.3: `issuer` must be exactly the one that was asked.

        Raises `Unusable` or `FetchFailed`.
        """
        issuer = self._settings.issuer
        self._check_scheme(issuer, issuer, "the issuer")
        url = issuer.removesuffix("/") + "/.well-known/openid-configuration"
        document = await self.document(url, "the discovery document")
        if not isinstance(document, dict) or document.get("issuer") != issuer:
            raise Unusable("the discovery document names another issuer than the configured one")
        return document

    def address_in(self, document: Mapping[str, object], member: str) -> str:
        """The address that `document`, what the provider says of itself, has for `member`. Raises `Unusable`."""
        address = document.get(member)
        if not isinstance(address, str):
            raise Unusable(f"the discovery document names no {member}")
        self._check_scheme(address, self._settings.issuer, member)
        return address

    async def document(self, url: str, what: str) -> object:
        """The JSON at `url`; `what` it is, for the log. Raises `Unusable` or `FetchFailed`."""
        fields = self._credential(url)
        answer = await self._fetch.get(url, timeout=self._patience, limit=DOCUMENT_LIMIT, fields=fields, tls=self._tls)
        if answer.status != 200:
            raise Unusable(f"{what} was answered with status {answer.status}")
        try:
            document: object = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            raise Unusable(f"{what} is not JSON") from None
        return document

    def _credential(self, url: str) -> Fields:
        """The gateway's own, for the configured server only: a document may name another one, which must not get it."""
        settings = self._settings
        if settings.discovery_token is None or _origin(url) != _origin(settings.jwks_uri or settings.issuer):
            return ()
        return ((b"authorization", f"Bearer {settings.discovery_token}".encode()),)

    def _check_scheme(self, url: str, named_by: str, what: str) -> None:
        """What came over plain HTTP is worth nothing, except from this machine or where it was asked for."""
        if url.startswith("https://") or self._settings.allow_insecure:
            return
        if _loopback(url) and _loopback(named_by):
            return
        raise Unusable(f"{what} is not https")


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port (RFC 6454 section 4); of nothing that is configured where `url` is none."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


def _loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return url.startswith(("http://", "https://")) and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False
