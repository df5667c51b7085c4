"""Tokens that each have one thing wrong, sent to a running gateway: none gets in, and the good one beside them does."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.devcerts import Paths
from tests.identity import forged, forged_keys
from tests.identity.forged import Forge
from tests.identity.signers import Mint, Signer
from tests.parts.client import Answer, connection, prepared, raw, read_all, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import KEYS, Issuer, Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
ALGORITHMS = ["RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA"]

FORM = {"malformed"}
SAID = {"bad_issuer", "bad_audience", "bad_claims", "expired", "not_yet_valid", "wrong_kind", "no_proof"}
SIGNED = {"bad_signature", "unknown_key", "bad_algorithm"}
#: Group, the key of the good token beside it, and the reasons that may be given: what is wrong, and nothing else.
GROUPS: dict[str, tuple[Signer, dict[str, Forge], set[str]]] = {
    "claims": (forged_keys.RSA, forged.CLAIMS, FORM | SAID),
    "headers": (forged_keys.RSA, forged.HEADERS, FORM | SIGNED | {"wrong_kind"}),
    "payloads": (forged_keys.RSA, forged.PAYLOADS, FORM | {"bad_issuer"}),
    "signatures": (forged_keys.RSA, forged.SIGNATURES, FORM | SIGNED),
    "shapes": (forged_keys.RSA, forged.SHAPES, FORM),
    "keys": (forged_keys.RSA, forged_keys.KEYS, FORM | SIGNED),
    "RSA": (forged_keys.PSS, forged_keys.OF_RSA, SIGNED),
    "EC": (forged_keys.EC, forged_keys.OF_EC, FORM | SIGNED),
    "Ed25519": (forged_keys.ED, forged_keys.OF_ED, SIGNED),
    "spellings": (forged_keys.EC, forged_keys.SPELLINGS, FORM),
}
#: What is no HTTP field value (RFC 9110 section 5.5), so that nobody reads a credential in it.
NO_FIELD_VALUE = {"a zero byte"}


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuers() as made:
        yield made.add("/corp", *forged_keys.SET)


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, certificates: Paths, issuer: Issuer, stub: Stub
) -> Iterator[Gateway]:
    issuers = [oidc(issuer.iss, audience=["gw"], algorithms=ALGORITHMS)]
    rules = [allow("ds", ["m"], subjects={"groups": ["ds"]})]
    folder = tmp_path_factory.mktemp("gateway")
    with Gateway(folder, certificates, issuers, [pool("nim", ["m"], stub.url)], rules) as running:
        running.backends_up("nim", 1)
        wait_until(lambda: running.metric("gateway_jwks_age_seconds") > 0, 10, "the keys being fetched")
        yield running


@pytest.fixture
def line(gateway: Gateway) -> Iterator[http.client.HTTPConnection]:
    with closing(connection(gateway.url, gateway.ca)) as made:
        yield made


@pytest.fixture
def mint(issuer: Issuer) -> Mint:
    return Mint(issuer.iss, forged_keys.RSA, time.time())


def bearing(line: http.client.HTTPConnection, token: str) -> Answer:
    """A call with exactly these bytes as its token."""
    payload, fields = prepared(BODY, None, None)
    line.request("POST", CHAT, payload, {**fields, "Authorization": b"Bearer " + token.encode("latin-1")})
    return whole(line.getresponse())


def refused_as_it_should(name: str, answer: Answer) -> bool:
    if name in NO_FIELD_VALUE:
        return answer.status == 400
    challenge = answer["www-authenticate"] or ""
    return answer.status == 401 and challenge.startswith("Bearer ") and 'error="invalid_token"' in challenge


@pytest.mark.parametrize("group", GROUPS)
def test_of_tokens_with_one_thing_wrong_only_the_good_one_beside_them_gets_in(
    gateway: Gateway, stub: Stub, line: http.client.HTTPConnection, mint: Mint, group: str
) -> None:
    """B064, B065, B066, B067, B080: each is refused for what is wrong with it."""
    signer, forgeries, reasons = GROUPS[group]
    before = len(stub.requests)
    assert bearing(line, mint.token(signer, jti=f"{group} before")).status == 200
    answers = {name: bearing(line, forge(mint)) for name, forge in forgeries.items()}
    assert bearing(line, mint.token(signer, jti=f"{group} after")).status == 200
    assert [name for name, answer in answers.items() if not refused_as_it_should(name, answer)] == []
    assert len(stub.requests) == before + 2, "nothing reached the backend but the good calls"
    given = reasons_of(gateway, {name: answers[name] for name in answers.keys() - NO_FIELD_VALUE})
    assert {name: reason for name, reason in given.items() if reason not in reasons} == {}


def test_tokens_that_only_look_odd_get_in(line: http.client.HTTPConnection, mint: Mint) -> None:
    """B064: a check that refuses everything would pass all of the above."""
    answers = {name: bearing(line, make(mint)).status for name, make in forged.GOOD.items()}
    assert {name: status for name, status in answers.items() if status != 200} == {}


def reasons_of(gateway: Gateway, answers: dict[str, Answer]) -> dict[str, str]:
    """What the audit lines say of these calls, once all are written."""
    ids = {answer["x-request-id"]: name for name, answer in answers.items()}
    wait_until(lambda: ids.keys() <= {record["request_id"] for record in gateway.audit()}, 5, "the audit lines")
    records = [record for record in gateway.audit() if record["request_id"] in ids]
    return {ids[record["request_id"]]: record["detail"].split(" ")[0] for record in records}


ODD_FIELDS = {
    "two callers": ["Authorization: Bearer {alice}", "Authorization: Bearer {root}"],
    "one caller twice": ["Authorization: Bearer {alice}", "Authorization: Bearer {alice}"],
    "another case of the name": ["Authorization: Bearer {alice}", "AUTHORIZATION: Bearer {root}"],
    "a bearer and a password": ["Authorization: Bearer {alice}", "Authorization: Basic YTpi"],
    "a password and a bearer": ["Authorization: Basic YTpi", "Authorization: Bearer {alice}"],
    "an empty one before": ["Authorization:", "Authorization: Bearer {alice}"],
    "a list": ["Authorization: Bearer {alice},Bearer {root}"],
    "a list of schemes": ["Authorization: Bearer {alice}, Basic YTpi"],
    "a tab": ["Authorization: Bearer\t{alice}"],
    "quotes": ['Authorization: Bearer "{alice}"'],
    "two tokens": ["Authorization: Bearer {alice} {root}"],
    "a parameter": ["Authorization: Bearer token={alice}"],
    "the scheme twice": ["Authorization: Bearer Bearer {alice}"],
    "no token": ["Authorization: Bearer"],
    "an emoji": ["Authorization: Bearer \U0001f600"],
}
GOOD_FIELDS = [
    "authorization: bearer {}",
    "AUTHORIZATION: BEARER {}",
    "Authorization: Bearer   {}",
    "Authorization:Bearer {} \t",
]


def answered(gateway: Gateway, *fields: str) -> tuple[int, bytes]:
    """Status and head of the answer to a call with exactly these fields."""
    lines = ("GET /v1/models HTTP/1.1\r\nHost: gw.test\r\nConnection: close", *fields, "", "")
    with raw(gateway.port, gateway.ca) as sock:
        sock.sendall("\r\n".join(lines).encode())
        head = read_all(sock).partition(b"\r\n\r\n")[0]
    return int(head.split()[1]), head


def test_the_credential_stands_once_and_in_one_form(gateway: Gateway, mint: Mint) -> None:
    """B076: scheme in any case and several spaces (RFC 9110 section 11); all else is refused, and no one is picked."""
    who = {"alice": mint.token(), "root": mint.token(sub="root")}
    refused = {name: answered(gateway, *(one.format(**who) for one in lines)) for name, lines in ODD_FIELDS.items()}
    assert {name: status for name, (status, _) in refused.items() if status != 401} == {}
    assert [name for name, (_, head) in refused.items() if b'error="invalid_token"' not in head] == []
    assert [answered(gateway, field.format(who["alice"]))[0] for field in GOOD_FIELDS] == [200] * len(GOOD_FIELDS)


@pytest.mark.parametrize("kid", ["k" * 30_000, None], ids=["in the key id", "in dots"])
def test_a_token_beyond_the_limit_of_a_header_is_not_read_at_all(gateway: Gateway, mint: Mint, kid: str | None) -> None:
    """B065, B067."""
    text = "." * 40_000 if kid is None else forged_keys.RSA.named(kid).sign(mint.claims())
    assert answered(gateway, f"Authorization: Bearer {text}")[0] == 431


def test_the_collection_is_as_large_as_it_says_and_cost_the_provider_one_fetch(
    gateway: Gateway, issuer: Issuer
) -> None:
    """B065, B068: tokens with a key id that nobody knows share one early fetch, and nothing is a fault of ours."""
    assert sum(len(forgeries) for _, forgeries, _ in GROUPS.values()) > 250
    assert issuer.hits[KEYS] <= 2
    statuses = {labels["status"] for labels, _ in gateway.samples().get("gateway_requests_total", [])}
    assert not [status for status in statuses if status.startswith("5")]


def test_the_twin_of_an_elliptic_signature_proves_the_same_claims_and_nothing_else(
    line: http.client.HTTPConnection, mint: Mint
) -> None:
    """With each (r, s) also (r, n - s) holds, and issuers send either: refusing one refuses half of all tokens."""
    twin = forged_keys.changed(
        forged_keys.EC, forged_keys.halves(lambda r, s: forged_keys.pair(r, forged_keys.P256_ORDER - s))
    )
    assert bearing(line, twin(mint)).status == 200
    changed = twin(mint).split(".")
    changed[1] = mint.token(forged_keys.EC, sub="root").split(".")[1]
    assert bearing(line, ".".join(changed)).status == 401
