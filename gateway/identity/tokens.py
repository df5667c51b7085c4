"""Bearer tokens of all configured issuers behind one `Identity`, and what was verified a moment ago.

Knows: which issuer a token claims, what may be remembered and how long. Must not know: claims, keys, HTTP clients.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from gateway.call import Call, Principal
from gateway.errors import IdentityUnavailable
from gateway.identity.bearer import authorization, bearer_token
from gateway.identity.jwt import Token, parse
from gateway.identity.keys import KeySet
from gateway.identity.oidc import OidcBearer
from gateway.identity.refused import BadToken, Result

# Only tokens that hold get in, so a stranger cannot push others out. An entry takes about half a KiB, a group or scope
# about 100 bytes: 30 MiB at most, whoever is in however many groups.
REMEMBERED_LIMIT = 10_000
NAMES_LIMIT = 250_000

#: The provider that is counted while a token has not shown a known issuer.
NO_PROVIDER = "unknown"

_CACHED = Result.CACHED.value


@dataclass(frozen=True, slots=True)
class _Verified:
    """A token that held. It holds on before `until` (UNIX seconds) and while its keys have this generation."""

    principal: Principal
    until: float
    keys: KeySet
    generation: int
    names: int


class BearerIdentity:
    """The `Identity` for `Authorization: Bearer`. One for each generation of the configuration: a reload forgets.

    `now` gives UNIX seconds; `count` gets the provider's name and a `Result` for each credential that was looked at.
    Raises `ValueError` when two providers have the same issuer.
    """

    def __init__(
        self,
        issuers: Iterable[OidcBearer],
        now: Callable[[], float],
        count: Callable[[str, str], None],
        *,
        remembered: int = REMEMBERED_LIMIT,
    ) -> None:
        self._issuers: dict[str, OidcBearer] = {}
        for one in issuers:
            if one.issuer in self._issuers:
                raise ValueError(f"two providers have the issuer {one.issuer}")
            self._issuers[one.issuer] = one
        self._now = now
        self._count = count
        self._remembered = remembered
        # Keyed by a digest, so that no token stands in memory longer than its call.
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._names = 0

    @property
    def entries(self) -> int:
        """Tokens remembered."""
        return len(self._verified)

    def recall(self, call: Call) -> Principal | None:
        """The caller of a head that held a moment ago, if its token still holds."""
        entry: _Verified | None = call.derived.get(self)
        if entry is None or entry.keys.generation != entry.generation or self._now() >= entry.until:
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
            digest = sha256(value).digest()
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
            principal = await issuer.verify(token)
        except BadToken as error:
            self._count(provider, error.reason.value)
            raise
        except IdentityUnavailable:
            self._count(provider, Result.UNAVAILABLE.value)
            raise
        self._remember(digest, principal, issuer)
        self._count(provider, Result.OK.value)
        return principal

    def _issuer(self, token: Token) -> OidcBearer:
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            raise BadToken(Result.BAD_ISSUER, "its issuer is not known here")
        return issuer

    def _recall(self, digest: bytes) -> Principal | None:
        entry = self._verified.get(digest)
        if entry is None:
            return None
        if entry.keys.generation == entry.generation and self._now() < entry.until:
            return entry.principal
        del self._verified[digest]
        self._names -= entry.names
        return None

    def _remember(self, digest: bytes, principal: Principal, issuer: OidcBearer) -> None:
        """Until it expires, leeway included as when it is verified, or its keys would no longer be believed."""
        self._recall(digest)  # a call beside this one may have put it there
        until = min(principal.expires + issuer.leeway, self._now() + issuer.keys.seconds_left())
        names = len(principal.groups) + len(principal.scopes)
        if digest not in self._verified:
            self._verified[digest] = _Verified(principal, until, issuer.keys, issuer.keys.generation, names)
            self._names += names
        while len(self._verified) > self._remembered or self._names > NAMES_LIMIT:
            self._names -= self._verified.popitem(last=False)[1].names
