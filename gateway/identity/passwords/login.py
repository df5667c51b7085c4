"""Names and passwords (HTTP Basic) of all directories behind one `Identity`.

Knows: the order in which directories are asked, what a connection may remember. Must not know: LDAP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.apikeys.keytext import has_key, meant
from gateway.identity.credentials.basic import name_and_password
from gateway.identity.credentials.bearer import authorization
from gateway.identity.refused import BadLogin, Result
from gateway.identity.remembered import Held

#: The provider that is counted for a credential in which no name can be read.
NO_PROVIDER = "unknown"


class KeyForPassword(BadLogin):
    """An API key stands where a name and a password belong; no directory is shown it."""

    def __init__(self) -> None:
        super().__init__(Result.WRONG_KIND, "an API key in place of a password")


class Asked(Protocol):
    """A directory among others."""

    async def log_in(self, name: str, password: str, peer: str) -> Principal:
        """Raises `BadLogin`, `LoginThrottled`, `IdentityUnavailable`."""
        ...

    async def log_in_if_known(self, name: str, password: str, peer: str) -> Principal | None:
        """The same, and None for a name that it does not know."""
        ...


class Searched(Asked, Protocol):
    """One that remembers."""

    def held(self, name: str, password: str) -> Held[Principal] | None:
        """A login that held a moment ago, without waiting."""
        ...


class BasicIdentity:
    """The `Identity` for `Authorization: Basic`. `directories` are asked in order (`first_of`).

    `now` is the directories' clock; `count` gets a provider's name and a `Result`.
    """

    def __init__(
        self, directories: Sequence[Searched], now: Callable[[], float], count: Callable[[str, str], None]
    ) -> None:
        self._directories = tuple(directories)
        self._now = now
        self._count = count

    def recall(self, call: Call) -> Principal | None:
        """The caller of a head that held a moment ago, as long as the login is remembered."""
        held: Held[Principal] | None = call.derived.get(self)
        if held is None or self._now() >= held.until:
            return None
        self._count(held.value.provider, Result.CACHED.value)
        return held.value

    async def identify(self, call: Call) -> Principal | None:
        """None without a Basic credential. Raises `BadLogin` (401), `LoginThrottled` (429) or `IdentityUnavailable`
        (503)."""
        if not self._directories or (value := authorization(call)) is None:
            return None
        try:
            pair = name_and_password(value)
        except BadLogin as error:
            self._count(NO_PROVIDER, error.reason.value)
            raise
        if pair is None:
            return None
        try:
            directory, principal = await first_of(self._directories, *pair, call.peer)
        except KeyForPassword as error:
            self._count(NO_PROVIDER, error.reason.value)
            raise
        if (held := directory.held(*pair)) is not None:
            call.note(self, held)  # as long as the directory remembers it
        return principal

    def revoked(self, _call: Call, why: str, /) -> Unidentified:
        """See `seams.Identity`."""
        return BadLogin(Result.REVOKED, f"{Result.REVOKED.value} {why}")


D = TypeVar("D", bound=Asked)


async def first_of(directories: Sequence[D], name: str, password: str, peer: str) -> tuple[D, Principal]:
    """The person whose name and password these are, and the directory that knows them.

    A name that one directory does not know is asked of the next. One that knows it ends the search, whatever it says,
    and so does one that cannot be asked: the name may be its own. A password goes to no directory behind the one whose
    it is. An API key goes to none, whether or not there are keys here: it holds for whoever sees it.
    Raises `BadLogin`, `LoginThrottled`, `IdentityUnavailable`.
    """
    if meant(password) or has_key(name):
        raise KeyForPassword
    if not directories:
        raise BadLogin(Result.BAD_PASSWORD, "no directory is configured")
    *others, last = directories
    for directory in others:
        if (principal := await directory.log_in_if_known(name, password, peer)) is not None:
            return directory, principal
    return last, await last.log_in(name, password, peer)
