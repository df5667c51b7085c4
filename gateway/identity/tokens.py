"""Bearer tokens of all configured issuers behind one `Identity`, and what was verified a moment ago.

Knows: which issuer a token claims, that what was vouched for is remembered. Must not know: claims, keys, HTTP clients.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from os import urandom

from gateway.call import Call, Principal
from gateway.errors import IdentityUnavailable
from gateway.identity.bearer import authorization, bearer_token
from gateway.identity.jwt import Token, parse
from gateway.identity.refused import BadToken, Result
from gateway.identity.vouching import Basis, Vouched, Voucher

# Only tokens that hold get in, so a stranger cannot push others out. An entry takes about half a KiB, a group or scope
# about 100 bytes: 30 MiB at most, whoever is in however many groups.
REMEMBERED_LIMIT = 10_000
NAMES_LIMIT = 250_000

#: The provider that is counted while a token has not shown a known issuer.
NO_PROVIDER = "unknown"

_CACHED = Result.CACHED.value


@dataclass(frozen=True, slots=True)
class _Verified:
    """A token that held. It holds on before `until` (UNIX seconds) and while `basis` stands."""

    principal: Principal
    until: float
    basis: Basis
    names: int


class BearerIdentity:
    """The `Identity` for `Authorization: Bearer`. One for each generation of the configuration: a reload forgets.

    `now` gives UNIX seconds; `count` gets the provider's name and a `Result` for each credential that was looked at.
    Raises `ValueError` when two providers have the same issuer.
    """

    def __init__(
        self,
        issuers: Iterable[Voucher],
        now: Callable[[], float],
        count: Callable[[str, str], None],
        *,
        remembered: int = REMEMBERED_LIMIT,
    ) -> None:
        self._issuers: dict[str, Voucher] = {}
        for one in issuers:
            if one.issuer in self._issuers:
                raise ValueError(f"two providers have the issuer {one.issuer}")
            self._issuers[one.issuer] = one
        self._now = now
        self._count = count
        self._remembered = remembered
        # By a digest that nobody else can make, so that no token stands in memory longer than its call.
        self._key = urandom(32)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._names = 0

    @property
    def entries(self) -> int:
        """Tokens remembered."""
        return len(self._verified)

    def recall(self, call: Call) -> Principal | None:
        """The caller of a head that held a moment ago, if its token still holds."""
        entry: _Verified | None = call.derived.get(self)
        if entry is None or not entry.basis.stands or self._now() >= entry.until:
            return None
        self._count(entry.principal.provider, _CACHED)
        return entry.principal

    async def identify(self, call: Call) -> Principal | None:
        """None without a bearer credential. Raises `BadToken` (401) or `IdentityUnavailable` (503)."""
        provider = NO_PROVIDER
        try:
            value = authorization(call)
            if value is None:
                return None
            digest = blake2b(value, key=self._key, digest_size=32).digest()
            principal = self._recall(digest)
            if principal is not None:
                call.note(self, self._verified[digest])
                self._count(principal.provider, _CACHED)
                return principal
            text = bearer_token(value)
            if text is None:
                return None
            token = parse(text)
            issuer = self._issuer(token)
            provider = issuer.name
            vouched = await issuer.verify(token)
        except BadToken as error:
            self._count(provider, error.reason.value)
            raise
        except IdentityUnavailable:
            self._count(provider, Result.UNAVAILABLE.value)
            raise
        self._remember(digest, vouched)
        self._count(provider, Result.OK.value)
        return vouched.principal

    def _issuer(self, token: Token) -> Voucher:
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            raise BadToken(Result.BAD_ISSUER, "its issuer is not known here")
        return issuer

    def _recall(self, digest: bytes) -> Principal | None:
        entry = self._verified.get(digest)
        if entry is None:
            return None
        if entry.basis.stands and self._now() < entry.until:
            return entry.principal
        del self._verified[digest]
        self._names -= entry.names
        return None

    def _remember(self, digest: bytes, vouched: Vouched) -> None:
        self._recall(digest)  # a call beside this one may have put it there
        principal = vouched.principal
        names = len(principal.groups) + len(principal.scopes)
        if digest not in self._verified:
            self._verified[digest] = _Verified(principal, vouched.until, vouched.basis, names)
            self._names += names
        while len(self._verified) > self._remembered or self._names > NAMES_LIMIT:
            self._names -= self._verified.popitem(last=False)[1].names
