"""Asking over HTTP during the demo's start: is the gateway ready, and tokens for its users.

Knows: aiohttp, the readiness page, the token endpoint. Must not know: processes, files.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from gateway.demo.children import PartFailed

#: How long the gateway may take until its pools are healthy, in seconds.
READY_WITHIN = 30.0
ASK_EVERY = 0.1
#: One question may take this long, in seconds.
ASK_WITHIN = aiohttp.ClientTimeout(total=5.0)


async def until_ready(base: str, ca: Path) -> None:
    """Wait until the gateway says that it is ready. Raises `PartFailed` when it does not in time."""
    trust = ssl.create_default_context(cafile=ca)
    last = "it did not answer"
    try:
        async with asyncio.timeout(READY_WITHIN), aiohttp.ClientSession(timeout=ASK_WITHIN) as session:
            # Another process cannot set an event here.
            while (last := await _asked(session, f"{base}/v1/health/ready", trust)) != "200":  # noqa: ASYNC110
                await asyncio.sleep(ASK_EVERY)
    except TimeoutError:
        raise PartFailed(f"the gateway was not ready within {READY_WITHIN:.0f} s: {last}") from None


async def token_for(issuer: str, client: tuple[str, str], user: tuple[str, str]) -> str:
    """An access token by name and secret of a client and of a user. Raises `PartFailed`."""
    form = {
        "grant_type": "password",
        "client_id": client[0],
        "client_secret": client[1],
        "username": user[0],
        "password": user[1],
    }
    with _renamed("the identity provider"):
        async with (
            aiohttp.ClientSession(timeout=ASK_WITHIN) as session,
            session.post(f"{issuer}/token", data=form, raise_for_status=True) as answer,
        ):
            return str((await answer.json())["access_token"])


async def _asked(session: aiohttp.ClientSession, url: str, trust: ssl.SSLContext) -> str:
    try:
        async with session.get(url, ssl=trust) as answer:
            return str(answer.status)
    except aiohttp.ClientConnectionError as error:
        return str(error)


@contextmanager
def _renamed(who: str) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
        raise PartFailed(f"{who} could not be asked: {error!r}") from None
