"""Who calls: the first identity that recognises the credential says so, unless it was revoked.

Knows: the order of identities, what to say when none recognises it. Must not know: any credential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.refused import CHALLENGE, Result
from gateway.identity.revocation.revoked import Revoked
from gateway.seams import Identity

_REVOKED = Result.REVOKED.value


class FirstOf:
    """Asks `identities` in order; what one raises ends the search: a bad credential is never tried as another kind."""

    def __init__(
        self,
        identities: Sequence[Identity],
        challenges: Sequence[bytes] = (CHALLENGE,),
        revoked: Revoked | None = None,
        count: Callable[[str, str], None] = lambda *_: None,
        needed: str = "",
    ) -> None:
        """`challenges` and `needed`: what to answer when none recognises the credential (RFC 9110 section 11.6.1).

        `count` gets a provider's name and a `Result` for each credential that holds but is `revoked`.
        """
        self._identities = tuple(identities)
        self._headers = tuple((b"www-authenticate", challenge) for challenge in challenges)
        self._revoked = revoked
        self._count = count
        self._needed = needed

    def recall(self, call: Call) -> Principal | None:
        """A caller who was identified a moment ago; see `seams.Identity`."""
        knew: Identity | None = call.derived.get(self)
        return None if knew is None else knew.recall(call)

    async def identify(self, call: Call) -> Principal:
        """The caller. Raises `Unidentified` when no identity recognises the credential or it was revoked, and whatever
        they raise."""
        for identity in self._identities:
            if (principal := await identity.identify(call)) is not None:
                if self._revoked is not None and (why := self._revoked.why(principal)):
                    self._count(principal.provider, _REVOKED)
                    raise identity.revoked(call, why)
                call.note(self, identity)
                return principal
        raise Unidentified(self._needed, headers=self._headers)
