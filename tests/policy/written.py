"""Rules as a policy file, in either of the two ways in which people write YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from gateway.policy.rules import Rule


def entry(rule: Rule) -> dict[str, Any]:
    """One rule as it stands in a file; what is left out stands for itself."""
    subjects = {kind: sorted(getattr(rule, kind)) for kind in ("users", "groups", "clients", "issuers")}
    found = {
        "id": rule.id,
        "effect": rule.effect.value,
        "subjects": {kind: names for kind, names in subjects.items() if names},
        "models": list(rule.models),
        "operations": sorted(operation.value for operation in rule.explicit_operations),
        "versions": sorted(rule.versions),
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
