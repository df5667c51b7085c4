"""Rules as a policy file, in either of the two ways in which people write YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import yaml

from gateway.policy.conditions import ALL_DAYS, DAY, DAYS, Window
from gateway.policy.rules import Rule
from gateway.terms import NO_TERMS, Terms

KINDS = ("users", "groups", "clients", "issuers", "scopes", "not_groups")


def window(wanted: Window) -> dict[str, Any]:
    """As it stands in a file; a window that is always open is one of every day."""
    begin, end = (f"{minute % DAY // 60:02}:{minute % 60:02}" for minute in (wanted.begin, wanted.end))
    hours = {} if (wanted.begin, wanted.end) == (0, DAY) else {"hours": f"{begin}-{end}"}
    days = {} if hours and wanted.days == ALL_DAYS else {"days": [DAYS[day] for day in sorted(wanted.days)]}
    return {"timezone": wanted.zone, **days, **hours}


def limits(wanted: Terms) -> dict[str, Any]:
    """As they stand in a file, `remote_media` also where it says nothing: one of them is needed."""
    amounts = {each.name: getattr(wanted, each.name) for each in fields(Terms)}
    clamp, _ = amounts.pop("clamp"), amounts.pop("engine_fields")
    on_excess = {"on_excess": "clamp"} if clamp else {}
    return {name: amount for name, amount in amounts.items() if amount is not None} | on_excess


def entry(rule: Rule) -> dict[str, Any]:
    """One rule as it stands in a file; what is left out stands for itself."""
    subjects = {kind: sorted(getattr(rule, kind)) for kind in KINDS}
    found = {
        "id": rule.id,
        "effect": rule.effect.value,
        "subjects": {kind: names for kind, names in subjects.items() if names},
        "models": list(rule.models),
        "operations": sorted(operation.value for operation in rule.explicit_operations),
        "versions": sorted(rule.versions),
        "when": rule.window and window(rule.window),
        "from": list(map(str, rule.networks)),
        "limits": limits(rule.terms) if rule.terms != NO_TERMS else {},
        "engine_fields": sorted(rule.terms.engine_fields),
    }
    return {key: value for key, value in found.items() if value}


def written(rules: Sequence[Rule], *, braces: bool) -> bytes:
    """The file, each rule on a line of its own in braces, or spread over many lines."""
    text = "version: 1\nrules:\n"
    for number, rule in enumerate(rules):
        one = entry(rule) | {"id": f"{rule.id}-{number}"}
        flow = yaml.safe_dump([one], default_flow_style=braces, sort_keys=False, width=10_000)
        text += f"  - {flow.strip()[1:-1]}\n" if braces else flow
    return text.encode()
