"""Proofs that the caller holds the key a token is bound to, one for each call (RFC 9449).

Knows: what a proof must say, which ones were seen. Must not know: tokens but for their text, what is bound to what.
"""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b, sha256
from hmac import compare_digest
from os import urandom
from urllib.parse import urlsplit

from gateway.call import Call
from gateway.errors import IdentityUnavailable
from gateway.identity.refused import BadDpopToken, BadProof, Result
from gateway.identity.signatures.jwk import SigningKey, signing_key, thumbprint
from gateway.identity.signatures.jwt import signed_by, split
from gateway.settings import ALGORITHMS

# A proof with an RSA key of 8192 bits takes 3.5 KiB.
PROOF_LIMIT = 8 * 1024
# How far the time of a proof may be from ours, in seconds: clocks of clients that keep them are closer, and each proof
# has to be remembered for as long as it holds.
WINDOW = 60.0
# A proof from the future holds for twice that; the rest is for clocks that are being set right meanwhile.
REMEMBERED_SECONDS = 2 * WINDOW + 5
# 1600 calls with proofs a second, for 125 seconds. An entry takes about 170 bytes: 34 MB.
REMEMBERED_LIMIT = 200_000
RETRY_SECONDS = 5

_PRINTABLE = re.compile(r"[!-~]+")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PORTS = {"https": 443, "http": 80}


class Seen:
    """Proofs that were used, until they hold no more. One for the whole life of the gateway: a reload forgets nothing.

    `steady` is a monotonic clock in seconds.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic, limit: int = REMEMBERED_LIMIT) -> None:
        self._steady = steady
        self._limit = limit
        self._key = urandom(32)
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def use(self, key: str, name: str) -> bool:
        """False when the key of this thumbprint used this name (`jti`) before.

        Raises `IdentityUnavailable` when no more can be remembered: nothing is forgotten early to make room.
        """
        now = self._steady()
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        digest = blake2b(f"{key} {name}".encode(), key=self._key, digest_size=16).digest()
        if digest in self._until:
            return False
        if len(self._until) >= self._limit:
            raise IdentityUnavailable(retry_after=RETRY_SECONDS, detail="no room to remember another DPoP proof")
        self._until[digest] = now + REMEMBERED_SECONDS
        return True


class Proofs:
    """Checks proofs. `now` gives UNIX seconds; `own_urls` those of the gateway that a call with this `Host` may have
    been sent to, without a final slash; none for a `Host` that is not the gateway's."""

    def __init__(self, seen: Seen, now: Callable[[], float], own_urls: Callable[[str], tuple[str, ...]]) -> None:
        self._seen = seen
        self._now = now
        self._own_urls = own_urls

    def check(self, call: Call, token: str, thumb: str) -> None:
        """The call proves that its sender holds the key with this thumbprint (RFC 9449 section 4.3).

        Raises `BadProof`, or `IdentityUnavailable` when too many proofs are remembered.
        """
        values = call.values(b"dpop")
        if not values:
            raise BadProof(Result.NO_PROOF, "the token is bound to a key, so each call needs a DPoP field with a proof")
        if len(values) > 1:
            raise _bad("send the DPoP field once")
        text = _text(values[0])
        key, algorithm, claims = _read(text)
        self._check_claims(claims, call, token)
        held = thumbprint(key.public)
        if not compare_digest(held, thumb):
            raise BadDpopToken(Result.BAD_PROOF, "it is bound to another key")
        if not signed_by(text, algorithm, [key]):
            raise _bad("its signature does not hold")
        if not self._seen.use(held, str(claims["jti"])):
            raise _bad("it was used before; make a new one for each call")

    def _check_claims(self, claims: Mapping[str, object], call: Call, token: str) -> None:
        name, issued = claims.get("jti"), claims.get("iat")
        if not isinstance(name, str) or not name:
            raise _bad("its jti is missing or not a text")
        if claims.get("htm") != call.method:
            raise _bad("its htm is not the method of this call")
        self._check_target(claims.get("htu"), call)
        if isinstance(issued, bool) or not isinstance(issued, (int, float)):
            raise _bad("its iat is missing or not a time in seconds")
        if not abs(self._now() - issued) <= WINDOW:
            raise _bad(f"its iat is not within {WINDOW:g} seconds of now")
        digest = urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
        if claims.get("ath") != digest:
            raise _bad("its ath is not the hash of the token")

    def _check_target(self, url: object, call: Call) -> None:
        """The caller may not choose both: who took a proof that was meant for another server would choose that one."""
        bases = self._own_urls((call.value(b"host") or b"").decode("latin-1"))
        if not bases:
            raise _bad("the Host of this call is no name of this gateway")
        named = _normal(url) if isinstance(url, str) else None
        if named is None or named not in [_normal(base + call.path) for base in bases]:
            raise _bad("its htu is not the URL of this call")


def _bad(text: str) -> BadProof:
    return BadProof(Result.BAD_PROOF, text)


def _text(value: bytes) -> str:
    text = value.strip(b" \t").decode("latin-1")
    if len(text) > PROOF_LIMIT:
        raise _bad(f"a proof has at most {PROOF_LIMIT} bytes")
    return text


def _read(text: str) -> tuple[SigningKey, str, Mapping[str, object]]:
    """The key that a proof brings along, its algorithm and its claims: nothing is proven yet. Raises `BadProof`."""
    try:
        header, claims = split(text)
    except ValueError:
        raise _bad("it is not a well formed JSON Web Token") from None
    algorithm, kind = header.get("alg"), header.get("typ")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") != "dpop+jwt":
        raise _bad("its typ is not dpop+jwt")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _bad("its algorithm is not accepted here")
    if "crit" in header or "b64" in header:  # RFC 7515 section 4.1.11: we understand no extension
        raise _bad("its header demands an extension that is not known here")
    try:
        return signing_key(header.get("jwk"), ALGORITHMS), algorithm, claims
    except ValueError:
        raise _bad("its jwk is not a public key that can be used") from None


def _normal(url: str) -> str | None:
    """A URL without query and fragment, in one spelling (RFC 3986 sections 6.2.2 and 6.2.3); None for what is none."""
    if not _PRINTABLE.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[parts.scheme]:
        authority = f"{authority}:{port}"
    path = _ESCAPE.sub(_unescaped, parts.path)
    return f"{parts.scheme}://{authority}{path or '/'}"


def _unescaped(escape: re.Match[str]) -> str:
    letter = chr(int(escape[1], 16))
    return letter if letter in _UNRESERVED else escape[0].upper()
