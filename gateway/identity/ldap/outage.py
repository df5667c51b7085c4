"""Whether a directory can be asked, as its last answers tell: who asks next while it is away, and how long it has been.

Knows: states and times that are passed in. Must not know: servers, callers.
"""

from __future__ import annotations

import logging
from typing import Final

# Seconds after a failure of all servers in which nobody else waits to see it for themselves; then one does.
HOLD: Final = 1.0
# The same where they refuse the gateway's own account: each try counts against it, and it must not be locked.
HOLD_OWN_ACCOUNT: Final = 30.0

log = logging.getLogger(__name__)


class Outage:
    """One directory's state. `now` everywhere is a monotonic clock in seconds; `patience` bounds one attempt."""

    def __init__(self, name: str, patience: float, now: float) -> None:
        self._name = name
        self._patience = patience
        self._answered_at = now
        self._ever = False
        self._failing = False
        self._hold_until = float("-inf")
        self._reason = ""

    @property
    def failing(self) -> bool:
        """True since all servers failed, until one answers."""
        return self._failing

    @property
    def ready(self) -> bool:
        """True where the last that was asked of it was answered."""
        return self._ever and not self._failing

    @property
    def reason(self) -> str:
        """Why it fails, for the log."""
        return self._reason

    def seconds(self, now: float) -> float:
        """Since it last answered, while it does not; 0 while it does."""
        return now - self._answered_at if self._failing else 0.0

    def silence(self, now: float) -> float:
        """Seconds since it last answered, or since nobody has asked it."""
        return now - self._answered_at

    def may_ask(self, now: float) -> bool:
        """True for whoever may ask now; while it fails that is one at a time, who is expected to tell."""
        if not self._failing:
            return True
        if now < self._hold_until:
            return False
        self._hold_until = now + self._patience + HOLD
        return True

    def answered(self, now: float) -> None:
        """It can be asked."""
        if self._failing:
            log.info("identity.directory.recovered name=%s seconds=%d", self._name, self.seconds(now))
        self._answered_at, self._ever, self._failing = now, True, False

    def failed(self, now: float, since: float, reason: str, *, own_account: bool) -> None:
        """All servers failed for what was asked at `since`: no outage where they answered others meanwhile.

        `own_account`: they refuse the gateway's own.
        """
        if self._ever and self._answered_at > since and not own_account:
            return
        if not self._failing:
            log.warning("identity.directory.failed name=%s reason=%r", self._name, reason)
        self._failing, self._reason = True, reason
        self._hold_until = now + (HOLD_OWN_ACCOUNT if own_account else HOLD)
