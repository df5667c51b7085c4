"""Descriptors: how many callers there are enough of them for, and telling that they ran out.

Knows: limits of the process, error numbers. Must not know: who opens what.
"""

from __future__ import annotations

import errno
import logging
import resource

log = logging.getLogger(__name__)

# One for the caller, one for the backend that a call of his is on.
_EACH = 2

# For everything else: files, probes, providers, the management port, idle connections to backends.
_RESERVE = 128

# accept(2), socket(2): nothing that the other side did, and nothing that trying again at once would mend.
_RAN_OUT = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


def raise_limit_for(wanted: int) -> int:
    """How many callers may be there at once, at most `wanted`; raises the soft limit for them as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * _EACH + _RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    found = wanted if soft == resource.RLIM_INFINITY else callers(wanted, soft)
    if found < wanted:
        log.warning("connections.bounded limit=%d wanted=%d descriptors=%d needed=%d", found, wanted, soft, needed)
    return found


def callers(wanted: int, descriptors: int) -> int:
    """How many of the callers wanted there are descriptors for, at least one."""
    return max(1, min(wanted, (descriptors - _RESERVE) // _EACH))


def ran_out(error: BaseException) -> bool:
    """True when `error` says that this machine or process had nothing left to open a connection with."""
    return getattr(error, "errno", None) in _RAN_OUT
