"""The files that a configuration names: are they there, and what they should be.

Knows: which settings are paths, certificates, folders. Must not know: what is done with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.config.part import Finding, Part
from gateway.settings import ServerTls
from gateway.tls import TlsError, certificates, expiry, server_context

AUTHORITIES: Final = (
    ("listen", "tls", "client_ca"),
    ("identity", "oidc", "*", "ca"),
    ("identity", "ldap", "*", "ca"),
    ("pools", "*", "backends", "*", "tls", "ca"),
)
# Read when everything is built, which says what is wrong with them.
OTHERS: Final = (
    ("identity", "oidc", "*", "introspection", "private_key"),
    ("identity", "oidc", "*", "login", "private_key"),
    ("identity", "api_keys", "file"),
    ("identity", "tokens", "key"),
    ("identity", "revoked", "file"),
)


def named(file: Part, root: Path) -> Iterator[Path]:
    """Every file and folder that the result depends on, besides secrets."""
    tls = file["listen"]["tls"]
    others = (part for way in OTHERS for part in file.at(*way))
    for part in (tls["certificate"], tls["key"], file["policies"], *_authorities(file), *others):
        if part.text:
            yield root / part.text


def findings(file: Part, root: Path, now: float) -> Iterator[Finding]:
    """What is wrong with them at `now`, UNIX time in seconds."""
    yield from _listener(file["listen"]["tls"], root, now)
    for part in _authorities(file):
        if part.text:
            yield from _authority(part, root)
    yield from _policies(file["policies"], root)
    yield from _audit(file["audit"]["file"], root)


def _authorities(file: Part) -> list[Part]:
    return [part for way in AUTHORITIES for part in file.at(*way)]


def _listener(part: Part, root: Path, now: float) -> Iterator[Finding]:
    certificate, key = part["certificate"], part["key"]
    if not certificate.text or not key.text:
        return
    tls = ServerTls(root / certificate.text, root / key.text)
    try:
        server_context(tls)
    except TlsError as error:
        guilty = certificate if error.file == tls.certificate else key
        yield Finding(guilty.path, f"{guilty.text} {error}")
    try:
        expired = expiry(tls.certificate) <= now
    except TlsError:
        return  # said above
    if expired:
        yield Finding(certificate.path, f"{certificate.text} has expired; no client would connect")


def _authority(part: Part, root: Path) -> Iterator[Finding]:
    try:
        certificates(root / part.text)
    except TlsError as error:
        yield Finding(part.path, f"{part.text} {error}")


def _policies(part: Part, root: Path) -> Iterator[Finding]:
    path = root / part.text
    try:
        if not part.text or path.is_file() or (path.is_dir() and any(path.glob("*.yaml"))):
            return
        exists = path.exists()
    except OSError as error:
        yield Finding(part.path, f"{part.text} cannot be read: {error.strerror}")
        return
    what = "holds no *.yaml file" if exists else "does not exist"
    yield Finding(part.path, f"{part.text} {what}; without a policy nobody may do anything")


def _audit(part: Part, root: Path) -> Iterator[Finding]:
    path = root / part.text
    if part.text in ("", "-"):
        return
    if not path.parent.is_dir():
        yield Finding(part.path, "the folder of this file does not exist")
    elif path.is_dir():
        yield Finding(part.path, "this is a folder; name a file in it")
