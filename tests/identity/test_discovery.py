"""Where the keys of an issuer are, and from where they are not believed."""

from __future__ import annotations

import pytest

from tests.identity.conftest import Bench
from tests.identity.signers import rsa_signer
from tests.parts.issuers import Issuer, Issuers


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"issuer": "{issuer}/"}, "another issuer"),
        ({"issuer": "https://evil.test"}, "another issuer"),
        ({"issuer": None}, "another issuer"),
        ({"jwks_uri": None}, "no jwks_uri"),
        ({"jwks_uri": ["x"]}, "no jwks_uri"),
        ({"jwks_uri": "http://keys.test/keys"}, "not https"),
        ({"jwks_uri": "file:///etc/passwd"}, "not https"),
        ({"jwks_uri": "//127.0.0.1/keys"}, "not https"),
        ({"jwks_uri": "http://127.0.0.1.evil.test/"}, "not https"),
    ],
)
async def test_a_discovery_document_that_does_not_fit_is_refused(
    cold: Bench, caplog: pytest.LogCaptureFixture, said: dict[str, object], reason: str
) -> None:
    """OpenID Connect Discovery 1.0 section 4.3."""
    issuer = cold.provider.issuer
    cold.provider.discovery = {k: v.format(issuer=issuer) if isinstance(v, str) else v for k, v in said.items()}
    await cold.keys.refresh()
    assert not cold.keys.ready
    assert cold.fetches == 0
    assert reason in caplog.text


async def test_keys_whose_place_is_given_are_fetched_there_whatever_the_issuer_is_called(cold: Bench) -> None:
    """AD FS signs as another than its documents lie under; Google has tokens whose issuer is no URL."""
    cold.rebuild(issuer="http://adfs.test/services/trust", jwks_uri=cold.provider.issuer + "/keys")
    await cold.keys.refresh()
    assert (await cold.identify(cold.token(iss="http://adfs.test/services/trust"))).subject == "alice"
    assert cold.provider.hits == {"keys": 1}
    assert await cold.refused(cold.token()) == "bad_issuer"


async def test_keys_whose_place_is_given_are_not_believed_over_plain_http_from_elsewhere(
    cold: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    cold.rebuild(jwks_uri="http://keys.test/keys")
    await cold.keys.refresh()
    assert "jwks_uri is not https" in caplog.text
    assert not cold.keys.ready


async def test_an_issuer_with_a_path_and_a_slash_is_asked_at_the_right_place(cold: Bench) -> None:
    cold.rebuild(issuer=cold.provider.issuer + "/")
    cold.provider.discovery = {"issuer": cold.provider.issuer + "/"}
    await cold.keys.refresh()
    assert (await cold.identify(cold.token(iss=cold.provider.issuer + "/"))).subject == "alice"
    assert await cold.refused(cold.token()) == "bad_issuer"


@pytest.mark.parametrize("issuer", ["http://idp.test", "ftp://127.0.0.1", "127.0.0.1", "http://127.0.0.1.evil.test"])
async def test_plain_http_is_not_believed_from_elsewhere(
    cold: Bench, caplog: pytest.LogCaptureFixture, issuer: str
) -> None:
    cold.rebuild(issuer=issuer)
    await cold.keys.refresh()
    assert "the issuer is not https" in caplog.text


def tokens_sent(issuers: Issuers) -> list[list[str]]:
    return [request.values("authorization") for request in issuers.requests]


async def test_a_provider_that_tells_nobody_else_is_asked_with_the_gateways_own_token(cold: Bench) -> None:
    """As a Kubernetes API server that lets no stranger read its keys."""
    with Issuers() as issuers:
        issuer = issuers.add("/cluster", rsa_signer("k1").jwk())
        issuer.asks = "ours"
        cold.rebuild(issuer=issuer.iss, discovery_token="theirs")
        await cold.keys.refresh()
        assert not cold.keys.ready
        cold.rebuild(discovery_token="ours")
        await cold.keys.refresh()
        assert cold.keys.ready
        assert (await cold.identify(cold.token(iss=issuer.iss))).subject == "alice"
        cold.rebuild(discovery_token=None)
        await cold.keys.refresh()
        assert not cold.keys.ready
        assert issuer.hits["refused"] == 2
        assert tokens_sent(issuers) == [["Bearer theirs"], ["Bearer ours"], ["Bearer ours"], []]


async def test_the_gateways_token_goes_to_no_other_server_that_a_document_names(cold: Bench) -> None:
    with Issuers() as issuers, Issuers() as elsewhere:
        keys: Issuer = elsewhere.add_keys("/keys", rsa_signer("k1").jwk())
        issuer = issuers.add("/cluster", jwks_uri=f"{elsewhere.url}/keys")
        cold.rebuild(issuer=issuer.iss, discovery_token="ours")
        await cold.keys.refresh()
        assert cold.keys.ready
        assert keys.hits["/keys"] == 1
        assert (tokens_sent(issuers), tokens_sent(elsewhere)) == ([["Bearer ours"]], [[]])
        cold.rebuild(issuer="made up", jwks_uri=f"{elsewhere.url}/keys")
        await cold.keys.refresh()
        assert tokens_sent(elsewhere) == [[], ["Bearer ours"]]


@pytest.mark.parametrize("address", ["https://127.0.0.1:99999/keys", "https://[::1/keys", "https:///keys"])
async def test_a_strange_address_of_keys_is_a_failed_fetch_and_no_fault(
    cold: Bench, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    cold.provider.discovery = {"jwks_uri": address}
    cold.rebuild(discovery_token="ours")
    await cold.keys.refresh()
    assert not cold.keys.ready
    assert "identity.keys.failed" in caplog.text
    assert "fault" not in caplog.text
    assert "ours" not in caplog.text
