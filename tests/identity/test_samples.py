"""A token as a common provider makes it becomes the caller that the page promises, or nobody."""

from __future__ import annotations

import json

import pytest

from gateway.call import Principal
from gateway.config.typed import validate
from gateway.config.yamlfile import read
from gateway.settings import OidcIssuer
from tests.identity.conftest import EPOCH, Bench
from tests.identity.samples import HERE, SAMPLES, Sample, Seen, documented
from tests.parts.gateway import Config

ENTRIES = documented() | documented("name: cluster")


def settings(entry: Config) -> OidcIssuer:
    """As the configuration would have them, but for what lies in files."""
    written = {name: value for name, value in entry.items() if name not in {"ca", "discovery_token"}}
    return validate(read(json.dumps(written).encode(), "docs"), OidcIssuer)


def test_every_sample_and_every_entry_of_the_page_is_put_to_the_test() -> None:
    assert {sample.name for sample in SAMPLES} == {file.stem for file in HERE.iterdir()}
    assert {sample.entry for sample in SAMPLES} == set(ENTRIES)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_a_providers_token_becomes_whom_the_page_says_or_nobody(bench: Bench, sample: Sample) -> None:
    """B073, B074, B080."""
    bench.settings = settings(ENTRIES[sample.entry])
    bench.rebuild(jwks_uri=f"{bench.provider.issuer}/keys")
    await bench.keys.refresh()
    token = bench.good.sign(sample.claims())
    if isinstance(sample.becomes, str):
        assert await bench.refused(token) == sample.becomes
        return
    seen: Seen = sample.becomes
    assert await bench.identify(token) == Principal(
        subject=seen.subject,
        issuer=bench.settings.issuer,
        provider=sample.entry,
        groups=frozenset(seen.groups),
        client=seen.client,
        scopes=frozenset(seen.scopes),
        expires=EPOCH + 3600,
        groups_known=seen.groups_known,
        credential=seen.credential,
    )
