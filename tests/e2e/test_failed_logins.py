"""Whoever guesses passwords is slowed down by the gateway; the directory and everybody else notice little of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.devcerts import Paths
from tests.e2e.test_active_directory import basic
from tests.parts import scripts
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, allow, pool
from tests.parts.process import free_port, wait_until
from tests.parts.samba import Samba
from tests.parts.slapd import PEOPLE, Slapd, entry, person
from tests.parts.stub import Stub

HERE, THERE = "203.0.113.7", "2001:db8:0:7::7"

Start = Callable[[Config], Gateway]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory, certificates: Paths) -> Iterator[Start]:
    """A gateway behind a proxy that it trusts, so that a test can call from anywhere."""
    running: list[Gateway] = []

    with Stub(scripts.sized(b"{}")) as stub:

        def starting(directory: Config) -> Gateway:
            rules = [allow("everybody", ["m"], subjects={"issuers": [directory["name"]]})]
            folder, pools = tmp_path_factory.mktemp("gateway"), [pool("nim", ["m"], stub.url)]
            made = Gateway(folder, certificates, [], pools, rules, directories=[directory], start=False)
            made.config["listen"]["trusted_proxies"] = ["127.0.0.1/32"]
            made.write_config()
            made.start()
            made.backends_up("nim", 1)
            running.append(made)
            return made

        yield starting
        for gateway in running:
            gateway.end()


def log_in(gateway: Gateway, name: str, password: str, peer: str) -> Answer:
    headers = {**basic(name, password), "X-Forwarded-For": peer}
    return gateway.ask("POST", "/v1/chat/completions", body={"model": "m"}, headers=headers)


def test_a_guesser_is_told_to_wait_and_the_domain_is_not_asked_while_the_owner_gets_in_elsewhere(
    samba: Samba, start: Start
) -> None:
    """B086: the domain locks after five wrong passwords, and counts three."""
    gateway, right = start(samba.config()), samba.passwords["guessed"]
    assert [log_in(gateway, "guessed", f"guess {n}", HERE).status for n in range(3)] == [401] * 3
    for password in ("guess 4", "guess 5", right):
        answer = log_in(gateway, "Guessed ", password, HERE)
        assert answer.status == 429
        assert answer["retry-after"] in {"1", "2"}
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert gateway.audit_of(answer["x-request-id"])["peer"] == HERE
    assert samba.wrong_passwords("guessed") == 3
    assert log_in(gateway, "guessed", right, THERE).status == 200
    assert gateway.metric("gateway_auth_failures_total", provider="ad") == 3
    assert gateway.metric("gateway_auth_throttled_total", provider="ad", scope="pair") == 3
    assert gateway.metric("gateway_authentications_total", provider="ad", result="throttled") == 3


def test_who_waits_as_long_as_told_is_answered_then(slapd: Slapd, start: Start) -> None:
    gateway = start(slapd.config())
    for number in range(3):
        log_in(gateway, "carol", f"guess {number}", HERE)
    right = slapd.passwords["carol"]
    assert log_in(gateway, "carol", right, HERE).status == 429
    wait_until(lambda: log_in(gateway, "carol", right, HERE).status != 429, what="the end of the wait")
    wait_until(lambda: log_in(gateway, "carol", right, HERE).status == 200, what="the end of the lock of slapd")


def test_an_address_that_tries_many_names_waits_with_every_new_one_and_others_do_not(
    slapd: Slapd, start: Start
) -> None:
    gateway, right = start(slapd.config()), slapd.passwords["alice"]
    assert log_in(gateway, "alice", right, HERE).status == 200
    statuses = [log_in(gateway, f"made-up-{number}", "guess", HERE).status for number in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert log_in(gateway, "bob", slapd.passwords["bob"], HERE).status == 429
    assert log_in(gateway, "bob", slapd.passwords["bob"], THERE).status == 200
    assert log_in(gateway, "alice", right, HERE).status == 200
    assert gateway.metric("gateway_auth_throttled_total", provider="directory", scope="address") == 6


def test_an_account_that_a_filter_finds_by_several_names_is_one_for_a_guesser(
    tmp_path: Path, certificates: Paths, start: Start
) -> None:
    """Three tries, not three by each name: no further password reaches the directory, which would lock the account."""
    slapd = Slapd(tmp_path, certificates)
    try:
        names, right = ["erin", "erin@example.test", "4711"], secrets.token_urlsafe(12)
        more = {"cn": "Erin", "sn": "E", "uid": names[0], "mail": names[1], "employeeNumber": names[2]}
        slapd.add(entry(person("erin"), "inetOrgPerson", **more, userPassword=right))
        wanted = "(|(uid={username})(mail={username})(employeeNumber={username}))"
        gateway = start(slapd.config(users={"base": PEOPLE, "filter": wanted, "subject": "uid"}))
        statuses = [log_in(gateway, names[n % 3], f"guess {n}", HERE).status for n in range(6)]
        assert statuses == [401] * 3 + [429] * 3
        assert gateway.metric("gateway_auth_failures_total", provider="directory") == 3
    finally:
        slapd.stop()


def test_a_reload_forgives_nobody(slapd: Slapd, start: Start) -> None:
    gateway = start(slapd.config())
    for number in range(22):
        log_in(gateway, f"made-up-{number}", "guess", HERE)
    generation = gateway.metric("gateway_config_generation")
    directory = gateway.config["identity"]["ldap"][0]
    directory["cache"] = {"positive": "7s"}
    gateway.write_config()
    gateway.reload()
    wait_until(lambda: gateway.metric("gateway_config_generation") > generation, what="the reload")
    statuses = [log_in(gateway, f"another-{number}", "guess", HERE).status for number in range(5)]
    assert 429 in statuses, "twenty names were free again"


def test_a_directory_that_is_away_slows_nobody_down(slapd: Slapd, start: Start) -> None:
    """503, whoever asks and however often; nothing is known of the passwords."""
    away: dict[str, Any] = slapd.config(servers=[f"ldaps://127.0.0.1:{free_port()}"])
    gateway = start(away)
    answers = [log_in(gateway, "alice", f"guess {number}", HERE) for number in range(30)]
    assert {answer.status for answer in answers} == {503}
    assert gateway.metric("gateway_auth_failures_total") == 0
