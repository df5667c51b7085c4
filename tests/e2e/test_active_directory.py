"""People of a real Active Directory domain call the gateway with the name and the password they have there."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.devcerts import Paths
from tests.parts import scripts
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.samba import DOMAIN, ROOT, UNIT, Samba, person
from tests.parts.stub import Stub

#: Everybody is in these, directly or by the primary group, where groups of groups count.
EVERYBODY = {"Domain Users", "Users"}
#: What the subject looks like, by the attribute that it is taken from.
SUBJECTS = {
    "objectGUID": "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "objectSid": r"S-1-5-21(-\d+){4}",
    "userPrincipalName": "alice@example.test",
}
#: What a domain says of an account that is not to be used.
WHY = {"disabled": "533", "expired": "701", "must-change": "773", "locked": "775"}
CHAIN = "(member:1.2.840.113556.1.4.1941:={dn})"

Start = Callable[..., Gateway]


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, certificates: Paths, samba: Samba, stub: Stub) -> Iterator[Start]:
    """`start(**settings of the directory)`: a gateway before the domain that tells the backend who calls."""
    running: list[Gateway] = []

    def starting(**more: Any) -> Gateway:
        rules = [
            allow("everybody", ["open"], subjects={"issuers": ["ad"]}),
            allow("ds", ["for-ds"], subjects={"groups": ["ds"]}),
        ]
        pools = [pool("nim", ["open", "for-ds"], stub.url, identity_headers=True)]
        folder = tmp_path_factory.mktemp("gateway")
        running.append(Gateway(folder, certificates, [], pools, rules, directories=[samba.config(**more)]))
        running[-1].backends_up("nim", 1)
        return running[-1]

    yield starting
    for gateway in running:
        gateway.end()


@pytest.fixture(scope="module")
def domain(start: Start) -> Gateway:
    """A gateway that searches and binds over LDAPS, and counts groups of groups."""
    return start()


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def call(gateway: Gateway, name: str, password: str, model: str = "open") -> Answer:
    body = {"model": model, "messages": []}
    return gateway.ask("POST", "/v1/chat/completions", body=body, headers=basic(name, password))


def known_as(gateway: Gateway, stub: Stub, name: str, password: str) -> tuple[str, set[str]]:
    """The subject and the groups that the backend is told of."""
    answer = call(gateway, name, password)
    assert answer.status == 200, answer.body
    got = stub.requests[-1]
    (subject,) = got.values("x-gateway-subject")
    return subject, {
        group.replace("%20", " ") for value in got.values("x-gateway-groups") for group in value.split(",")
    }


@pytest.mark.parametrize("way", ["ldaps", "start_tls", "catalogue", "catalogue_start_tls"])
def test_a_person_of_the_domain_gets_in_with_all_groups(samba: Samba, start: Start, stub: Stub, way: str) -> None:
    """B089. The searches begin at the root of the domain, where a server adds referrals to what it found."""
    servers = {"ldaps": samba.ldaps, "start_tls": samba.url, "catalogue": samba.secure_catalogue}
    plain = way.endswith("start_tls")
    gateway = start(servers=[servers.get(way, samba.catalogue)], start_tls=plain)
    subject, groups = known_as(gateway, stub, "alice", samba.passwords["alice"])
    assert (subject, groups) == ("alice", {"team-a", "ds"} | EVERYBODY)


@pytest.mark.parametrize("typed", ["ALICE", "Alice", " alice "])
def test_who_somebody_is_is_what_the_domain_calls_them_and_not_what_they_typed(
    samba: Samba, domain: Gateway, stub: Stub, typed: str
) -> None:
    assert known_as(domain, stub, typed, samba.passwords["alice"])[0] == "alice"


def test_a_person_whose_name_has_a_comma_and_letters_beyond_ascii_gets_in(
    samba: Samba, domain: Gateway, stub: Stub
) -> None:
    subject, groups = known_as(domain, stub, "zoe", samba.passwords["zoe"])
    assert (subject, groups) == ("zoe", {"Ops%2C (EU) *"} | EVERYBODY)


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("alice", {"base": ROOT, "nested": True}, {"team-a", "ds"} | EVERYBODY),
        ("alice", {"base": ROOT}, {"team-a"}),
        ("alice", {"base": ROOT, "filter": CHAIN}, {"team-a", "ds"}),
        ("alice", {"base": ROOT, "attribute": "memberOf"}, {"team-a"}),
        ("alice", {"base": UNIT, "attribute": "memberOf", "nested": True}, {"team-a", "ds"}),
        ("bob", {"base": ROOT, "nested": True}, {"ds"} | EVERYBODY),
        ("bob", {"base": UNIT, "attribute": "memberOf", "nested": True}, {"ds"}),
        ("bob", {"base": ROOT}, {"Domain Users"}),
        ("dora", {"base": UNIT, "nested": True}, {"loop-1", "loop-2"}),
        ("dora", {"base": UNIT}, {"loop-1"}),
    ],
)
def test_groups_of_groups_and_the_primary_group_count_where_nesting_is_on(
    samba: Samba, start: Start, stub: Stub, name: str, groups: dict[str, Any], expected: set[str]
) -> None:
    """B089."""
    gateway = start(groups=groups)
    assert known_as(gateway, stub, name, samba.passwords[name]) == (name, expected)


def test_a_right_that_a_group_of_groups_or_the_primary_group_gives_holds_and_others_have_none(
    samba: Samba, domain: Gateway
) -> None:
    answers = {name: call(domain, name, samba.passwords[name], "for-ds").status for name in ("alice", "bob", "carol")}
    assert answers == {"alice": 200, "bob": 200, "carol": 403}


@pytest.mark.parametrize("own", [True, False])
def test_a_person_gets_in_by_the_name_before_the_at_of_the_domain(
    samba: Samba, start: Start, stub: Stub, own: bool
) -> None:
    """Bound at once as alice@example.test; with and without an account of the gateway's own to look for groups."""
    users = {**samba.config()["users"], "dn_template": f"{{username}}@{DOMAIN}"}
    more: dict[str, Any] = {"users": users} if own else {"users": users, "bind": None}
    gateway = start(**more)
    assert known_as(gateway, stub, "alice", samba.passwords["alice"]) == ("alice", {"team-a", "ds"} | EVERYBODY)
    for name in (f"alice@{DOMAIN}", "alice@evil.test", "EXAMPLE\\alice", "nobody"):
        assert call(gateway, name, samba.passwords["alice"]).status == 401, name


def test_an_account_with_two_names_before_the_at_is_taken_by_the_one_that_it_is_found_by(
    samba: Samba, start: Start, stub: Stub
) -> None:
    """The domain lets in new.name@example.test and renamed@example.test, which are the same account."""
    users = {**samba.config()["users"], "dn_template": f"{{username}}@{DOMAIN}"}
    gateway = start(users=users, bind=None)
    assert known_as(gateway, stub, "renamed", samba.passwords["renamed"])[0] == "renamed"
    assert call(gateway, "new.name", samba.passwords["renamed"]).status == 401


def test_an_empty_password_which_the_domain_takes_for_nobodys_lets_nobody_in(samba: Samba, domain: Gateway) -> None:
    """RFC 4513 section 5.1.2."""
    assert call(domain, "alice", "").status == 401
    assert samba.wrong_passwords("alice") == 0


@pytest.mark.parametrize("attribute", ["objectGUID", "objectSid", "userPrincipalName"])
def test_a_person_may_be_known_by_what_never_changes(samba: Samba, start: Start, stub: Stub, attribute: str) -> None:
    gateway = start(users={**samba.config()["users"], "subject": attribute})
    subject, groups = known_as(gateway, stub, "alice", samba.passwords["alice"])
    assert re.fullmatch(SUBJECTS[attribute], subject)
    assert "ds" in groups


@pytest.mark.parametrize("name", ["disabled", "expired", "must-change", "locked"])
@pytest.mark.parametrize("template", [False, True])
def test_an_account_that_is_not_to_be_used_is_refused_with_its_right_password(
    samba: Samba, start: Start, domain: Gateway, name: str, template: bool
) -> None:
    """401, not 503: the provider was asked, and said no."""
    users = {**samba.config()["users"], "dn_template": f"{{username}}@{DOMAIN}"}
    gateway = start(users=users, bind=None) if template else domain
    before = gateway.metric("gateway_authentications_total", provider="ad", result="refused_account")
    answer = call(gateway, name, samba.passwords[name])
    assert answer.status == 401
    assert (answer["www-authenticate"] or "").startswith("Basic ")
    assert b"name or the password" in answer.body
    assert gateway.metric("gateway_authentications_total", provider="ad", result="refused_account") == before + 1
    detail = gateway.audit_of(answer["x-request-id"])["detail"]
    assert WHY[name] in detail or name in detail


def test_a_wrong_password_is_counted_once_by_the_domain_however_often_it_is_sent(samba: Samba, domain: Gateway) -> None:
    """B086"""
    assert [call(domain, "mistyped", "wrong").status for _ in range(20)] == [401] * 20
    assert samba.wrong_passwords("mistyped") == 1
    assert call(domain, "mistyped", samba.passwords["mistyped"]).status == 200


@pytest.mark.parametrize("name", ["nobody", "*", "a*", "alice)(cn=*", "team-a", "DC1$"])
def test_a_name_that_no_person_has_is_refused(samba: Samba, domain: Gateway, name: str) -> None:
    """B083: groups and computers have account names too."""
    assert call(domain, name, samba.passwords["alice"]).status == 401


def test_the_domain_takes_no_password_in_plain_text_and_the_caller_is_told_503(samba: Samba, start: Start) -> None:
    gateway = start(servers=[samba.url], allow_insecure=True)
    answer = call(gateway, "alice", samba.passwords["alice"])
    assert answer.status == 503
    assert answer["retry-after"] == "5"
    assert "strong" in gateway.process.stderr.read_text().lower()


def test_a_certificate_of_somebody_else_is_not_believed(samba: Samba, start: Start, certificates: Paths) -> None:
    """B085: the gateway's own authority did not vouch for the domain controller."""
    gateway = start(ca=str(certificates.ca))
    assert call(gateway, "alice", samba.passwords["alice"]).status == 503
    assert "certificate" in gateway.process.stderr.read_text()


def test_somebody_who_is_disabled_is_refused_once_the_login_is_forgotten(samba: Samba, start: Start) -> None:
    gateway = start(cache={"positive": "1s", "negative": "1s"})
    password = samba.passwords["carol"]
    assert call(gateway, "carol", password).status == 200
    samba.set(person("carol"), "userAccountControl", "514")
    try:
        wait_until(lambda: call(gateway, "carol", password).status == 401, what="the refusal")
    finally:
        samba.set(person("carol"), "userAccountControl", "512")
