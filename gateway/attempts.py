"""Which backends one call tries in a pool: best first, each once, and again only while the rules allow it.

Knows: how often, the retry budget, what a failed attempt says of its backend.
Must not know: which model serves the call, how a backend is reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from gateway.errors import (
    ConnectFailed,
    Refusal,
    Stalled,
    Truncated,
    UpstreamBroke,
    UpstreamBusy,
    UpstreamNonsense,
    UpstreamTimeout,
)
from gateway.exchange import Body
from gateway.pools.backends import Backend, Pool
from gateway.pools.budget import Retry
from gateway.pools.ejection import FailureReason

_FAILURES: Mapping[type[Refusal], FailureReason] = {
    ConnectFailed: FailureReason.CONNECT,
    UpstreamBusy: FailureReason.STATUS,
    UpstreamNonsense: FailureReason.NONSENSE,
    UpstreamBroke: FailureReason.RESET,
    UpstreamTimeout: FailureReason.FIRST_BYTE,
    Stalled: FailureReason.IDLE,
    Truncated: FailureReason.TRUNCATED,
}

#: Beyond the first attempt. More would turn one bad pool into a storm on the next.
RETRIES = 2


class Attempts:
    """The attempts of one call on one pool. `payload`: see `seams.Outbound`. `left`: how many may follow the first.

    The pool is asked once there is to be one: a call that is refused before that takes nobody's turn.
    """

    __slots__ = ("_begun", "_body", "_model", "_next", "_payload", "_pool", "_rest", "_tried", "left", "retries")

    def __init__(self, pool: Pool, model: str, payload: bytes | None, body: Body, left: int = RETRIES) -> None:
        self._pool = pool
        self._model = model
        self._payload = payload
        self._body = body
        self.left = left
        self._begun = False
        self._tried: Backend | None = None
        self._next: Backend | None = None
        self._rest: Iterator[Backend] | None = None
        self.retries: list[Retry] | None = None

    def next(self) -> Backend | None:
        """The backend to try now, or None."""
        if not self._begun:
            self._first()
        backend, self._next = self._next, None
        return backend

    def another(self) -> bool:
        """Whether one more attempt is allowed: there is a backend, the body can be sent again, the budget has room."""
        if self._next is not None:
            return True
        if self.left == 0 or (self._payload is None and not self._body.replayable):
            return False
        if self._rest is None:
            self._rest = self._pool.rest(self._model, time.monotonic(), self._tried)
        backend = next(self._rest, None)
        if backend is None or not self._count():
            return False
        self.left -= 1
        self._next = backend
        return True

    def begin(self, *, counted: bool) -> bool:
        """Whether there is a first attempt. `counted`: it is a retry as well, since another pool was asked before."""
        self._first()
        return self._next is not None and (not counted or self._count())

    def close(self) -> None:
        """Give the budget back."""
        for retry in self.retries or ():
            retry.release()

    def _first(self) -> None:
        self._begun = True
        self._tried = self._next = self._pool.first(self._model, time.monotonic())

    def _count(self) -> bool:
        retry = self._pool.budget.try_take()
        if retry is None:
            return False
        if self.retries is None:
            self.retries = []
        self.retries.append(retry)
        return True


def blame(refusal: Refusal) -> FailureReason | None:
    """What a refusal says of the backend; None where it was not the backend's doing."""
    for kind in type(refusal).__mro__:
        if (reason := _FAILURES.get(kind)) is not None:
            return reason
    return None
