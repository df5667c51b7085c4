"""A provider on loopback whose answers to a login are written by the test: what no real one can be made to say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from gateway.identity.contracts import Begun
from tests.identity.provider import Provider
from tests.identity.signers import Json, Mint, rsa_signer

CLIENT, SECRET = "pages", "a secret of the client"
BACK = "https://gw.test/auth/callback/corp"


class CodeProvider(Provider):
    """`id_token` makes the ID token from the claims that a good one has; `person` is what UserInfo says, None: nothing.

    `answer` is given instead by the token endpoint, after `hold` is set, if there is one. It says nothing of itself
    until `silent` is set, if there is one. `redeemed` holds forms and header fields of requests for a token.
    """

    def __init__(self, now: float) -> None:
        super().__init__(rsa_signer("k1").jwk())
        self._now = now
        self.claims: Json = {}
        self.id_token: Callable[[Json], str] = rsa_signer("k1").sign
        self.answer: Callable[[], web.Response] | None = None
        self.person: Json | str | None = None
        self.person_status = 200
        self.silent: asyncio.Event | None = None
        self.hold: asyncio.Event | None = None
        self.redeemed: list[tuple[dict[str, list[str]], dict[str, str]]] = []

    @property
    def mint(self) -> Mint:
        return Mint(self.issuer, rsa_signer("k1"), self._now)

    async def start(self) -> None:
        await super().start()
        self.discovery = {
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
            "token_endpoint": f"{self.issuer}/token",
            **({} if self.person is None else {"userinfo_endpoint": f"{self.issuer}/me"}),
            **self.discovery,
        }

    def routes(self) -> list[web.RouteDef]:
        return [*super().routes(), web.post("/token", self._token), web.get("/me", self._me)]

    def sent_to(self, url: str) -> dict[str, str]:
        """The parameters of the authorization request."""
        assert url.startswith(f"{self.issuer}/authorize?tenant=1&")
        return {name: value for name, (value,) in parse_qs(urlsplit(url).query, strict_parsing=True).items()}

    def says(self, begun: Begun, **more: object) -> None:
        """The next ID token; a value of `...` leaves a claim out."""
        claims = {"aud": CLIENT, "nonce": begun.nonce, "groups": ..., **more}
        self.claims = self.mint.claims(**claims)

    async def _discovery(self, request: web.Request) -> web.Response:
        if self.silent is not None:
            self.hits["discovery"] += 1
            await self.silent.wait()
        return await super()._discovery(request)

    async def _token(self, request: web.Request) -> web.Response:
        self.hits["token"] += 1
        if self.hold is not None:
            await self.hold.wait()
        self.redeemed.append((parse_qs((await request.read()).decode()), dict(request.headers)))
        if self.answer is not None:
            return self.answer()
        return web.json_response(
            {"id_token": self.id_token(self.claims), "access_token": "at-1", "token_type": "Bearer"}
        )

    async def _me(self, request: web.Request) -> web.Response:
        self.hits["me"] += 1
        assert request.headers["Authorization"] == "Bearer at-1"
        said = self.person if isinstance(self.person, str) else json.dumps(self.person)
        return text(self.person_status, said)()


def text(status: int, body: str) -> Callable[[], web.Response]:
    return lambda: web.Response(status=status, text=body, content_type="application/json")
