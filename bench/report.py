"""What was measured as a page: the goals first, then every measure with its spread and the gateway's ratio to it.

Knows: the goals, Markdown. Must not know: how anything is measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from bench.figures import Goal, Measure, Spread, ratios, spread

OURS = "gateway"
ABSENT = "not installed"
GOALS = (
    Goal("json.cpu", 1.0, beside="haproxy"),
    Goal("json.cpu", 0.9, beside="envoy"),
    Goal("json.cpu", 3.5, beside="nginx"),
    Goal("json.cpu", 0.6, beside="sglang-router"),
    Goal("json.cpu", 0.01, beside="litellm"),
    Goal("sse.cpu", 1.5, beside="haproxy"),
    Goal("latency.p50", 0.5),
    Goal("latency.p99", 3.0),
    Goal("first.p99", 5.0),
    Goal("memory.idle", 60.0),
    Goal("memory.stream", 60.0),
    Goal("upload.rate", 0.5, beside="nginx", at_least=True),
    Goal("upload.growth", 64.0),
)


def page(
    facts: Sequence[tuple[str, str]], measures: Sequence[Measure], absent: Mapping[str, Collection[str]] | None = None
) -> str:
    """The whole page as Markdown. `absent`: peers that are not installed, and the sections that lack them."""
    lacking = absent or {}
    parts = [_facts(facts), _goals(measures, lacking), *(_measure(measure, lacking) for measure in measures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    lines = [
        "# Measured side by side",
        "",
        "Written by `python -m bench --write`. Figures are least / median / greatest.",
    ]
    return "\n".join([*lines, "", *(f"- {name}: {value}" for name, value in facts)])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def standing(goal: Goal, measure: Measure) -> Spread | None:
    """Where the gateway stands on `goal`; None when it or its peer was not measured."""
    ours = measure.values.get(OURS)
    theirs = measure.values.get(goal.beside or OURS)
    if ours is None or theirs is None:
        return None
    return spread(ours) if goal.beside is None else ratios(ours, theirs)


def _lacks(measure: str, absent: Mapping[str, Collection[str]]) -> list[str]:
    """The peers that a measure would have had."""
    return [name for name, sections in absent.items() if measure.partition(".")[0] in sections]


def _goals(measures: Sequence[Measure], absent: Mapping[str, Collection[str]]) -> str:
    by_key = {measure.key: measure for measure in measures}
    rows = []
    for goal in GOALS:
        measure = by_key.get(goal.measure)
        if measure is None:
            continue
        sign = "≥" if goal.at_least else "≤"
        what = f"{goal.limit:g} {measure.unit}" if goal.beside is None else f"{goal.limit:g} of {goal.beside}"
        if OURS in measure.values and goal.beside in _lacks(goal.measure, absent):
            rows.append([measure.title, f"{sign} {what}", ABSENT, ""])
        if (stands := standing(goal, measure)) is None:
            continue
        met = "met" if goal.met(stands.middle) else "**missed**"
        rows.append([measure.title, f"{sign} {what}", str(stands), met])
    return "## Goals\n\n" + table(["what", "goal", "gateway", "by the median"], rows) if rows else ""


def _measure(measure: Measure, absent: Mapping[str, Collection[str]]) -> str:
    ours = measure.values.get(OURS)
    rows = []
    for server, values in measure.values.items():
        beside = str(ratios(ours, values)) if ours and server != OURS and measure.compared else ""
        rows.append([server, str(spread(values)), beside])
    rows += [[name, ABSENT, ""] for name in _lacks(measure.key, absent)]
    title = f"## {measure.title} ({measure.unit})"
    note = f"\n\n{measure.note[0].upper()}{measure.note[1:]}." if measure.note else ""
    return f"{title}{note}\n\n" + table(["server", measure.unit, "gateway : server, pair by pair"], rows)
