"""Numbers that calls add to: plain integers, read when somebody looks at the metrics page.

A counter object of a metrics library takes a lock and a label look-up on each step of each call; these take an
addition. A later version keeps them in memory that several workers share.
Knows: arithmetic. Must not know: metric names, Prometheus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Set

# Seconds. Inference runs from milliseconds (a small Triton model) to minutes (a long generation).
DURATION_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5)


class Histogram:
    """Counts by upper bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, count at or below it), as the exposition format wants them."""
        rows: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            rows.append((bound, float(running)))
        return rows


class CallSeries:
    """All that is counted for one (pool, model, operation)."""

    __slots__ = ("duration", "first_byte", "gaps", "results", "tokens_in", "tokens_out", "usage_unknown")

    def __init__(self) -> None:
        self.results: defaultdict[tuple[int, str], int] = defaultdict(int)
        self.duration = Histogram(DURATION_BOUNDS)
        self.first_byte = Histogram(DURATION_BOUNDS)
        self.gaps = Histogram(GAP_BOUNDS)
        self.tokens_in = 0
        self.tokens_out = 0
        self.usage_unknown = 0


class Tallies:
    """Everything counted since the start; survives a reload, but for what is counted by names that come and go with it.

    Labels are configured names and enums, never a caller's words.
    """

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], CallSeries] = {}
        self.authentications: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.authorizations: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.failed_logins: defaultdict[str, int] = defaultdict(int)
        self.throttled_logins: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.retries: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.fallbacks: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.reloads: defaultdict[str, int] = defaultdict(int)
        self.keys_used: dict[str, float] = {}
        self.unsolicited: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.audit_lost = 0
        self.policies_not_kept = 0
        self.shadow_decisions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.shadow_unwritten = 0
        self.shadow_failures = 0

    def authenticated(self, provider: str, result: str) -> None:
        """A credential was looked at."""
        self.authentications[(provider, result)] += 1

    def failed_login(self, provider: str) -> None:
        """A directory said no to a name and a password."""
        self.failed_logins[provider] += 1

    def throttled_login(self, provider: str, scope: str) -> None:
        """A login was refused unasked, because too many of its `scope` had failed."""
        self.throttled_logins[(provider, scope)] += 1

    def key_used(self, key_id: str, at: float) -> None:
        """An API key held, at this UNIX time."""
        self.keys_used[key_id] = at

    def keep(self, rules: Set[str], keys: Set[str]) -> None:
        """Forget the rules and API keys that there are no more: where policies are generated, ids never end."""
        _keep_rules(self.authorizations, rules)
        for key_id in self.keys_used.keys() - keys:
            del self.keys_used[key_id]

    def keep_tried(self, rules: Set[str]) -> None:
        """Forget the rules that the shadow policy has no more."""
        _keep_rules(self.shadow_decisions, rules)

    def series(self, pool: str, model: str, operation: str) -> CallSeries:
        """The series of one (pool, model, operation); empty strings where a call stopped before it was known."""
        key = (pool, model, operation)
        found = self.calls.get(key)
        if found is None:
            found = self.calls[key] = CallSeries()
        return found


def _keep_rules(counts: dict[tuple[str, str], int], rules: Set[str]) -> None:
    """Of counts by (result, rule), those of these rules, and of no rule."""
    for key in [key for key in counts if key[1] and key[1] not in rules]:
        del counts[key]
