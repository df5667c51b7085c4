"""Tokens of all configured issuers behind one `Identity`, and what was verified a moment ago.

Knows: which issuer a token claims, that what was vouched for is remembered. Must not know: claims, keys, HTTP clients.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from os import urandom
from typing import Any

from gateway.call import Call, Principal
from gateway.errors import IdentityUnavailable, Unidentified
from gateway.identity.apikeys.keytext import PREFIX as KEY_PREFIX
from gateway.identity.basis import Basis
from gateway.identity.credentials.bearer import authorization, is_dpop, shown_token
from gateway.identity.refused import INVALID, BadDpopToken, BadProof, BadToken, Result
from gateway.identity.signatures.jwt import parse
from gateway.identity.tokens.confirmation import Confirmation
from gateway.identity.tokens.dpop import Proofs, Seen
from gateway.identity.tokens.possession import Possession
from gateway.identity.tokens.vouching import Opaque, Vouched, Voucher

# Only tokens that hold get in, so a stranger cannot push others out. An entry takes about half a KiB, a group or scope
# about 100 bytes: 30 MiB at most, whoever is in however many groups.
REMEMBERED_LIMIT = 10_000
NAMES_LIMIT = 250_000

#: The provider that is counted while a token has not shown a known issuer.
NO_PROVIDER = "unknown"

_OK, _CACHED = Result.OK.value, Result.CACHED.value


@dataclass(frozen=True, slots=True)
class _Verified:
    """A token that held. It holds on before `until` (UNIX seconds) and while `basis` stands.

    `guarded`: it is bound, or was shown as if it were: each call is looked at.
    """

    principal: Principal
    until: float
    basis: Basis
    bound: Confirmation | None
    guarded: bool
    names: int


class BearerIdentity:
    """The `Identity` for `Authorization: Bearer` and `DPoP`. One for each generation of the configuration: a reload
    forgets.

    `now` gives UNIX seconds; `count` gets the provider's name and a `Result` for each credential that was looked at.
    `opaque` is asked about tokens that name no issuer. `possession` None: no URL is the gateway's, and no proof holds.
    Raises `ValueError` when two providers have the same issuer.
    """

    def __init__(
        self,
        issuers: Iterable[Voucher],
        now: Callable[[], float],
        count: Callable[[str, str], None],
        *,
        possession: Possession | None = None,
        opaque: Opaque | None = None,
        remembered: int = REMEMBERED_LIMIT,
    ) -> None:
        self._issuers: dict[str, Voucher] = {}
        for one in issuers:
            if one.issuer in self._issuers:
                raise ValueError(f"two providers have the issuer {one.issuer}")
            self._issuers[one.issuer] = one
        self._now = now
        self._count = count
        self._possession = possession or Possession(Proofs(Seen(), now, lambda _: ()))
        self._opaque = opaque
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
        """None without a token. Raises `BadToken` (401) or `IdentityUnavailable` (503)."""
        provider, value = NO_PROVIDER, None
        try:
            value = authorization(call)
            if value is None:
                return None
            digest = blake2b(value, key=self._key, digest_size=32).digest()
            entry, result = self._recall(digest), _CACHED
            if entry is None:
                text = shown_token(value)
                if text is None:
                    return None
                provider, asked = self._ask(text)
                entry, result = self._remember(digest, await asked, dpop=is_dpop(value)), _OK
            provider = entry.principal.provider
            if entry.guarded:
                self._possession.check(entry.bound, call, value)
        except BadToken as error:
            self._count(provider, error.reason.value)
            if value is not None and is_dpop(value) and not isinstance(error, BadProof):
                raise BadDpopToken(error.reason, error.text, error.detail) from None
            raise
        except IdentityUnavailable:
            self._count(provider, Result.UNAVAILABLE.value)
            raise
        if entry.bound is None or entry.bound.key is None:  # else each call has a proof of its own
            call.note(self, entry)
        self._count(provider, result)
        return entry.principal

    def revoked(self, call: Call, why: str, /) -> Unidentified:
        """See `seams.Identity`."""
        bad = BadDpopToken if is_dpop(call.value(b"authorization") or b"") else BadToken
        return bad(Result.REVOKED, INVALID, f"{Result.REVOKED.value} {why}")

    def _ask(self, text: str) -> tuple[str, Coroutine[Any, Any, Vouched]]:
        """Who is asked about a token, by name, and the asking. Raises `BadToken`."""
        if text.startswith(KEY_PREFIX):  # under the wrong scheme, or where keys are not taken: nobody else is shown it
            raise BadToken(Result.WRONG_KIND, "it is an API key, and no token")
        if self._opaque is not None and text.count(".") != 2:
            return self._opaque.name, self._opaque.vouch(text)
        token = parse(text)
        issuer = self._issuers.get(token.issuer)
        if issuer is None:
            detail = f"{Result.BAD_ISSUER.value} issuer={token.issuer}"
            raise BadToken(Result.BAD_ISSUER, "its issuer is not known here", detail)
        return issuer.name, issuer.verify(token)

    def _recall(self, digest: bytes) -> _Verified | None:
        entry = self._verified.get(digest)
        if entry is None:
            return None
        if entry.basis.stands and self._now() < entry.until:
            return entry
        del self._verified[digest]
        self._names -= entry.names
        return None

    def _remember(self, digest: bytes, vouched: Vouched, *, dpop: bool) -> _Verified:
        entry = self._recall(digest)
        if entry is not None:  # a call beside this one has put it there
            return entry
        principal, bound = vouched.principal, vouched.bound
        names = len(principal.groups) + len(principal.scopes)
        entry = _Verified(principal, vouched.until, vouched.basis, bound, dpop or bound is not None, names)
        self._verified[digest] = entry
        self._names += names
        while len(self._verified) > self._remembered or self._names > NAMES_LIMIT:
            self._names -= self._verified.popitem(last=False)[1].names
        return entry
