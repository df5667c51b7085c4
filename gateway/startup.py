"""What belongs to the start alone: how a failed one is said, what is said loudly, how memory settles.

Knows: errors of the system and of TLS files, the collector. Must not know: what is started, in which order.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.settings import Ldap, Settings
from gateway.tls import TlsError

log = logging.getLogger(__name__)

# Objects made before the collector looks, by generation. Calls leave no cycles behind, so seldom is often enough.
_GC_THRESHOLDS = (20_000, 20, 50)


class CannotStart(Exception):  # noqa: N818  named for what happened, as the refusals are
    """Something the gateway cannot do without is not to be had. Its text is one line for the operator."""


class Unbuildable(CannotStart, ValueError):  # noqa: N818  see above
    """What the files say cannot be built, although nothing is wrong with any one of them that their checks know."""


@contextmanager
def needed(what: str) -> Iterator[None]:
    """Around getting hold of `what` (a port, a file). Raises `CannotStart` for the operating system's errors."""
    try:
        yield
    except OSError as error:
        raise CannotStart(f"{what}: {_reason(error)}") from None


@contextmanager
def buildable() -> Iterator[None]:
    """Around building what the files say. Raises `Unbuildable` for what a part refuses, with the file if it is one."""
    try:
        yield
    except TlsError as error:
        raise Unbuildable(f"{error.file} {error}") from error
    except ValueError as error:
        raise Unbuildable(str(error)) from error


def endpoint(address: str, port: int) -> str:
    """`address:port`, with an IPv6 address in brackets (RFC 3986 section 3.2.2)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def lone(group: BaseExceptionGroup[BaseException]) -> CannotStart | None:
    """The `CannotStart` that a task group wrapped; None when anything else went wrong as well."""
    found, others = group.split(CannotStart)
    error = None if found is None or others is not None else found.exceptions[0]
    return error if isinstance(error, CannotStart) else None


def settle_memory() -> None:
    """What was built at start-up stays: the collector need not look at it again, nor look after every few calls."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def warn_loudly(settings: Settings) -> None:
    """Say what the settings allow although it is not safe; said again at each reload."""
    for issuer in settings.oidc:
        if issuer.allow_insecure:
            log.warning(
                "insecure.allowed issuer=%s: its keys are fetched without TLS; whoever is on the way can forge callers",
                issuer.name,
            )
    for directory in settings.ldap:
        if directory.allow_insecure and _plain(directory):
            log.warning(
                "insecure.allowed directory=%s: it is asked without TLS; whoever is on the way can read passwords",
                directory.name,
            )


def _plain(directory: Ldap) -> bool:
    return not directory.start_tls and any(server.startswith("ldap://") for server in directory.servers)


def _reason(error: OSError) -> str:
    """In the system's words: event loops put words of their own, with the address again, before them."""
    if error.errno is None or isinstance(error, socket.gaierror):  # its numbers are not those of errno
        return error.strerror or str(error)
    return os.strerror(error.errno).lower()
