"""What was read of a body is many times as large as it, and no limit counts it: it goes before a backend is asked."""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass

import pytest

from gateway import settings
from gateway.accounting.tallies import Tallies
from gateway.admission import Admission
from gateway.call import Channel, Grant, ModelRef, Principal, Rulebook
from gateway.caps.meeting import Meeting
from gateway.drive import Drive, Moment
from gateway.exchange import Exchange
from gateway.pipeline import Pipeline
from gateway.pools.backends import build_pools
from gateway.resolve.resolver import HttpResolver
from gateway.settings import Alias, Model, Target, Timeouts
from gateway.terms import Terms
from tests.path.fakes import CALL, FakeIdentity, FakeWire, Recorder, answers, but
from tests.resolve.asking import JSON, Sent

MARK = "a member that nothing else has"
FIELDS = (*CALL.fields, *JSON)


@dataclass
class Granting:
    """A policy that grants everything, under these terms."""

    terms: tuple[tuple[str, Terms], ...]

    def holding(self, at: float, peer: str | None) -> int:
        return 1

    def authorize(self, principal: Principal, model: ModelRef, holding: int) -> Grant:
        return Grant(principal, model, "rule", "policy.yaml:1", (), self.terms)


def _read() -> int:
    """Bodies of these calls that somebody holds, as the parser made them."""
    return sum(type(each) is dict and MARK in each for each in gc.get_objects())


TERMS: dict[str, tuple[tuple[str, Terms], ...]] = {
    "no terms": (),
    "limits": (("rule", Terms(max_tokens=5)),),
    "lowered": (("rule", Terms(max_tokens=5, n=1, clamp=True)),),
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("model", ["alone", "stood-in-for", "down", "shared"])
def test_a_call_that_waits_for_its_backend_holds_only_the_bytes_of_its_body(model: str, terms: str) -> None:
    waiting = Moment()
    names = {"alone": (), "stood-in-for": ("alone",), "down": ("alone",)}
    pools = build_pools(
        tuple(
            settings.Pool(
                name, ("openai",), (Model(name, fallback=others),), (settings.BackendAddress(f"http://h:{port}"),)
            )
            for port, (name, others) in enumerate(names.items(), 1)
        ),
        None,
        lambda _: AssertionError,  # type: ignore[arg-type, return-value]  # no TLS here
    )
    for pool in pools:
        pool.backends[0].vitals.probed(pool.name != "down", 3, 2)
    aliases = (Alias("shared", (Target("stood-in-for", 1), Target("alone", 0))),)
    wire = FakeWire(dict.fromkeys((1, 2, 3), answers(then=waiting)))
    pipeline = Pipeline(
        resolver=HttpResolver(pools, lambda *_: True, 100_000, lambda: True, aliases=aliases),
        identity=FakeIdentity(),
        policy=Granting(TERMS[terms]),
        terms=Meeting(),
        admission=Admission(),
        wires={Channel.HTTP: wire},
        account=lambda _: None,
        tallies=Tallies(),
        timeouts=Timeouts(),
        pages=None,
        rulebook=Rulebook(),
        shadow=None,
        ledger=None,
    )
    body = json.dumps({"model": model, "messages": [{}], "n": 1 + (terms == "lowered"), MARK: [[7]]}).encode()
    exchange = Exchange(but(CALL, fields=FIELDS, derived={}), Sent(body), Recorder())
    gc.collect()
    before = _read()

    drive = Drive(pipeline.serve(exchange))
    drive.step()

    assert wire.went_to == [1 if model in {"alone", "down"} else 2]
    assert _read() == before
    waiting.fire()
    assert drive.done
