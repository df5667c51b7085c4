"""Who calls: the first identity that recognises the credential says so.

Knows: the order of identities, what to say when none recognises it. Must not know: any credential.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.refused import CHALLENGE
from gateway.seams import Identity


class FirstOf:
    """Asks `identities` in order; what one raises ends the search: a bad credential is never tried as another kind."""

    def __init__(self, identities: Sequence[Identity], challenges: Sequence[bytes] = (CHALLENGE,)) -> None:
        """`challenges`: what to answer when none recognises the credential (RFC 9110 section 11.6.1)."""
        self._identities = tuple(identities)
        self._headers = tuple((b"www-authenticate", challenge) for challenge in challenges)

    def recall(self, call: Call) -> Principal | None:
        """A caller who was identified a moment ago; see `seams.Identity`."""
        knew: Identity | None = call.derived.get(self)
        return None if knew is None else knew.recall(call)

    async def identify(self, call: Call) -> Principal:
        """The caller. Raises `Unidentified` when no identity recognises the credential, and whatever they raise."""
        for identity in self._identities:
            if (principal := await identity.identify(call)) is not None:
                call.note(self, identity)
                return principal
        raise Unidentified(headers=self._headers)
