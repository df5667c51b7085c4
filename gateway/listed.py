"""What the files beside the configuration list: API keys, and what was revoked.

Knows: which of them are configured. Must not know: how either is judged, what else is configured.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from gateway.config.mistakes import Mistake, Mistakes
from gateway.identity.apikeys import keyfile
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.revocation import revokedfile
from gateway.identity.revocation.revoked import Revoked
from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class Listed:
    """`revoked` None: no such file is configured."""

    keys: tuple[ApiKey, ...] = ()
    revoked: Revoked | None = None


def read(settings: Settings, providers: Set[str]) -> Listed:
    """What stands in the files now; `providers`: the names there are. Blocks. Raises `Mistakes` with all in both."""
    found: list[Mistake] = []
    keys: tuple[ApiKey, ...] = ()
    revoked: Revoked | None = None
    try:
        keys = keyfile.load(settings.api_keys.file) if settings.api_keys else ()
    except Mistakes as error:
        found += error.mistakes
    try:
        revoked = revokedfile.load(settings.revoked.file, providers) if settings.revoked else None
    except Mistakes as error:
        found += error.mistakes
    if found:
        raise Mistakes(found)
    return Listed(keys, revoked)
