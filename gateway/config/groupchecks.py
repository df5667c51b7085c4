"""What must hold between the settings for groups that another than the provider itself knows.

Knows: who may have its groups from a directory. Must not know: other settings, how anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.config.part import Finding, Part

# What a provider does with the groups it gives.
_OF_GROUPS: Final = ("group_prefix", "group_map", "groups_allowed")


def groups_from(file: Part) -> Iterator[Finding]:
    """Groups come from one place: a directory that there is, which names and bounds them itself."""
    names = sorted(each["name"].text for each in file["identity"]["ldap"] if each["name"].text)
    for part in (*file["identity"]["oidc"], file["identity"]["mtls"]):
        source = part["groups_from"]
        if not source.text:
            continue
        if source.text not in names:
            there = f"there is {', '.join(names)}" if names else "there is none"
            yield Finding(source.path, f"no entry of identity.ldap is called '{source.text}'; {there}")
        for idle in (*(part[name] for name in _OF_GROUPS), part["claims"]["groups"]):
            if idle.value is not None:
                yield Finding(
                    idle.path, "groups_from takes the groups from a directory, which has its own such settings"
                )
