"""Settings for asking providers about tokens: what would leave nobody to ask, or ask the wrong one, is said with its
place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.config.conftest import MINIMAL, refused, taken

Write = Callable[[str], Path]

SECRET = "client_secret: {env: SECRET}"
ISSUER = "https://idp.example.com\n"
KEYS = "      jwks_uri: https://idp.example.com/k\n"


def asking(verify: str, *members: str, more: str = "") -> str:
    """The provider `corp` with these settings; no member leaves `introspection` out."""
    lines = f"      verify: {verify}\n{more}"
    if members:
        lines += f"      introspection: {{{', '.join(('client_id: gw', *members))}}}\n"
    return MINIMAL.replace("      audience", f"{lines}      audience")


def other(verify: str) -> str:
    asked = f"introspection: {{client_id: gw, {SECRET}}}"
    return f"    - {{name: b, issuer: https://b.example.com, audience: [a], verify: {verify}, {asked}}}\npolicies:"


MISTAKES = {
    "nobody to ask": (asking("introspect"), "verify: introspect needs introspection"),
    "nobody to ask as well": (asking("both"), "verify: both needs introspection"),
    "nothing to prove it with": (asking("both", "positive: 1s"), "needs a client_secret or a private_key"),
    "two proofs": (asking("both", SECRET, "private_key: tls.key"), "a private_key, and not both"),
    "a plain endpoint": (asking("both", SECRET, "endpoint: http://idp.example.com/i"), "must be https://"),
    "nowhere to ask": (
        asking("both", SECRET, more=KEYS).replace(ISSUER, "idp\n"),
        "an issuer that is no URL needs an introspection endpoint",
    ),
    "two for opaque tokens": (
        asking("introspect", SECRET).replace("policies:", other("introspect")),
        "one provider at most can have verify: introspect",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_provider_that_could_not_be_asked_is_refused(write: Write, name: str) -> None:
    text, said = MISTAKES[name]
    lines = refused(write(text), SECRET="x")
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.parametrize(
    "text",
    [
        asking("jwt", SECRET),
        asking("introspect", SECRET),
        asking("both", "private_key: tls.key"),
        asking("both", SECRET, "endpoint: http://127.0.0.1:9/i"),
        asking("both", SECRET, "endpoint: http://idp.example.com/i", more="      allow_insecure: true\n"),
        asking("introspect", SECRET, "endpoint: https://idp.example.com/i", more=KEYS).replace(ISSUER, "idp\n"),
        asking("introspect", SECRET, "endpoint: https://idp.example.com/i").replace(ISSUER, "idp\n"),
        asking("introspect", SECRET).replace("policies:", other("both")),
        asking("both", SECRET).replace("policies:", other("both")),
    ],
)
def test_a_provider_that_can_be_asked_is_taken(write: Write, text: str) -> None:
    (corp, *_) = taken(write(text), SECRET="x").settings.oidc
    assert corp.introspection is not None
    assert (corp.introspection.client_id, corp.introspection.positive) == ("gw", 60.0)
    assert "'x'" not in repr(corp)
