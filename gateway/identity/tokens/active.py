"""Tokens that hold only while their provider says that they are active: opaque ones, and signed ones too if so wished.

Knows: what the provider has to say, how long that counts. Must not know: how it is asked, which claims become what.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from os import urandom

from gateway.identity.basis import Basis
from gateway.identity.contracts import Standing
from gateway.identity.provider.introspection import Introspector
from gateway.identity.refused import BadToken, Result
from gateway.identity.signatures.jwt import Claims, Token
from gateway.identity.tokens.claims import check_answer
from gateway.identity.tokens.confirmation import Confirmation, confirmation
from gateway.identity.tokens.mapping import ClaimMapping
from gateway.identity.tokens.oidc import OidcBearer
from gateway.identity.tokens.vouching import Vouched
from gateway.settings import OidcIssuer

# Whoever makes up tokens pushes others' refusals out, which costs one question more for each. 2 MB.
REFUSED_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: Result
    text: str
    until: float


class Refusals:
    """Tokens that did not hold, each for `seconds`, so that one that comes again and again is asked about once."""

    def __init__(self, seconds: float, steady: Callable[[], float], limit: int = REFUSED_LIMIT) -> None:
        self._seconds = seconds
        self._steady = steady
        self._limit = limit
        self._key = urandom(32)
        self._refused: OrderedDict[bytes, _Refusal] = OrderedDict()

    def check(self, token: str) -> None:
        """Raises the `BadToken` that was remembered."""
        found = self._refused.get(self._digest(token))
        if found is not None and self._steady() < found.until:
            raise BadToken(found.reason, found.text)

    def add(self, token: str, error: BadToken) -> None:
        digest = self._digest(token)
        self._refused.pop(digest, None)
        self._refused[digest] = _Refusal(error.reason, error.text, self._steady() + self._seconds)
        while len(self._refused) > self._limit:
            self._refused.popitem(last=False)

    def _digest(self, token: str) -> bytes:
        return blake2b(token.encode(), key=self._key, digest_size=32).digest()


class ActiveBearer:
    """Asks `introspector` about the tokens of `settings.issuer`. `signed`: their signature and claims have to hold as
    well, and say who it is. `now` gives UNIX seconds, `steady` is a monotonic clock."""

    def __init__(
        self,
        settings: OidcIssuer,
        introspector: Introspector,
        now: Callable[[], float],
        steady: Callable[[], float],
        *,
        signed: OidcBearer | None = None,
    ) -> None:
        self.name = settings.name
        self.issuer = settings.issuer
        self._settings = settings
        self._positive = introspector.asking.positive
        self._introspector = introspector
        self._now = now
        self._signed = signed
        self._mapping = ClaimMapping(settings)
        self._refusals = Refusals(introspector.asking.negative, steady)

    async def verify(self, token: Token) -> Vouched:
        """Who the token proves its sender to be, for at most `positive` seconds. Raises `BadToken` or
        `IdentityUnavailable`."""
        if self._signed is None:
            held = confirmation(token.claims)  # the provider vouches for the whole text, and may leave this out
            return await self._asked(token.text, lambda answer: self._told(answer, held))
        vouched = await self._signed.verify(token)
        return await self._asked(token.text, lambda answer: self._both(token, vouched, answer))

    async def vouch(self, text: str) -> Vouched:
        """The same for a token that says nothing by itself."""
        return await self._asked(text, self._told)

    def standing(self) -> Standing:
        """Everything that is asked has to answer."""
        asked = self._introspector.standing()
        if self._signed is None:
            return asked
        keys = self._signed.standing()
        return Standing(
            self.name, asked.ready and keys.ready, max(asked.outage, keys.outage), min(asked.bound, keys.bound)
        )

    async def _asked(self, text: str, read: Callable[[Claims], Vouched]) -> Vouched:
        self._refusals.check(text)
        answer = await self._introspector.ask(text)
        try:
            return read(_active(answer))
        except BadToken as error:
            self._refusals.add(text, error)
            raise

    def _told(self, answer: Claims, held: Confirmation | None = None) -> Vouched:
        """From the provider's answer alone, but for what the token itself says that it is bound to (`held`). An answer
        without `exp` says nothing of later than it is remembered."""
        answer = _owned(answer)
        until = self._now() + self._positive
        expires = check_answer(answer, self._settings, self._now())
        expires = until if expires is None else expires
        subject, bound = self._mapping.subject(answer), _binding(answer, held)
        _check_type(answer, bound)
        return Vouched(self._mapping.principal(answer, subject, expires), min(expires, until), Basis(), bound)

    def _both(self, token: Token, vouched: Vouched, answer: Claims) -> Vouched:
        """From the token, where the answer does not contradict it."""
        said = {**token.claims, **answer}
        expires = check_answer(said, self._settings, self._now())
        if self._mapping.subject(said) != vouched.principal.subject:
            raise BadToken(Result.BAD_CLAIMS, "its issuer knows it as that of another subject")
        bound = _binding(answer, vouched.bound)
        _check_type(said, bound)
        until = min(vouched.until, self._now() + self._positive)
        until = until if expires is None else min(until, expires)
        return Vouched(vouched.principal, until, vouched.basis, bound)


def _active(answer: Claims | None) -> Claims:
    if answer is None:
        raise BadToken(Result.INACTIVE, "it is not active")
    return answer


def _owned(answer: Claims) -> Claims:
    """A client that got a token for itself is its subject, as in signed tokens (RFC 9068 section 2.2).

    Where nobody else is involved, providers name the client only (RFC 7662 section 2.2).
    """
    if "sub" in answer or "username" in answer or "client_id" not in answer:
        return answer
    return {**answer, "sub": answer["client_id"]}


def _binding(answer: Claims, held: Confirmation | None) -> Confirmation | None:
    """What a token is bound to, by the answer or by itself: neither can take back what the other says."""
    told = confirmation(answer)
    if told is not None and held is not None and told != held:
        raise BadToken(Result.BAD_CLAIMS, "its issuer knows it as bound to something else")
    return told or held


def _check_type(answer: Claims, bound: Confirmation | None) -> None:
    """RFC 9449 section 6.2: what is called DPoP is bound to a key."""
    kind = answer.get("token_type")
    if isinstance(kind, str) and kind.lower() == "dpop" and (bound is None or bound.key is None):
        raise BadToken(Result.BAD_CLAIMS, "it is of the type DPoP, and bound to no key")
