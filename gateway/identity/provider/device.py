"""A login on another device (RFC 8628): a code to show, then asking until somebody has typed it.

Knows: how often to ask, when to give up. Must not know: who shows the code, what the token is for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.fetch import Fetched, FetchFailed
from gateway.identity.provider.oauth import (
    Client,
    Declined,
    DeviceCode,
    OddAnswer,
    Request,
    access_token,
    device_authorization,
    device_code,
    device_token,
)

# Seconds. Providers let a code live for 10 to 30 minutes; whoever has not typed it in an hour has left.
LONGEST: Final = 3600.0

# RFC 8628 section 3.5: `slow_down` adds five seconds; a provider that does not answer is asked half as often each time.
FASTEST: Final = 1.0
SLOWER: Final = 5.0
SLOWEST: Final = 60.0

_ENDED: Final = {
    "access_denied": "the login was declined",
    "expired_token": "the code has expired before anybody logged in with it; try again",
}


class NotLoggedIn(Exception):  # noqa: N818  named for what happened
    """Nobody logged in. One line that says why."""


class DeviceLogin:
    """One login. `ask` sends a request and raises `FetchFailed`; `now` gives steady seconds, `sleep` lets some pass."""

    def __init__(
        self,
        client: Client,
        ask: Callable[[Request], Awaitable[Fetched]],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._client = client
        self._ask = ask
        self._now = now
        self._sleep = sleep

    async def begin(self, endpoint: str, more: Mapping[str, str]) -> DeviceCode:
        """The code to show. `more`: `scope`, `resource`, `audience`. Raises `NotLoggedIn`, `FetchFailed`."""
        try:
            return device_code(await self._asked(device_authorization(self._client, endpoint, more)))
        except Declined as error:
            raise NotLoggedIn(_said(error)) from None
        except OddAnswer as error:
            raise NotLoggedIn(f"the provider gave no code: {error}") from None

    async def token(self, endpoint: str, code: DeviceCode, more: Mapping[str, str]) -> str:
        """The access token, once somebody has typed the code. `more`: `resource`. Raises `NotLoggedIn`."""
        until = self._now() + min(code.lifetime, LONGEST)
        interval = max(FASTEST, code.interval)
        while self._now() + interval < until:
            await self._sleep(interval)
            try:
                return access_token(await self._asked(device_token(self._client, endpoint, code, more)))
            except Declined as error:
                interval = _next(interval, error)
            except OddAnswer as error:
                raise NotLoggedIn(f"the provider gave no token: {error}") from None
            except FetchFailed:
                interval = min(interval * 2, max(interval, SLOWEST))
        raise NotLoggedIn(_ENDED["expired_token"])

    async def _asked(self, request: Request) -> Fetched:
        """Raises `FetchFailed` also where something in between answered in the provider's place."""
        answer = await self._ask(request)
        if answer.status >= 500:
            raise FetchFailed(f"status {answer.status}")
        return answer


def _next(interval: float, error: Declined) -> float:
    """Seconds until the next question. Raises `NotLoggedIn` when there is none."""
    if error.code == "authorization_pending":
        return interval
    if error.code == "slow_down":
        return interval + SLOWER
    raise NotLoggedIn(_ENDED.get(error.code) or _said(error))


def _said(error: Declined) -> str:
    return "the provider says: " + plain(f"{error.code} ({error.text})" if error.text else error.code)


def plain(text: str) -> str:
    """Somebody else's words, fit for a terminal: one short line that moves no cursor."""
    return "".join(one if one.isprintable() else "?" for one in text)[:300]
