"""DPoP proofs: none is believed that another library would not believe, nor one for another key, call or token.

An input is a header, a line end and claims, which the harness signs with the key of the caller; or, behind `raw:`, what
stands in the field.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry

from fuzz.material import Untold
from fuzz.tokens import SIGNERS, part_of
from gateway.identity.refused import BadProof
from gateway.identity.tokens.dpop import WINDOW, Proofs, Seen
from tests.identity.conftest import EPOCH, GATEWAY, call_with
from tests.identity.proofs import HOST, PATH, thumb
from tests.identity.signers import b64

RAW = b"raw:"
TOKEN = "a-token"  # noqa: S105  it is nobody's
SIGNER = SIGNERS["ES256"]
THUMB = thumb(SIGNER)
ATH = b64(hashlib.sha256(TOKEN.encode()).digest())


def written(data: bytes) -> bytes:
    """The value of the DPoP field."""
    if data.startswith(RAW):
        return data.removeprefix(RAW)
    header, _, claims = data.partition(b"\n")
    return SIGNER.sign_raw(b64(header), b64(claims)).encode()


def check(data: bytes) -> None:
    """Raises `AssertionError` for a proof that is believed and should not be."""
    value = written(data)
    proofs = Proofs(Seen(lambda: 0.0), lambda: EPOCH, GATEWAY)
    call = call_with((b"host", HOST.encode()), (b"dpop", value))
    try:
        proofs.check(call, TOKEN, THUMB)
    except BadProof as refused:
        assert refused.status == 401
        return
    _check_believed(value.strip(b" \t").decode())
    try:
        proofs.check(call, TOKEN, THUMB)
    except BadProof:
        return
    raise AssertionError("believed twice")


def _check_believed(text: str) -> None:
    header: dict[str, Any] = json.loads(part_of(text, 0), object_pairs_hook=_unique)
    claims: dict[str, Any] = json.loads(part_of(text, 1), object_pairs_hook=_unique)
    members = {name: value for name, value in header["jwk"].items() if name in {"kty", "crv", "x", "y", "n", "e"}}
    key = JWKRegistry.import_key(members)
    try:
        registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
        jws.deserialize_compact(text, key, registry=registry)
    except (JoseError, ValueError) as refused:
        raise Untold(f"joserfc refuses what we take: {refused}") from refused
    assert key.thumbprint() == THUMB
    assert not key.is_private
    assert "d" not in header["jwk"]
    assert header["typ"].lower().removeprefix("application/") == "dpop+jwt"
    assert (claims["htm"], claims["ath"]) == ("POST", ATH)
    assert abs(claims["iat"] - EPOCH) <= WINDOW
    assert isinstance(claims["jti"], str)
    assert claims["jti"]
    place = urlsplit(claims["htu"])
    assert (place.scheme.lower(), place.hostname) == ("https", HOST)
    assert place.port in {None, 443}  # RFC 3986 section 6.2.3: an empty one is the scheme's
    assert "@" not in place.netloc
    assert _plain(place.path) == PATH


def _plain(path: str) -> str:
    """Escapes of letters and the like undone, one by one; a slash stays as it is written."""
    pieces = path.split("%")
    done = pieces[0]
    for piece in pieces[1:]:
        letter = chr(int(piece[:2], 16))
        assert letter != "/", "a slash that was none"
        done += letter + piece[2:]
    return done


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)
