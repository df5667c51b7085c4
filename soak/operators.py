"""What goes on behind the callers' backs: files change, well and badly; the provider fails and rotates; logs rotate.

Knows: the gateway's files and its management port. Must not know: callers.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from gateway.devcerts import Paths
from soak.tokens import Tokens
from tests.identity.provider import FAILURES
from tests.parts.gateway import Gateway, allow, pool

SEEN_WITHIN = 60.0  # seconds until a change shows; two are promised, and a busy machine is slow
POLL = 0.1
SPARE, NOBODY = "spare", "http://127.0.0.1:9"  # a pool that nobody needs, and where nobody listens
#: Ways of the provider to fail that no soak needs: one would stop listening, one answers with megabytes.
UNLIKELY = {"refused", "too large"}


@dataclass(slots=True)
class Operator:
    """Whoever runs the gateway. `rules` always let the callers in; `certificates` are two pairs to change between."""

    gateway: Gateway
    tokens: Tokens
    rules: Sequence[Mapping[str, Any]]
    certificates: Sequence[Paths]
    chance: Random
    changes: int = 0
    shown: int = 0

    async def policy(self) -> str:
        """Another rule, which the callers do not need."""
        self.changes += 1
        more = allow(f"more-{self.changes}", [f"more/{self.changes}/*"])
        return await self._good(lambda: self.gateway.write_rules([*self.rules, more]))

    async def bad_policy(self) -> str:
        """Rules that cannot be; then the good ones again."""
        file = self.gateway.policies / "rules.yaml"
        text = self.chance.choice(("rules: [", "version: 1\nrules: [{id: x, effect: perhaps}]\n", "\x00"))
        return await self._bad(lambda: _put(file, text.encode()), lambda: self.gateway.write_rules(self.rules))

    async def pools(self) -> str:
        """A pool goes, another comes, and the backends of the rest are named in another order."""
        self.changes += 1
        pools = [one for one in self.gateway.config["pools"] if one["name"] != SPARE]
        for one in pools:
            self.chance.shuffle(one["backends"])
        self.gateway.config["pools"] = [*pools, pool(SPARE, [f"more/{self.changes}/model"], NOBODY)]
        return await self._good(self.gateway.write_config)

    async def bad_configuration(self) -> str:
        """A file that cannot be; then the good one again."""
        text = self.chance.choice(("pools: ]", "pools: []\n", "surprise: 1\n"))
        return await self._bad(lambda: _put(self.gateway.config_file, text.encode()), self.gateway.write_config)

    async def certificate(self) -> str:
        """The other certificate and key."""
        self.shown = 1 - self.shown
        return await self._good(lambda: self._show(self.certificates[self.shown]))

    async def bad_certificate(self) -> str:
        """A key that does not fit, or no certificate at all; then a good pair again."""
        shown, other = self.certificates[self.shown], self.certificates[1 - self.shown]
        path = Path(self.gateway.config["listen"]["tls"]["key"])
        content = self.chance.choice((other.key.read_bytes(), b"-----BEGIN NOTHING-----\n"))

        return await self._bad(lambda: _put(path, content), lambda: self._show(shown))

    async def signals(self) -> str:
        """Several SIGHUPs in a row."""
        for _ in range(self.chance.randrange(1, 6)):
            self.gateway.reload()
            await asyncio.sleep(self.chance.uniform(0, 0.1))
        return "sent"

    async def rotation_of_the_audit(self) -> str:
        """The audit file is moved away, as logrotate does."""
        file = Path(self.gateway.config["audit"]["file"])
        file.replace(file.with_suffix(".1"))  # noqa: ASYNC240  a rename on a local disk
        self.gateway.process.signal(signal.SIGHUP)
        await self._seen(lambda _: file.exists(), "a new audit file")
        return "rotated"

    async def provider_fails(self) -> str:
        """The provider answers nonsense, or nothing, for a while; tokens of known keys hold on."""
        self.tokens.provider.fail = self.chance.choice([each for each in FAILURES if each not in UNLIKELY])
        try:
            await asyncio.sleep(self.chance.uniform(0.5, 3))
        finally:
            self.tokens.provider.fail = ""
        return "failed"

    async def _good(self, change: Callable[[], None]) -> str:
        before = await self._generation()
        change()
        await self._seen(lambda status: status["generation"] > before and status["reload"]["successful"], "a change")
        return "taken"

    async def _bad(self, spoil: Callable[[], None], mend: Callable[[], None]) -> str:
        try:
            spoil()
            await self._seen(lambda status: not status["reload"]["successful"], "a mistake")
        finally:
            mend()
        await self._seen(lambda status: status["reload"]["successful"], "a mended mistake")
        return "refused"

    async def _generation(self) -> int:
        return int((await asyncio.to_thread(self.gateway.status))["generation"])

    async def _seen(self, holds: Callable[[Any], bool], what: str) -> None:
        """Poll the status page; raises `TimeoutError` naming what did not show."""
        until = time.monotonic() + SEEN_WITHIN
        while not holds(await asyncio.to_thread(self.gateway.status)):
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not show within {SEEN_WITHIN} s")
            await asyncio.sleep(POLL)

    def _show(self, pair: Paths) -> None:
        tls = self.gateway.config["listen"]["tls"]
        _put(Path(tls["certificate"]), pair.certificate.read_bytes())
        _put(Path(tls["key"]), pair.key.read_bytes())


def _put(path: Path, content: bytes) -> None:
    """At once and whole, as who renews files should."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(content)
    beside.replace(path)


#: By name; one is done at a time, as one operator does.
WORKS: Mapping[str, Callable[[Operator], Awaitable[str]]] = {
    "policy": Operator.policy,
    "bad policy": Operator.bad_policy,
    "pools": Operator.pools,
    "bad configuration": Operator.bad_configuration,
    "certificate": Operator.certificate,
    "bad certificate": Operator.bad_certificate,
    "signals": Operator.signals,
    "audit rotated": Operator.rotation_of_the_audit,
    "provider fails": Operator.provider_fails,
}
