"""Let a call in, or turn it away. Today everybody who is granted is let in and counted; caps and queues come here.

Knows: places. Must not know: backends, protocols.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager

from gateway.call import Grant


class Admission:
    """Counts calls in each pool while they are under way."""

    def __init__(self) -> None:
        self.in_flight: defaultdict[str, int] = defaultdict(int)

    @contextmanager
    def admit(self, grant: Grant, pool: str) -> Generator[None, None, None]:  # noqa: ARG002  caps go by the grant
        """A place for one call, given back at the end of the block."""
        self.in_flight[pool] += 1
        try:
            yield
        finally:
            self.in_flight[pool] -= 1
