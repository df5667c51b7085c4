"""A name and a password, put to the directories.

Knows: their order. Must not know: HTTP, how a directory is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.call import Principal
from gateway.identity.providers import Directory
from gateway.identity.refused import BadLogin, Result


async def log_in(directories: Sequence[Directory], name: str, password: str, peer: str) -> Principal:
    """The person whose name and password these are.

    A name that one directory does not know is asked of the next. One that knows it ends the search, whatever it says,
    and so does one that cannot be asked: a password goes to no directory behind the one whose it is.
    Raises `BadLogin`, `LoginThrottled`, `IdentityUnavailable`.
    """
    if not directories:
        raise BadLogin(Result.BAD_PASSWORD, "no directory is configured")
    *others, last = directories
    for directory in others:
        if (principal := await directory.log_in_if_known(name, password, peer)) is not None:
            return principal
    return await last.log_in(name, password, peer)
