"""Who calls: the first identity that recognises the credential says so.

Knows: the order of identities, what to say when none recognises it. Must not know: any credential.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.bearer import CHALLENGE
from gateway.seams import Identity

Identify = Callable[[Call], Coroutine[Any, Any, Principal]]


def first_of(identities: Sequence[Identity], challenges: Sequence[bytes] = (CHALLENGE,)) -> Identify:
    """Ask `identities` in order. The step raises `Unidentified` with all `challenges` when none recognises the call's
    credential; what an identity raises ends the search, so a bad credential is never tried as another kind."""
    ordered = tuple(identities)
    headers = tuple((b"www-authenticate", challenge) for challenge in challenges)

    async def identify(call: Call) -> Principal:
        for identity in ordered:
            principal = await identity.identify(call)
            if principal is not None:
                return principal
        raise Unidentified(headers=headers)

    return identify
