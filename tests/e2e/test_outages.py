"""What goes on while a provider is away, for how long, and what operators see of it before it ends."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.devcerts import Paths
from tests.conftest import StartGateway
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.openid import OpenIdProvider
from tests.parts.process import wait_until
from tests.parts.slapd import Slapd
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
#: Seconds for which callers are to be served on.
BOUND = 4


@dataclass(frozen=True)
class Away:
    """A provider that can be stopped, the configuration with it, and what a caller shows who is known by it."""

    name: str
    identity: dict[str, Any]
    fields: dict[str, str]
    stop: Any


def _signed(folder: Path, _: Paths) -> Away:
    provider = OpenIdProvider(folder)
    entry = oidc(provider.issuer, refresh="1s", cooldown="1s", stale=f"{BOUND}s")
    token = provider.user_token("alice")
    return Away("corp", {"oidc": [entry]}, {"authorization": f"Bearer {token}"}, provider.stop)


def _introspected(folder: Path, _: Paths) -> Away:
    provider = OpenIdProvider(folder)
    (folder / "secret").write_text(provider.secret)
    asking = {
        "client_id": "introspector",
        "client_secret": {"file": str(folder / "secret")},
        "positive": f"{BOUND}s",
        "negative": "1s",
    }
    entry = oidc(provider.issuer, verify="introspect", introspection=asking)
    token = provider.user_token("alice", "opaque")
    return Away("corp", {"oidc": [entry]}, {"authorization": f"Bearer {token}"}, provider.stop)


def _directory(folder: Path, certificates: Paths) -> Away:
    slapd = Slapd(folder, certificates)
    entry = slapd.config(cache={"positive": f"{BOUND}s", "negative": "1s"}, timeout="1s")
    pair = base64.b64encode(f"alice:{slapd.passwords['alice']}".encode()).decode()
    return Away("directory", {"ldap": [entry]}, {"authorization": f"Basic {pair}"}, slapd.stop)


PROVIDERS = {"keys of an issuer": _signed, "introspection": _introspected, "directory": _directory}


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


def gauge(gateway: Gateway, what: str, provider: str) -> float:
    return gateway.metric(f"gateway_identity_{what}", provider=provider)


@pytest.mark.parts
@pytest.mark.parametrize("make", PROVIDERS.values(), ids=PROVIDERS)
def test_callers_are_served_until_the_bound_of_an_outage_and_operators_see_it_come(
    start_gateway: StartGateway, tmp_path: Path, certificates: Paths, stub: Stub, make: Any
) -> None:
    away: Away = make(tmp_path, certificates)
    with ExitStack() as stack:
        stack.callback(away.stop)
        gateway = start_gateway([pool("nim", ["m"], stub.url)], identity=away.identity)
        gateway.backends_up("nim", 1)

        def status() -> int:
            return gateway.ask("POST", CHAT, body=BODY, headers=away.fields).status

        wait_until(lambda: status() == 200, 10, "the provider being asked")
        assert (gauge(gateway, "ready", away.name), gauge(gateway, "outage_seconds", away.name)) == (1, 0)
        assert gauge(gateway, "outage_bound_seconds", away.name) == BOUND
        away.stop()
        assert status() == 200
        wait_until(lambda: status() == 503, BOUND + 10, "the bound")
        wait_until(
            lambda: status() == 503 and gauge(gateway, "ready", away.name) == 0,
            10,
            "the gauge while callers are refused",
        )
        assert gauge(gateway, "outage_seconds", away.name) > 0
        answer = gateway.ask("POST", CHAT, body=BODY, headers=away.fields)
        assert (answer.status, answer.json()["error"]["code"]) == (503, "identity_unavailable")
        assert 1 <= int(answer["retry-after"] or 0) <= 60
