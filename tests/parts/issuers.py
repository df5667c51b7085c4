"""OpenID providers on one loopback port that do as they are told, for what no real one can be made to do.

Knows: discovery documents, key sets, scripts of answers. Must not know: how keys and tokens are made, the gateway.
"""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.parts.scripts import Script, sized
from tests.parts.stub import Request, Stub

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/keys"


@dataclass(slots=True)
class Issuer:
    """One provider. `keys` is what it publishes; `instead`, if set, is what it answers in place of the key set.

    `asks`, if set, is the token without which it tells nothing, as a Kubernetes API server does.
    """

    iss: str
    keys: list[object]
    discovery: Mapping[str, object]
    instead: Script | None = None
    asks: str | None = None
    hits: Counter[str] = field(default_factory=Counter)

    @property
    def base(self) -> str:
        """Below it lie its documents (OpenID Connect Discovery 1.0 section 4.1: a final slash goes)."""
        return self.iss.removesuffix("/")

    def document(self) -> object:
        return {"issuer": self.iss, "jwks_uri": self.base + KEYS, **self.discovery}


class Issuers:
    """Providers by their paths until `stop` (or the end of a `with` block). `strays`: what else was asked for."""

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.strays: list[str] = []
        self._routes: dict[str, tuple[Issuer, str]] = {}
        self._stub = Stub(self._answer, port=port, tls=tls)
        self.url = self._stub.url

    def __enter__(self) -> Issuers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add(self, path: str, *keys: object, **discovery: object) -> Issuer:
        """A provider at this path; `discovery` replaces what stands in its document."""
        issuer = Issuer(self.url + path, list(keys), discovery)
        self._routes[issuer.base + DISCOVERY] = issuer, DISCOVERY
        self._routes[issuer.base + KEYS] = issuer, KEYS
        return issuer

    def add_keys(self, path: str, *keys: object) -> Issuer:
        """A set of keys at this very path, without any other document."""
        issuer = Issuer("", list(keys), {})
        self._routes[self.url + path] = issuer, KEYS
        return issuer

    @property
    def requests(self) -> list[Request]:
        """Every request so far."""
        return self._stub.requests

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._stub.stop()

    def _answer(self, request: Request) -> Script:
        issuer, what = self._routes.get(self.url + request.target, (None, ""))
        if issuer is None:
            self.strays.append(request.target)
            return sized(b"{}", 404)
        if issuer.asks is not None and request.values("authorization") != [f"Bearer {issuer.asks}"]:
            issuer.hits["refused"] += 1
            return sized(b'{"kind":"Status","code":401}', 401)
        issuer.hits[what] += 1
        if what == DISCOVERY:
            return sized(json.dumps(issuer.document()).encode())
        # RFC 9111: a provider that calls its keys good for a day may change them all the same.
        whole = sized(json.dumps({"keys": issuer.keys}).encode(), 200, "Cache-Control: max-age=86400")
        return whole if issuer.instead is None else issuer.instead
