"""What must hold between the settings for asking providers about tokens and keys.

Knows: how a client proves who it is, who may be sent a token. Must not know: other settings, how anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.part import Finding, Part
from gateway.config.units import is_loopback, url


def introspection(file: Part) -> Iterator[Finding]:
    """Whoever is to be asked about tokens can be, and nobody is asked about the tokens of another."""
    alone = False
    for provider in file["identity"]["oidc"]:
        verify, asking = provider["verify"], provider["introspection"]
        if verify.text in {"introspect", "both"} and asking.value is None:
            yield Finding(verify.path, f"verify: {verify.text} needs introspection, with a client_id")
        if verify.text == "introspect" and alone:
            yield Finding(
                verify.path,
                "opaque tokens do not say whose they are, so one provider at most can have verify: introspect; "
                "take both, which asks about signed tokens only",
            )
        alone = alone or verify.text == "introspect"
        if asking.value is not None:
            yield from _of(provider, asking)


def _of(provider: Part, asking: Part) -> Iterator[Finding]:
    proofs = [name for name in ("client_secret", "private_key") if asking[name].value is not None]
    if len(proofs) != 1:
        yield Finding(asking.path, "introspection needs a client_secret or a private_key, and not both")
    endpoint = asking["endpoint"]
    if endpoint.text.startswith("http://") and not is_loopback(endpoint.text):
        if provider["allow_insecure"].value is not True:
            yield Finding(
                endpoint.path,
                "an introspection endpoint must be https://: tokens are sent to it; "
                "http:// is taken on a loopback address, elsewhere only with allow_insecure: true",
            )
    elif not endpoint.text and provider["verify"].text in {"introspect", "both"}:
        try:
            url(provider["issuer"].text)
        except ValueError:
            yield Finding(asking.path, "an issuer that is no URL needs an introspection endpoint")


def discovery_tokens(file: Part) -> Iterator[Finding]:
    """A token of the gateway's own must not go over the net for everybody to take."""
    for provider in file["identity"]["oidc"]:
        token, source = provider["discovery_token"], provider["jwks_uri"].text or provider["issuer"].text
        if token.value and source.startswith("http://") and not is_loopback(source):
            yield Finding(token.path, "this token would be sent without TLS; use https://")
