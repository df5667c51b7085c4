"""The files that a configuration names: are they there, and what they should be.

Knows: which settings are paths, certificates, keys, folders. Must not know: what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.config.folder import is_policy, policies_in
from gateway.config.part import Finding, Part
from gateway.identity.provider.oauth import signing_key
from gateway.identity.signatures import signing
from gateway.settings import ServerTls
from gateway.tls import TlsError, certificates, expiry, server_context

AUTHORITIES: Final = (
    ("listen", "tls", "client_ca"),
    ("identity", "oidc", "*", "ca"),
    ("identity", "ldap", "*", "ca"),
    ("pools", "*", "backends", "*", "tls", "ca"),
)
#: What the gateway proves itself with to a provider.
CLIENT_KEYS: Final = (
    ("identity", "oidc", "*", "introspection", "private_key"),
    ("identity", "oidc", "*", "login", "private_key"),
)
TOKEN_KEY: Final = ("identity", "tokens", "key")
#: Files with places of their own for what is wrong in them.
LISTS: Final = (("identity", "api_keys", "file"), ("identity", "revoked", "file"))

LARGEST_KEY: Final = 64 * 1024  # bytes; the largest RSA key has thirteen thousand


def named(file: Part, root: Path) -> Iterator[Path]:
    """Every file and folder that the result depends on, besides secrets and a policy that is only tried."""
    tls = file["listen"]["tls"]
    others = (part for way in (*CLIENT_KEYS, TOKEN_KEY, *LISTS) for part in file.at(*way))
    policies = file["policies"]
    for part in (tls["certificate"], tls["key"], policies["enforce"], *_authorities(file), *others):
        if part.text:
            yield root / part.text


def client_keys(file: Part, root: Path) -> frozenset[Path]:
    """The files of keys that prove the gateway to providers."""
    return frozenset(root / part.text for way in CLIENT_KEYS for part in file.at(*way) if part.text)


def findings(file: Part, root: Path, now: float) -> Iterator[Finding]:
    """What is wrong with them at `now`, UNIX time in seconds."""
    yield from _listener(file["listen"]["tls"], root, now)
    for part in _authorities(file):
        if part.text:
            yield from _authority(part, root)
    for part in file.at(*TOKEN_KEY):
        yield from _key(part, root, signing.read)
    for part in _client_keys(file):
        yield from _key(part, root, _client_key)
    yield from _policies(file["policies"]["enforce"], root)
    yield from _shadow(file["policies"], root)
    yield from _history(file["policies"], root)
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


def _client_keys(file: Part) -> Iterator[Part]:
    """Those that are used: nobody asks about tokens whose signature is believed."""
    for provider in file["identity"]["oidc"]:
        if provider["verify"].text in {"introspect", "both"}:
            yield provider["introspection"]["private_key"]
        yield provider["login"]["private_key"]


def _client_key(path: Path) -> None:
    """Raises `ValueError`, which names the file, for one that a provider could not be shown."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file")  # opening a pipe would wait for its other end
    try:
        with path.open("rb") as file:
            signing_key(file.read(LARGEST_KEY))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path} cannot be used: {error}") from None


def _key(part: Part, root: Path, read: Callable[[Path], object]) -> Iterator[Finding]:
    if not part.text:
        return
    try:
        read(root / part.text)
    except ValueError as error:
        yield Finding(part.path, f"{part.text} {str(error).removeprefix(f'{root / part.text} ')}")


def _policies(part: Part, root: Path) -> Iterator[Finding]:
    path = root / part.text
    try:
        if not part.text or path.is_file() or (path.is_dir() and policies_in(path)):
            return
        exists = path.exists()
    except OSError as error:
        yield Finding(part.path, f"{part.text} cannot be read: {error.strerror}")
        return
    what = "holds no *.yaml file" if exists else "does not exist"
    yield Finding(part.path, f"{part.text} {what}; without a policy nobody may do anything")


def _shadow(policies: Part, root: Path) -> Iterator[Finding]:
    part, enforced = policies["shadow"], policies["enforce"].text
    with suppress(OSError):  # what cannot be looked at is told elsewhere
        path, folder = (root / part.text).resolve(), (root / enforced).resolve()
        if part.text and enforced and path.parent == folder and is_policy(path):
            yield Finding(part.path, "lies in the folder of the policies in force and would be one; put it elsewhere")


def _history(policies: Part, root: Path) -> Iterator[Finding]:
    part = policies["history"]
    if not part.text:
        return
    enforced = policies["enforce"].text  # types tell if it is missing
    if enforced and (root / part.text).is_relative_to(root / enforced):
        yield Finding(part.path, "lies within the policies; name a folder of its own")


def _audit(part: Part, root: Path) -> Iterator[Finding]:
    path = root / part.text
    if part.text in ("", "-"):
        return
    if not path.parent.is_dir():
        yield Finding(part.path, "the folder of this file does not exist")
    elif path.is_dir():
        yield Finding(part.path, "this is a folder; name a file in it")
