"""What is wrong within the lists that a configuration names: API keys, revocations.

Knows: which settings name them, what providers are called. Must not know: who is judged by a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.part import Part
from gateway.identity.apikeys import keyfile
from gateway.identity.revocation import revokedfile

# Providers that the file does not name, which are there as soon as they have settings.
_NAMELESS = ("api_keys", "mtls")


def mistakes(file: Part, root: Path) -> Iterator[Mistake]:
    """Everything at its place in the list. For a configuration that is not good itself: a good one is read anyway.

    Blocks.
    """
    identity = file["identity"]
    keys, revoked = identity["api_keys"]["file"].text, identity["revoked"]["file"].text
    if keys:
        yield from _within(lambda: keyfile.load(root / keys))
    if revoked:
        yield from _within(lambda: revokedfile.load(root / revoked, _providers(identity)))


def _within(read: Callable[[], object]) -> tuple[Mistake, ...]:
    try:
        read()
    except Mistakes as error:
        return error.mistakes
    return ()


def _providers(identity: Part) -> set[str]:
    named = (part["name"].text for kind in ("oidc", "ldap") for part in identity[kind])
    return {*(name for name in named if name), *(name for name in _NAMELESS if identity[name].value is not None)}
