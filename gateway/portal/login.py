"""A name and a password, put to the directories.

Knows: their order. Must not know: HTTP, how a directory is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.call import Principal
from gateway.errors import IdentityUnavailable, LoginThrottled
from gateway.identity.providers import Directory
from gateway.identity.refused import BadLogin, Result


async def log_in(directories: Iterable[Directory], name: str, password: str, peer: str) -> Principal:
    """The person whose name and password these are, by the first directory that knows them.

    Raises `BadLogin` when none does; `LoginThrottled` or `IdentityUnavailable` when one that was not asked might.
    """
    refused = BadLogin(Result.BAD_PASSWORD, "no directory is configured")
    unasked: LoginThrottled | IdentityUnavailable | None = None
    for directory in directories:
        try:
            return await directory.log_in(name, password, peer)
        except BadLogin as error:
            refused = error
        except (LoginThrottled, IdentityUnavailable) as error:
            unasked = error
    raise unasked or refused
