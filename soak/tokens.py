"""The identity provider of a soak and every token that is shown: good ones, and those that must never hold.

Knows: keys and claims of the tests. Must not know: who shows a token.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from random import Random

from tests.identity.provider import Provider
from tests.identity.signers import ec_signer, hmac_token, rsa_signer

AUDIENCE = "nim-gateway"
LIFETIME = 24 * 3600  # seconds: longer than any soak
GROUP = "soakers"


class Tokens:
    """What the provider's keys sign, and what others sign in its name."""

    def __init__(self) -> None:
        self._keys = (ec_signer("soak-es"), rsa_signer("soak-rs"))
        self._stranger = ec_signer("stranger")
        self.provider = Provider(*(key.jwk() for key in self._keys))

    def good(self, name: str) -> str:
        """An access token; a new one each time."""
        return self._keys[0].sign(self._claims(name), typ="at+jwt")

    def rsa(self, name: str) -> str:
        """The same signed with the other key."""
        return self._keys[1].sign(self._claims(name), typ="at+jwt")

    def bad(self, chance: Random) -> tuple[str, str]:
        """(kind, token) of one that must be refused."""
        kind = chance.choice(list(BAD))
        return kind, BAD[kind](self, chance)

    def random_kid(self, _: Random) -> str:
        return self._stranger.sign(self._claims("mallory"), kid=secrets.token_hex(8))

    def forged(self, chance: Random) -> str:
        good = self.good("mallory")
        at = chance.randrange(good.rindex(".") + 1, len(good) - 2)
        return good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :]

    def known_kid(self, _: Random) -> str:
        return self._stranger.sign(self._claims("mallory"), kid="soak-es")

    def without_signature(self, _: Random) -> str:
        return self._keys[0].sign(self._claims("mallory"), alg="none").rpartition(".")[0] + "."

    def public_key_as_secret(self, _: Random) -> str:
        return hmac_token(str(self._keys[1].jwk()["n"]).encode(), self._claims("mallory"), kid="soak-rs")

    def expired(self, _: Random) -> str:
        return self._signed(exp=int(time.time()) - 600)

    def for_another(self, _: Random) -> str:
        return self._signed(aud="another-service")

    def of_another(self, _: Random) -> str:
        return self._signed(iss="http://127.0.0.1:9")

    def garbage(self, chance: Random) -> str:
        return ".".join(chance.randbytes(chance.randrange(1, 60)).hex() for _ in range(chance.randrange(1, 5)))

    def _signed(self, **changed: object) -> str:
        return self._keys[0].sign(self._claims("mallory") | changed, typ="at+jwt")

    def _claims(self, name: str) -> dict[str, object]:
        now = int(time.time())
        return {
            "iss": self.provider.issuer,
            "sub": name,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + LIFETIME,
            "jti": secrets.token_hex(8),
            "client_id": "soak",
            "groups": [GROUP],
        }


BAD: Mapping[str, Callable[[Tokens, Random], str]] = {
    "random kid": Tokens.random_kid,
    "forged": Tokens.forged,
    "known kid": Tokens.known_kid,
    "no signature": Tokens.without_signature,
    "public key as secret": Tokens.public_key_as_secret,
    "expired": Tokens.expired,
    "for another": Tokens.for_another,
    "of another": Tokens.of_another,
    "garbage": Tokens.garbage,
}
