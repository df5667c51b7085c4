"""Whose prefixes an engine may find again in its caches: how long an answer takes tells who asked the same before.

Knows: what of a caller tells tenants apart. Must not know: bodies, engines.
"""

from __future__ import annotations

import json
from hashlib import sha256

from gateway.call import Grant
from gateway.config.values import CacheSalt


def salt(by: CacheSalt, grant: Grant) -> bytes:
    """A JSON text that is the same for calls of one tenant, and tells nobody who that is without knowing all of it.

    A caller who has no client, or was let in by no group, is a tenant of its own.
    """
    return b'"%b"' % sha256(json.dumps(_tenant(by, grant)).encode()).hexdigest().encode()


def _tenant(by: CacheSalt, grant: Grant) -> tuple[str, ...]:
    principal = grant.principal
    if by == "provider":
        return (by, principal.provider)
    if by == "client" and principal.client is not None:
        return (by, principal.provider, principal.client)
    if by == "group" and grant.groups_used:
        return (by, principal.provider, *grant.groups_used)
    return ("subject", principal.provider, principal.subject)
