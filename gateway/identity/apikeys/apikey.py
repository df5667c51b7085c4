"""API keys behind one `Identity`: `Authorization: Bearer`, `x-api-key`, and Basic with the key as password.

Knows: where a key stands in a request, which keys there are. Must not know: the file they are kept in, other kinds of
credential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.apikeys.keytext import PREFIX, digest_of, id_of
from gateway.identity.credentials.basic import name_and_password
from gateway.identity.credentials.bearer import bearer_token
from gateway.identity.refused import INVALID, BadKey, BadLogin, BadToken, Result

#: What policies, metrics and audit lines call the provider; the issuer of its principals too.
PROVIDER: Final = "api_keys"

#: The provider that is counted while a credential has not shown to be a key.
NO_PROVIDER: Final = "unknown"

_CACHED = Result.CACHED.value


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: a digest. Times are UNIX seconds; `revoked`: since when it holds no more."""

    id: str
    digest: bytes = field(repr=False)
    owner: str
    groups: frozenset[str]
    created: float
    expires: float = float("inf")
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """A key, and the caller whom it proves."""

    key: ApiKey
    principal: Principal


class ApiKeys:
    """The `Identity` of API keys. One for each generation of the configuration.

    `now` gives UNIX seconds; `count` gets a provider's name and a `Result` for each credential that was looked at,
    `used` the id of a key that held, and when.
    """

    def __init__(
        self,
        keys: Iterable[ApiKey],
        now: Callable[[], float],
        count: Callable[[str, str], None],
        used: Callable[[str, float], None],
    ) -> None:
        self._known = {key.id: _Known(key, _principal(key)) for key in keys}
        self._now = now
        self._count = count
        self._used = used

    def recall(self, call: Call) -> Principal | None:
        """The caller of a head that held a moment ago, if its key still holds."""
        known: _Known | None = call.derived.get(self)
        if known is None or (now := self._now()) >= known.key.expires:
            return None
        self._count(PROVIDER, _CACHED)
        self._used(known.key.id, now)
        return known.principal

    async def identify(self, call: Call) -> Principal | None:
        """None without an API key. Raises `BadToken` or `BadLogin` (401) where it does not hold or is not alone."""
        provider = NO_PROVIDER
        try:
            shown = _shown(call)
            if shown is None:
                return None
            provider = PROVIDER
            known = self._checked(*shown)
        except (BadToken, BadLogin) as error:
            self._count(provider, error.reason.value)
            raise
        call.note(self, known)
        self._count(PROVIDER, Result.OK.value)
        return known.principal

    def revoked(self, call: Call, why: str, /) -> Unidentified:
        """See `seams.Identity`."""
        detail = f"{Result.REVOKED.value} {why}"
        value = call.value(b"authorization")
        in_basic = value is not None and name_and_password(value) is not None
        return BadLogin(Result.REVOKED, detail) if in_basic else BadKey(Result.REVOKED, INVALID, detail)

    def _checked(self, text: str, refused: Callable[[Result, str, str], Unidentified]) -> _Known:
        """The key that `text` is. Whether a key of this id exists is not told, nor by the time that it takes."""
        key_id = id_of(text)
        if key_id is None:
            raise refused(Result.MALFORMED, "it is not a whole key; copy it again", "")
        known = self._known.get(key_id)
        digest = digest_of(text)
        holds = compare_digest(digest, known.key.digest if known else _NO_DIGEST)
        if known is None or not holds:
            raise refused(Result.UNKNOWN_KEY_ID, INVALID, key_id)
        now = self._now()
        if known.key.revoked is not None:
            raise refused(Result.REVOKED, INVALID, key_id)
        if now >= known.key.expires:
            raise refused(Result.EXPIRED, "it has expired", key_id)
        self._used(key_id, now)
        return known


# What an unknown id is compared with: nothing has this digest.
_NO_DIGEST = bytes(32)


def _principal(key: ApiKey) -> Principal:
    return Principal(
        subject=key.owner,
        issuer=PROVIDER,
        provider=PROVIDER,
        groups=key.groups,
        client=key.id,
        expires=key.expires,
        credential=key.id,
    )


def _shown(call: Call) -> tuple[str, Callable[[Result, str, str], Unidentified]] | None:
    """The key of a call, and how to refuse it where it stands; None when it shows none.

    Raises `BadToken` or `BadLogin` for two credentials, and for one in an odd form.
    """
    found = [(name, value) for name, value in call.fields if name in (b"authorization", b"x-api-key")]
    if len(found) > 1:
        raise BadToken(Result.MALFORMED, "send one credential, in one field")
    if not found:
        return None
    name, value = found[0]
    if name == b"x-api-key":
        return value.strip(b" \t").decode("latin-1"), _bad_key
    token = bearer_token(value)
    if token is not None:
        return (token, _bad_key) if token.startswith(PREFIX) else None
    pair = name_and_password(value)
    return (pair[1], _bad_login) if pair and pair[1].startswith(PREFIX) else None


def _bad_key(reason: Result, text: str, key_id: str) -> BadKey:
    return BadKey(reason, text, _detail(reason, key_id))


def _bad_login(reason: Result, _: str, key_id: str) -> BadLogin:
    return BadLogin(reason, _detail(reason, key_id))


def _detail(reason: Result, key_id: str) -> str:
    """For operators. The id is no secret."""
    return f"{reason.value} key={key_id}" if key_id else reason.value
