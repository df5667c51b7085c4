"""Whether who shows a token also holds what it is bound to.

Knows: which kind of binding is checked how. Must not know: how tokens are verified or remembered.
"""

from __future__ import annotations

from hmac import compare_digest

from gateway.call import Call, ClientCertificate
from gateway.identity.credentials.bearer import dpop_token
from gateway.identity.refused import BadDpopToken, BadToken, Result
from gateway.identity.tokens.confirmation import Confirmation
from gateway.identity.tokens.dpop import Proofs


class Possession:
    """Checks what tokens are bound to."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    def check(self, bound: Confirmation | None, call: Call, value: bytes) -> None:
        """The sender of the call, whose `Authorization` is `value`, holds everything that its token is bound to.

        Raises `BadToken`, or `IdentityUnavailable` when that cannot be told at the moment.
        """
        token = dpop_token(value)
        if bound is not None and bound.certificate is not None:
            _check_certificate(bound.certificate, call.certificate)
        key = None if bound is None else bound.key
        if token is None and key is not None:
            raise BadDpopToken(Result.NO_PROOF, "it is bound to a key: send it as DPoP, with a proof", bearer=True)
        if token is not None:
            if key is None:
                raise BadDpopToken(Result.WRONG_KIND, "it is not bound to a key: send it as Bearer")
            self._proofs.check(call, token, key)


def _check_certificate(thumbprint: str, shown: ClientCertificate | None) -> None:
    """RFC 8705 section 3: the connection was opened with the very certificate that the token was issued to."""
    if shown is None:
        raise BadToken(Result.NO_PROOF, "it is bound to a client certificate, and the connection has none")
    if not compare_digest(shown.thumbprint, thumbprint):
        raise BadToken(Result.BAD_PROOF, "it is bound to another client certificate")
