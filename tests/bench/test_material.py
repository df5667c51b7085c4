"""Keys and tokens of a run are real: a library that the benchmark did not write accepts them."""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from jose import jwt
from jose.exceptions import JWTError

from bench.issuer import Issuer
from bench.material import AUDIENCE, Signer, write_certificate


def page(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  our own server on loopback
        return json.load(answer)


def test_a_token_verifies_against_the_key_set_that_the_issuer_serves() -> None:
    issuer = Issuer()
    try:
        discovery = page(f"{issuer.signer.issuer}/.well-known/openid-configuration")
        keys = page(discovery["jwks_uri"])
        claims = jwt.decode(issuer.signer.token(), keys, ["RS256"], audience=AUDIENCE, issuer=discovery["issuer"])
    finally:
        issuer.close()
    assert "data-science" in claims["groups"]


def test_another_runs_token_does_not() -> None:
    one, other = Signer("http://127.0.0.1:1"), Signer("http://127.0.0.1:1")
    with pytest.raises(JWTError):
        jwt.decode(one.token(), other.jwks(), ["RS256"], audience=AUDIENCE)


def test_the_certificate_can_be_served_and_trusted(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trust = ssl.create_default_context(cafile=tmp_path / "tls.crt")
    assert len(trust.get_ca_certs()) == 1
