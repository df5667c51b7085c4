"""Groups from a real directory for the callers of a provider: rights live in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from tests.identity.signers import Mint, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.process import wait_until
from tests.parts.slapd import Slapd, group, person
from tests.parts.stub import Stub

KEY = ec_signer("provider")
Call = Callable[..., Answer]


@pytest.fixture
def directory(tmp_path: Path, certificates: Paths) -> Iterator[Slapd]:
    """One whose people may be changed, and which may be stopped."""
    made = Slapd(tmp_path, certificates)
    yield made
    made.stop()


@pytest.fixture
def issuers() -> Iterator[Issuers]:
    with Issuers() as made:
        yield made


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, directory: Slapd, issuers: Issuers, stub: Stub) -> Iterator[Gateway]:
    """`m` is for data-science, `n` for everybody of `corp`; `other` gives groups of its own."""
    corp, other = (oidc(issuers.add(f"/{name}", KEY.jwk()).iss, name=name) for name in ("corp", "other"))
    corp["groups_from"] = "directory"
    ldap = directory.config(cache={"positive": "1s", "negative": "1s"}, timeout="2s", group_prefix="ldap:")
    rules = [
        {"id": "ds", "effect": "allow", "subjects": {"groups": ["ldap:data-science"]}, "models": ["m"]},
        {"id": "all", "effect": "allow", "subjects": {"issuers": ["corp", "other"]}, "models": ["n"]},
    ]
    pools = [pool("nim", ["m", "n"], stub.url)]
    folder, identity = tmp_path / "gateway", {"oidc": [corp, other], "ldap": [ldap]}
    with Gateway(folder, certificates, [], pools, rules, identity=identity) as running:
        running.backends_up("nim", 1)
        wait_until(lambda: all(one["ready"] for one in running.status()["issuers"].values()), 10, "all keys")
        yield running


@pytest.fixture
def call(gateway: Gateway, issuers: Issuers) -> Call:
    """`call("alice", "m")`: as this subject of `corp`, or of `by`."""

    def made(subject: str, model: str, by: str = "corp", **claims: object) -> Answer:
        mint = Mint(f"{issuers.url}/{by}", KEY, time.time())
        token = mint.token(**({"sub": subject, "aud": "nim-gateway"} | claims))
        return gateway.ask("POST", "/v1/chat/completions", body={"model": model}, token=token)

    return made


def test_who_may_do_what_is_what_the_directory_says_and_not_what_the_token_says(call: Call, gateway: Gateway) -> None:
    assert call("alice", "m", groups=...).status == 200
    answer = call("alice", "m", groups=["nothing"])
    record = gateway.audit_of(answer["x-request-id"])
    assert (record["provider"], record["groups_used"]) == ("corp", ["ldap:data-science"])
    assert call("alice", "m", groups=..., hasgroups=True).status == 200
    for claimed in (["ldap:data-science"], ["data-science"]):
        assert [call("bob", model, groups=claimed).status for model in "mn"] == [403, 200]
    assert call("bob", "m", by="other", groups=["ldap:data-science"]).status == 200


def test_somebody_whom_the_directory_does_not_know_has_no_groups(call: Call) -> None:
    answer = call("mallory", "m", groups=["ldap:data-science"])
    assert (answer.status, answer.json()["error"]["code"]) == (403, "model_not_allowed")
    assert call("mallory", "n").status == 200


@pytest.mark.parametrize("spelling", ["ALICE", "\uff41lice", " alice", "alice\u200b"])
def test_whoever_spells_a_subject_otherwise_has_not_the_groups_of_that_person(
    call: Call, gateway: Gateway, spelling: str
) -> None:
    """The directory finds alice by it; a rule or a revocation that names alice would not."""
    answer = call(spelling, "n")
    assert answer.status == 200
    assert gateway.audit_of(answer["x-request-id"])["groups_used"] == []
    assert call(spelling, "m").status == 403


@pytest.mark.parametrize("subject", ["disabled", "locked", "expired"])
def test_an_account_that_the_directory_has_ended_is_refused_however_good_the_token_is(
    call: Call, gateway: Gateway, subject: str
) -> None:
    answer = call(subject, "n")
    assert answer.status == 401
    assert 'error="invalid_token"' in (answer["www-authenticate"] or "")
    assert "account" in answer.json()["error"]["message"]
    assert gateway.metric("gateway_authentications_total", provider="corp", result="refused_account") == 1
    assert call(subject, "n", by="other").status == 200


def test_a_group_that_is_taken_away_counts_no_longer_than_the_directory_is_remembered(
    call: Call, directory: Slapd
) -> None:
    assert call("alice", "m", jti="same").status == 200
    directory.change(f"dn: {group('data-science')}\nchangetype: modify\nadd: member\nmember: {person('carol')}\n\n")
    directory.change(f"dn: {group('data-science')}\nchangetype: modify\ndelete: member\nmember: {person('alice')}\n\n")
    wait_until(lambda: call("alice", "m", jti="same").status == 403, 10, "the right being gone")
    assert call("carol", "m").status == 200


def test_without_the_directory_its_callers_are_503_and_others_are_served(
    call: Call, directory: Slapd, gateway: Gateway
) -> None:
    assert call("alice", "m").status == 200
    directory.stop()
    wait_until(lambda: call("alice", "m").status == 503, 10, "what was remembered being forgotten")
    answer = call("bob", "n")
    assert (answer.status, answer.json()["error"]["code"]) == (503, "identity_unavailable")
    assert answer["retry-after"] is not None
    assert call("bob", "n", by="other").status == 200
    assert gateway.metric("gateway_authentications_total", provider="corp", result="unavailable") >= 2
    directory.start()
    wait_until(lambda: call("alice", "m").status == 200, 10, "the directory being asked again")
