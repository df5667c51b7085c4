"""Rules that hang on the time and on where callers are, in a running gateway: for calls, lists and kept connections."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gateway import generation
from gateway.devcerts import Paths
from tests.e2e.here import here, serving
from tests.identity.signers import Mint, ec_signer
from tests.parts.client import Answer, prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
KEY = ec_signer("k")
# Linux answers at all of 127.0.0.0/8, so that callers can be told apart by where they are.
OFFICE, ELSEWHERE, PROXY = "127.0.1.5", "127.0.2.6", "127.0.3.7"
ZONES = ("UTC", "Europe/Madrid", "Asia/Kathmandu", "Pacific/Kiritimati")


def hours(zone: str, begin: float, end: float) -> dict[str, str]:
    """From so many minutes after now until so many."""
    walls = (datetime.fromtimestamp(time.time() + minutes * 60, ZoneInfo(zone)) for minutes in (begin, end))
    return {"timezone": zone, "hours": "-".join(wall.strftime("%H:%M") for wall in walls)}


def today(zone: str, days: int) -> str:
    """The name of the day after so many."""
    return datetime.fromtimestamp(time.time() + days * 86_400, ZoneInfo(zone)).strftime("%a").lower()


def ds(model: str, *models: str, **more: Any) -> dict[str, Any]:
    """A rule for the group of the caller."""
    return allow(model, models or [model], subjects={"groups": ["ds"]}, **more)


def rules() -> list[dict[str, Any]]:
    """Models are called like what opens and closes them. "Now" is two hours to either side, so no test runs over it."""
    zone = "Asia/Tokyo"
    return [
        *(ds(f"now-{n}", when=hours(zone, -120, 120)) for n, zone in enumerate(ZONES)),
        *(ds(f"not-{n}", when=hours(zone, 120, -120)) for n, zone in enumerate(ZONES)),
        ds("these-days", when={"timezone": zone, "days": [today(zone, day) for day in (-1, 0, 1)]}),
        ds("some-day", when={"timezone": zone, "days": [today(zone, 3)]}),
        ds("office", **{"from": ["127.0.1.0/24", "2001:db8::/32"]}),
        ds("both", when=hours("UTC", -120, 120), **{"from": [f"{OFFICE}/32"]}),
        ds("night", "both-not", when=hours("UTC", 120, -120), **{"from": [f"{OFFICE}/32"]}),
        ds("all", "closed-there", "closed-now", "open"),
        {**ds("deny-there", "closed-there", **{"from": ["127.0.2.0/24"]}), "effect": "deny"},
        {**ds("deny-now", "closed-now", when=hours("UTC", -120, 120)), "effect": "deny"},
    ]


MODELS = sorted({model for rule in rules() for model in rule["models"]})
ANYWHERE = {*(f"now-{n}" for n in range(len(ZONES))), "these-days", "open"}


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture(scope="module")
def issuers() -> Iterator[Issuers]:
    with Issuers() as made:
        yield made


@pytest.fixture(scope="module")
def alice(issuers: Issuers) -> str:
    return Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time()).token()


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, certificates: Paths, stub: Stub, issuers: Issuers, alice: str
) -> Iterator[Gateway]:
    """Behind a proxy at `PROXY` that is trusted."""
    corp = oidc(f"{issuers.url}/corp", audience=["gw"])
    folder = tmp_path_factory.mktemp("gateway")
    with Gateway(folder, certificates, [corp], [pool("nim", MODELS, stub.url)], rules(), start=False) as made:
        made.config["listen"] |= {"address": "0.0.0.0", "trusted_proxies": [f"{PROXY}/32"]}
        made.write_config()
        made.start()
        made.backends_up("nim", 1)
        wait_until(lambda: made.readiness() == 200, 10, "being ready")
        yield made


class Line:
    """A kept connection from an address of the caller's."""

    def __init__(self, gateway: Gateway, peer: str, token: str) -> None:
        self._line = http.client.HTTPSConnection(
            "localhost", gateway.port, timeout=30, context=gateway.trust, source_address=(peer, 0)
        )
        self._token = token

    def ask(self, method: str, path: str, body: object = None, fields: Mapping[str, str] | None = None) -> Answer:
        payload, lines = prepared(None if body is None else json.dumps(body).encode(), fields, self._token)
        self._line.request(method, path, payload, {"Content-Type": "application/json", **lines})
        return whole(self._line.getresponse())

    def chat(self, model: str, fields: Mapping[str, str] | None = None) -> int:
        return self.ask("POST", CHAT, {"model": model}, fields).status

    def listed(self, fields: Mapping[str, str] | None = None) -> set[str]:
        return {one["id"] for one in self.ask("GET", "/v1/models", None, fields).json()["data"]}

    def usable(self, fields: Mapping[str, str] | None = None) -> set[str]:
        """What calls are let through for; everything else is refused as a model that is not allowed."""
        statuses = {model: self.chat(model, fields) for model in MODELS}
        assert set(statuses.values()) <= {200, 403}
        return {model for model, status in statuses.items() if status == 200}

    def close(self) -> None:
        self._line.close()


@contextmanager
def line(gateway: Gateway, peer: str, token: str) -> Iterator[Line]:
    made = Line(gateway, peer, token)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("peer", "more"),
    [(OFFICE, {"office", "both", "closed-there"}), (ELSEWHERE, set()), (PROXY, {"closed-there"})],
    ids=["office", "elsewhere", "proxy"],
)
def test_what_may_be_used_and_what_is_listed_is_what_is_open_now_for_this_address(
    gateway: Gateway, alice: str, peer: str, more: set[str]
) -> None:
    with line(gateway, peer, alice) as caller:
        assert caller.listed() == ANYWHERE | more
        assert caller.usable() == ANYWHERE | more
        assert caller.ask("GET", "/v1/models/office").status == (200 if "office" in more else 404)


@pytest.mark.parametrize("name", ["X-Forwarded-For", "x-forwarded-for", "Forwarded", "X-Real-IP", "X_Forwarded_For"])
@pytest.mark.parametrize(
    "value", [OFFICE, f"for={OFFICE}", f"{OFFICE}, {PROXY}", f"{PROXY}, {OFFICE}", "::1", "office"]
)
def test_an_address_that_a_caller_makes_up_opens_and_closes_nothing(
    gateway: Gateway, alice: str, name: str, value: str
) -> None:
    with line(gateway, ELSEWHERE, alice) as caller:
        assert caller.chat("office", {name: value}) == 403
        assert caller.chat("closed-there", {name: value}) == 403
        assert caller.listed({name: value}) == ANYWHERE


@pytest.mark.parametrize(
    ("told", "office", "elsewhere"),
    [
        (OFFICE, 200, 200),
        (ELSEWHERE, 403, 403),
        (f"{OFFICE}:4711", 200, 200),
        (f"::ffff:{OFFICE}", 200, 200),
        ("2001:db8::7", 200, 200),
        ("[2001:db8::7]:4711", 200, 200),
        ("192.0.2.1", 403, 200),
        (f"{OFFICE}, {ELSEWHERE}", 403, 403),  # the first is the caller's own invention, the proxy added the second
        (f"{ELSEWHERE}, {OFFICE}", 200, 200),
        (f"office, {OFFICE}", 200, 200),
        (f"{OFFICE}, office", 403, 200),  # nobody knows whom it means: the address is the proxy's
        ("", 403, 200),
    ],
)
def test_the_address_that_a_trusted_proxy_tells_is_the_callers(
    gateway: Gateway, alice: str, told: str, office: int, elsewhere: int
) -> None:
    with line(gateway, PROXY, alice) as caller:
        fields = {"X-Forwarded-For": told}
        assert [caller.chat(model, fields) for model in ("office", "closed-there")] == [office, elsewhere]


def test_callers_behind_one_proxy_on_one_connection_are_told_apart(gateway: Gateway, alice: str) -> None:
    """What was granted to one head is not granted to the next."""
    with line(gateway, PROXY, alice) as proxy:
        answers = [proxy.chat("office", {"X-Forwarded-For": peer}) for peer in (OFFICE, ELSEWHERE) * 3]
    assert answers == [200, 403] * 3


@pytest.fixture
def closing(tmp_path: Path, certificates: Paths, stub: Stub, issuers: Issuers, alice: str) -> Gateway:
    """The files of a gateway that this process runs: one window closes in some minutes, another opens."""
    policies = [
        ds("closing", when=hours("Europe/Madrid", -60, 5)),
        ds("opening", when=hours("Europe/Madrid", 5, 60)),
    ]
    corp = oidc(f"{issuers.url}/corp", audience=["gw"])
    return Gateway(
        tmp_path, certificates, [corp], [pool("nim", ["closing", "opening"], stub.url)], policies,
        start=False, limits={"timeouts": {"pre_stop": "1ms", "drain": "1s"}},
        audit={"file": str(tmp_path / "audit.jsonl")},
    )  # fmt: skip


async def test_on_a_kept_connection_the_same_call_is_refused_as_soon_as_its_window_is_closed(
    closing: Gateway, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is put forward and back instead of waited for. What was granted before is remembered with its
    head: the next call on each connection is the very same."""
    real, ahead = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + ahead)

    def seen(lines: Mapping[str, Line]) -> list[object]:
        answers = [[one.chat(model) for model, one in lines.items() if model] for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        return [answers[0], *sorted(lines[""].listed())]

    async with here(generation.read(closing.config_file, None), closing.config_file) as running:
        await serving(running)
        with ExitStack() as stack:
            lines = {name: stack.enter_context(line(closing, OFFICE, alice)) for name in ("closing", "opening", "")}
            assert await asyncio.to_thread(seen, lines) == [[200, 403], "closing"]
            ahead = 6 * 60
            assert await asyncio.to_thread(seen, lines) == [[403, 200], "opening"]
            ahead = 0
            assert await asyncio.to_thread(seen, lines) == [[200, 403], "closing"]
