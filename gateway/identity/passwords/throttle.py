"""Back-off after failed logins: how soon an account may be tried again, and an address may try.

Three counts, each with a pace of its own: the account as tried from one address (soon and firmly), the account from
anywhere (late and mildly, because whoever slows it down slows its owner down too), the address (by how many accounts
failed from it). An account that logged in from an address before answers to the first of them only when it comes from
there. An account counts by the name that was typed and, once the directory has found it, by its entry, which may have
several names. No password that is refused here reaches a directory. Everything is in memory and outlives a reload.
Knows: names, addresses, a clock that is passed in. Must not know: directories, passwords, HTTP.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address
from math import ceil

from gateway.errors import LoginThrottled
from gateway.identity.passwords.pace import LIMIT, LONGEST, Marks, Pace

# Pairs of account and address that logged in, for a week, so that nobody who comes each Monday is new. Only good
# logins get in, so a stranger cannot push others out.
KNOWN_LIMIT = 50_000
KNOWN_FOR = 7 * 86400.0


class Scope(StrEnum):
    """What is being slowed down: the label `scope` of `gateway_auth_throttled_total`."""

    PAIR = "pair"
    ACCOUNT = "account"
    ADDRESS = "address"


# Three typing errors are free. Whoever goes on soon has one try a minute, and one failure less after five minutes.
PAIR = Pace(free=3, longest=LONGEST, forgotten=300.0)

# The failures of one address never add up to ten (a property test holds this), so it takes several to slow an account
# down. Then there is a try each five seconds for all newcomers together, its owner at a new place among them.
ACCOUNT = Pace(free=10, longest=5.0, forgotten=30.0)

# Counted in accounts, not in tries: a whole office may stand behind one address, and somebody whose login succeeds
# takes his failure back. The room lets a crowd log in at once; who uses it to guess has used up hours.
ADDRESS = Pace(free=20, longest=LONGEST, forgotten=60.0, room=200)


@dataclass(frozen=True, slots=True)
class _Keys:
    """`of_entry`: of the entry that a name led to; the address was asked when the name was."""

    account: bytes
    address: bytes
    of_entry: bool = False

    @property
    def pair(self) -> bytes:
        return self.account + self.address


class Throttle:
    """All counts of a gateway. `now` gives steady seconds.

    `failed` gets the provider's name for each login that failed, `throttled` that and a `Scope` for each that was
    refused here.
    """

    def __init__(
        self,
        now: Callable[[], float],
        failed: Callable[[str], None],
        throttled: Callable[[str, str], None],
        *,
        limit: int = LIMIT,
        known: int = KNOWN_LIMIT,
    ) -> None:
        self._now = now
        self._count_failed = failed
        self._count_throttled = throttled
        self._pairs = Marks(PAIR, limit)
        self._accounts = Marks(ACCOUNT, limit)
        self._addresses = Marks(ADDRESS, limit)
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._known_limit = known
        # Names stand in no table, so that none can be read there and all are short.
        self._secret = secrets.token_bytes(32)

    @property
    def entries(self) -> int:
        """The length of the longest table."""
        return max(len(self._pairs), len(self._accounts), len(self._addresses), len(self._known))

    def logins(self, provider: str) -> Logins:
        """For one directory: its accounts are no other's, the addresses are those of all."""
        return Logins(self, provider)

    def admit(self, provider: str, account: str, peer: str) -> None:
        self._admit(provider, self._keys(provider, account, peer))

    def found(self, provider: str, entry: str, peer: str) -> None:
        self._admit(provider, self._entry(provider, entry, peer))

    def failed(self, provider: str, account: str, peer: str, entry: str) -> None:
        named, now = self._keys(provider, account, peer), self._now()
        self._count_failed(provider)
        if not self._pairs.failures(named.pair, now):
            self._addresses.add(named.address, now)
        for keys in self._tried(provider, named, peer, entry):
            self._pairs.add(keys.pair, now)
            self._accounts.add(keys.account, now)
            self._end(keys, now)

    def succeeded(self, provider: str, account: str, peer: str, entry: str) -> None:
        named, now = self._keys(provider, account, peer), self._now()
        for keys in self._tried(provider, named, peer, entry):
            if failures := self._pairs.failures(keys.pair, now):
                self._pairs.take(keys.pair, failures, now)
                self._accounts.take(keys.account, ceil(failures), now)
                if keys is named:
                    self._addresses.take(keys.address, 1, now)
            self._know(keys.pair, now)
            self._end(keys, now)

    def unanswered(self, provider: str, account: str, peer: str, entry: str) -> None:
        for keys in self._tried(provider, self._keys(provider, account, peer), peer, entry):
            self._end(keys, self._now())

    def _admit(self, provider: str, keys: _Keys) -> None:
        now = self._now()
        scope, wait = max(self._waits(keys, now), key=lambda one: one[1])
        if wait > 0:
            self._count_throttled(provider, scope.value)
            raise LoginThrottled(
                detail=f"throttled by {scope.value}", retry_after=max(1, min(ceil(wait), int(LONGEST)))
            )
        for marks, key in self._all(keys):
            marks.begin(key, now)

    def _tried(self, provider: str, named: _Keys, peer: str, entry: str) -> tuple[_Keys, ...]:
        return (named, self._entry(provider, entry, peer)) if entry else (named,)

    def _waits(self, keys: _Keys, now: float) -> Iterator[tuple[Scope, float]]:
        yield Scope.PAIR, self._pairs.wait(keys.pair, now)
        since = self._known.get(keys.pair)
        if since is None or now - since > KNOWN_FOR:
            yield Scope.ACCOUNT, self._accounts.wait(keys.account, now)
            if not keys.of_entry:
                yield Scope.ADDRESS, self._addresses.wait(keys.address, now)

    def _all(self, keys: _Keys) -> Iterator[tuple[Marks, bytes]]:
        yield self._pairs, keys.pair
        yield self._accounts, keys.account
        if not keys.of_entry:
            yield self._addresses, keys.address

    def _end(self, keys: _Keys, now: float) -> None:
        for marks, key in self._all(keys):
            marks.end(key, now)

    def _know(self, pair: bytes, now: float) -> None:
        self._known[pair] = now
        self._known.move_to_end(pair)
        while len(self._known) > self._known_limit:
            self._known.popitem(last=False)

    def _keys(self, provider: str, account: str, peer: str) -> _Keys:
        name = f"{provider}\n{folded(account)}".encode("utf-8", "surrogatepass")
        return _Keys(blake2b(name, digest_size=16, key=self._secret).digest(), place(peer))

    def _entry(self, provider: str, entry: str, peer: str) -> _Keys:
        # No provider has a line feed in its name, so an entry is no account, whatever somebody types.
        return replace(self._keys(f"{provider}\nentry", entry, peer), of_entry=True)


class Logins:
    """What the code of one directory asks. Each `admit` is followed by exactly one of the last three, with the entry
    that was `found` in between, if any."""

    __slots__ = ("_provider", "_throttle")

    def __init__(self, throttle: Throttle, provider: str) -> None:
        self._throttle = throttle
        self._provider = provider

    def admit(self, account: str, peer: str) -> None:
        """Before the directory is asked about an account named `account` by somebody at the address `peer`.

        Raises `LoginThrottled`; then nothing is to be asked.
        """
        self._throttle.admit(self._provider, account, peer)

    def found(self, entry: str, peer: str) -> None:
        """The directory knows the account as `entry`, by which it is one under all its names.

        Raises `LoginThrottled`; then no password is to be sent, and none of the other three gets the entry.
        """
        self._throttle.found(self._provider, entry, peer)

    def failed(self, account: str, peer: str, entry: str = "") -> None:
        """The directory said no: whatever the reason, whether or not there is such an account."""
        self._throttle.failed(self._provider, account, peer, entry)

    def succeeded(self, account: str, peer: str, entry: str = "") -> None:
        """The directory said yes."""
        self._throttle.succeeded(self._provider, account, peer, entry)

    def unanswered(self, account: str, peer: str, entry: str = "") -> None:
        """The directory said nothing, or was not asked after all: nobody is to blame."""
        self._throttle.unanswered(self._provider, account, peer, entry)


# What a directory overlooks in a name (RFC 4518 section 2.2 and Active Directory, which overlooks accents as well):
# each of these would be a fresh account to whoever counts the names as they are typed.
_OVERLOOKED = frozenset({"Cc", "Cf", "Mn", "Me", "Zs", "Zl", "Zp"})
_ALSO = frozenset("\u1806\ufffc")


def folded(name: str) -> str:
    """One spelling for all those of a name that a directory takes for the same."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in text if one not in _ALSO and unicodedata.category(one) not in _OVERLOOKED)


def place(peer: str) -> bytes:
    """The address that counts: of IPv6 the first 64 bits, because a host has all of those (RFC 4291 section 2.5.1)."""
    try:
        address = ip_address(peer)
    except ValueError:
        return peer.encode("utf-8", "surrogatepass")[:64]
    if isinstance(address, IPv6Address):
        if (mapped := address.ipv4_mapped) is not None:
            return mapped.packed
        return address.packed[:8]
    return address.packed
