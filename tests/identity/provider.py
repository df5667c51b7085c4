"""An OpenID provider on loopback that can be made to fail in every way a real one will not."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

Answer = Callable[[], Awaitable[web.StreamResponse] | web.StreamResponse]

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/keys"
INTROSPECTION = "/introspect"


class Provider:
    """`keys` is what it publishes; `fail` names one of `FAILURES` for the key set; `hits` counts requests by path.

    `active` is what it tells of tokens that are active; `odd` what it answers instead, to whoever asks about any, and
    those it `refuses` to be asked about.
    """

    def __init__(self, *keys: object) -> None:
        self.keys = list(keys)
        self.fail = ""
        self.discovery: dict[str, Any] = {}
        self.active: dict[str, dict[str, Any]] = {}
        self.odd: Answer | None = None
        self.refuses: Callable[[str], bool] = lambda _: False
        self.asked: list[dict[str, str]] = []
        self.hits: Counter[str] = Counter()
        self.port = 0
        self._released = asyncio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """On the port it had before, if it had one."""
        self._released.clear()
        app = web.Application()
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(DISCOVERY, self._discovery),
            web.get(KEYS, self._keys),
            web.post(INTROSPECTION, self._introspect),
        ]

    async def stop(self) -> None:
        self._released.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _discovery(self, _: web.Request) -> web.Response:
        self.hits["discovery"] += 1
        own = {"jwks_uri": self.issuer + KEYS, "introspection_endpoint": self.issuer + INTROSPECTION}
        return web.json_response({"issuer": self.issuer} | own | self.discovery)

    async def _keys(self, request: web.Request) -> web.StreamResponse:
        self.hits["keys"] += 1
        if self.fail == "hang":
            await self._released.wait()
        if self.fail in ANSWERS:
            return ANSWERS[self.fail]()
        return web.json_response({"keys": self.keys}, status=503 if self.fail == "503 with the keys" else 200)

    async def _introspect(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append(form | {"authorization": request.headers.get("authorization", "")})
        if self.fail == "hang":
            await self._released.wait()
        if self.odd is not None:
            answer = self.odd()
            return answer if isinstance(answer, web.StreamResponse) else await answer
        if self.refuses(form["token"]):
            return web.json_response({"error": "invalid_client"}, status=403)
        told = self.active.get(form["token"])
        return web.json_response({"active": False} if told is None else {"active": True} | told)


def _text(status: int, text: str, **headers: str) -> Callable[[], web.Response]:
    return lambda: web.Response(status=status, text=text, headers=headers)


ANSWERS: dict[str, Callable[[], web.Response]] = {
    "500": _text(500, "oops"),
    "404": _text(404, "gone"),
    "html": _text(200, "<!doctype html><title>Maintenance</title>"),
    "no keys": _text(200, '{"keys":[]}'),
    "null keys": _text(200, '{"keys":null}'),
    "null": _text(200, "null"),
    "a list": _text(200, "[]"),
    "only useless keys": _text(200, '{"keys":[{"kty":"oct","k":"AAAA"},null]}'),
    "truncated": _text(200, '{"keys":[{"kty":"RSA","n":"0'),
    "too large": _text(200, json.dumps({"keys": [], "padding": "x" * 2**21})),
    "redirect": _text(302, "", Location="/elsewhere"),
    "deep": _text(200, "[" * 100_000),
    "not UTF-8": lambda: web.Response(body=b'{"keys":["\xff"]}'),
}
FAILURES = (*ANSWERS, "503 with the keys", "hang", "refused")
