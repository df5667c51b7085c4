"""The file of what was revoked: read into a value, or everything that is wrong with it, each at its place.

Knows: the form of the file. Must not know: who is judged by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from gateway.config import typed, yamlfile
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.units import Written
from gateway.config.values import Instant, Label, Name, label
from gateway.config.yamlfile import Document
from gateway.identity.apikeys.keyfile import KeyId
from gateway.identity.apikeys.keytext import PREFIX
from gateway.identity.revocation.revoked import Revoked
from gateway.identity.signatures.jwt import split

# The lists, and what an entry is called in each that is more than a text.
_LISTS: Final = {"tokens": "token", "subjects": "subject", "keys": "key"}


def jti(value: Any) -> str:
    """What a token is called, never the token itself: that would be a list of credentials, and revoke nothing."""
    if isinstance(value, str) and value.startswith(PREFIX):
        raise ValueError("this is an API key, not the jti of a token; write its id under keys")
    if isinstance(value, str) and value.count(".") > 1:
        try:
            _, claims = split(value)
        except ValueError:
            return label(value)
        named = claims.get("jti")
        told = f"its jti is {named}" if isinstance(named, str) else "it has no jti, so revoke its subject"
        raise ValueError(f"this is a whole token; give its jti in place of it: {told}")
    return label(value)


Jti = Annotated[str, Written(jti)]


@dataclass(frozen=True, slots=True)
class Token:
    """The `jti` of a token, of one provider if that is given. Here and below `reason` and `at` are for people."""

    token: Jti
    provider: Name | None = None
    reason: Label | None = None
    at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """A caller, by whatever credential, narrowed to those of one provider if that is given."""

    subject: Label
    provider: Name | None = None
    reason: Label | None = None
    at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An API key."""

    key: KeyId
    reason: Label | None = None
    at: Instant | None = None


@dataclass(frozen=True, slots=True)
class RevokedFile:
    """A whole file."""

    version: Literal[1]
    tokens: tuple[Token, ...] = ()
    subjects: tuple[Subject, ...] = ()
    keys: tuple[Key, ...] = ()


def load(path: Path, providers: Set[str]) -> Revoked:
    """What the file at `path` revokes; `providers`: the names there are. Blocks. Raises `Mistakes` with every one."""
    document = yamlfile.read_file(path)
    document = replace(document, data=_spelled_out(document.data))
    found = [*_unlike(document), *_strangers(document, providers)]
    try:
        written = typed.validate(document, RevokedFile)
    except Mistakes as mistakes:
        found += mistakes.mistakes
    if found:
        raise Mistakes(found)
    return Revoked(
        tokens=frozenset((each.provider or "", each.token) for each in written.tokens),
        subjects=frozenset((each.provider or "", each.subject) for each in written.subjects),
        keys=frozenset(each.key for each in written.keys),
    )


def _spelled_out(data: Any) -> Any:
    """The same with each entry that is only a name as a mapping, which stands where the name does."""
    if not isinstance(data, dict):
        return data
    return {
        name: [each if isinstance(each, dict) else {_LISTS[name]: each} for each in value]
        if name in _LISTS and isinstance(value, list)
        else value
        for name, value in data.items()
    }


def _unlike(document: Document) -> Iterator[Mistake]:
    """What types cannot tell: true and 1.0 are equal to 1."""
    if isinstance(document.data, dict) and type(document.data.get("version", 1)) is not int:
        yield Mistake(document.file, *document.place(("version",)), "expected 1")


def _strangers(document: Document, providers: Set[str]) -> Iterator[Mistake]:
    """Providers that there are not: an entry of a misspelt name would revoke nothing."""
    for name in _LISTS if isinstance(document.data, dict) else ():
        listed = document.data.get(name)
        for number, each in enumerate(listed if isinstance(listed, list) else []):
            provider = each.get("provider")
            if isinstance(provider, str) and provider not in providers:
                place = document.place((name, number, "provider"))
                known = ", ".join(sorted(providers))
                yield Mistake(document.file, *place, f"no identity provider is called {provider!r}; there is {known}")
