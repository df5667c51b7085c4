"""Turn the outcome of a call into one audit line and some numbers, once.

Knows: results and their names, which numbers a call adds to.
Must not know: how the call went about, Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.accounting import audit
from gateway.accounting.tallies import CallSeries, Tallies
from gateway.call import Outcome


class Account:
    """Called once for each call, at its end."""

    def __init__(self, tallies: Tallies, write: Callable[[bytes, bool], None]) -> None:
        """`write`: where audit lines go; with each, whether a backend has heard of the call."""
        self._tallies = tallies
        self._write = write
        self._clock = audit.Clock()
        self._lines = audit.Lines()

    def __call__(self, outcome: Outcome) -> None:
        now = time.monotonic()
        model = outcome.model
        tallies = self._tallies
        series = outcome.series or tallies.series("", "", "")
        if model is not None:
            grant = outcome.grant
            tallies.authorizations[("allow", grant.rule) if grant else ("deny", _denied_by(outcome))] += 1
        series.results[
            (outcome.status, "ok" if outcome.status == 200 and outcome.refusal is None else result_of(outcome))
        ] += 1
        started = outcome.call.started
        series.duration.observe(now - started)
        if outcome.first_byte:
            series.first_byte.observe(outcome.first_byte - started)
        if model is not None and outcome.grant is not None:
            _count_tokens(series, outcome)
        self._write(self._lines.write(outcome, self._clock.stamp(), now), outcome.attempts > 0)


def _denied_by(outcome: Outcome) -> str:
    return outcome.refusal.rule if outcome.refusal else ""


def _count_tokens(series: CallSeries, outcome: Outcome) -> None:
    if outcome.tokens_in is not None or outcome.tokens_out is not None:
        series.tokens_in += outcome.tokens_in or 0
        series.tokens_out += outcome.tokens_out or 0
    elif outcome.status == 200 and outcome.counts_tokens:
        series.usage_unknown += 1


def result_of(outcome: Outcome) -> str:
    """One of the bounded `result` labels (docs/operations.md)."""
    if outcome.refusal is not None:
        return outcome.refusal.result
    status = outcome.status
    if not status:
        return "error"  # it ended in a way that nobody foresaw
    if status < 400:
        return "ok"
    if status == 429:
        return "limited"
    return "invalid" if status < 500 else "upstream_error"
