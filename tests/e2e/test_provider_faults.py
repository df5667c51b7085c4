"""Providers that publish strange keys or fail in every way, and strangers who storm one: good callers see nothing."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from tests.identity import forged_keys
from tests.identity.signers import Mint, Signer, ec_signer, ed_signer, part, rsa_signer
from tests.parts import scripts
from tests.parts.client import Answer, connection, prepared, whole
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import DISCOVERY, KEYS, Issuer, Issuers
from tests.parts.process import wait_until
from tests.parts.scripts import Script, Then
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": []}
MIB = 1024 * 1024
OLD, NEW = rsa_signer("k1"), rsa_signer("k2")

Start = Callable[..., Gateway]


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def issuers() -> Iterator[Issuers]:
    with Issuers() as made:
        yield made


@pytest.fixture
def start(tmp_path: Path, certificates: Paths, stub: Stub) -> Iterator[Start]:
    """`start({"name": "https://issuer", ...})`: a gateway that believes these."""
    running: list[Gateway] = []

    def run(addresses: Mapping[str, str], **more: str) -> Gateway:
        entries = [oidc(iss, name=name, audience=["gw"], **more) for name, iss in addresses.items()]
        rules = [allow("ds", ["m"], subjects={"groups": ["ds"]})]
        running.append(Gateway(tmp_path, certificates, entries, [pool("nim", ["m"], stub.url)], rules))
        running[0].backends_up("nim", 1)
        return running[0]

    yield run
    for gateway in running:
        gateway.end()


def names(issuers: Mapping[str, Issuer]) -> dict[str, str]:
    return {f"n{place}": issuer.iss for place, issuer in enumerate(issuers.values())}


def token(iss: str, signer: Signer, **more: object) -> str:
    return Mint(iss, signer, time.time()).token(**more)


def chat(gateway: Gateway, bearer: str) -> Answer:
    return gateway.ask("POST", CHAT, body=BODY, token=bearer)


def statuses(gateway: Gateway, bearers: Mapping[str, str]) -> dict[str, int]:
    """What each gets when all of them call at once."""
    with ThreadPoolExecutor(16) as threads:
        return dict(zip(bearers, threads.map(lambda one: chat(gateway, one).status, bearers.values()), strict=True))


def fetched(gateway: Gateway) -> bool:
    return all(one["ready"] for one in gateway.status()["issuers"].values())


# Key sets as providers publish them.

OTHER = rsa_signer("other")
STRANGERS: list[object] = [
    ec_signer("e").jwk(), ed_signer("d").jwk(), {"kty": "AKP", "alg": "ML-DSA-65", "pub": "AAAA"},
    {"kty": "oct"}, None, {},
    *(jwk for _, jwk in forged_keys.STRAYS.values()),
]  # fmt: skip
PUBLISHED: dict[str, list[object]] = {
    "Keycloak": [
        OTHER.jwk(use="enc", alg="RSA-OAEP"),
        OLD.jwk(x5c=["MIIB"], x5t="abc", **{"x5t#S256": "abc"}),
    ],
    "Entra": [OTHER.jwk(alg=..., x5t="other"), OLD.jwk(alg=..., x5t="k1", issuer="https://login.test/{tenantid}/v2.0")],
    "Google": [OTHER.jwk(), OLD.jwk()],
    "a single key without a name": [OLD.jwk(kid=...)],
    "two keys of one name, the second fits": [OTHER.jwk(kid="k1"), OLD.jwk()],
    "strange keys before": [*STRANGERS, OLD.jwk()],
    "strange keys behind": [OLD.jwk(), *STRANGERS],
}
USELESS: dict[str, list[object]] = {
    "only x5c": [OLD.jwk(n=..., e=..., x5c=["MIIB"])],
    "only 512 bits": [forged_keys.STRAYS["RSA of 512 bits"][1]],
    "only a private key": [OLD.jwk() | forged_keys.secret_members(OLD)],
    "only for encryption": [OLD.jwk(use="enc")],
    "empty": [],
}


def test_strange_keys_spoil_nothing_and_useless_sets_prove_nobody(start: Start, issuers: Issuers) -> None:
    """B071: a set without one usable key is no set: nothing is known of a caller's token then (503, and not 401)."""
    made = {name: issuers.add(f"/{place}", *keys) for place, (name, keys) in enumerate((PUBLISHED | USELESS).items())}
    gateway = start(names(made))
    wait_until(lambda: all(issuer.hits[KEYS] for issuer in made.values()), 10, "all sets being fetched")
    good = {name: token(made[name].iss, OLD) for name in PUBLISHED}
    good |= {
        f"{name}, unnamed": OLD.sign(Mint(made[name].iss, OLD, time.time()).claims(), kid=...) for name in PUBLISHED
    }
    wait_until(lambda: set(statuses(gateway, good).values()) == {200}, 10, "good tokens of all sets being believed")
    useless = {name: token(made[name].iss, forged_keys.TINY if "512" in name else OLD) for name in USELESS}
    assert statuses(gateway, useless) == dict.fromkeys(USELESS, 503)
    written = gateway.process.tail(1_000_000)
    assert "it is a private key, published for everybody to sign with" in written
    assert written.count("kid 's11'") == 2, "one warning for each strange key, in two sets"


# Providers that fail.

WHOLE = json.dumps({"keys": [OLD.jwk(), NEW.jwk()]}).encode()
PADDING = b" " * MIB
FAULTS: dict[str, Script] = {
    "500": scripts.sized(b"oops", 500),
    "503 with the keys": scripts.sized(WHOLE, 503),
    "404": scripts.sized(b"gone", 404),
    "HTML": scripts.sized(b"<!doctype html><title>Maintenance</title>", kind="text/html"),
    "empty body": scripts.sized(b""),
    "no keys": scripts.sized(b'{"keys":[]}'),
    "keys null": scripts.sized(b'{"keys":null}'),
    "a list": scripts.sized(b"[]"),
    "cut JSON": scripts.sized(WHOLE[:-9]),
    "cut body": scripts.cut(WHOLE[:90], len(WHOLE)),
    "cut head": (b"HTTP/1.1 200 OK\r\nContent-Le", Then.CLOSE),
    "reset": (b"HTTP/1.1 200 OK\r\n", Then.RESET),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", Then.CLOSE),
    "compressed unasked": scripts.sized(gzip.compress(WHOLE), 200, "Content-Encoding: gzip"),
    "50 MiB, as announced": scripts.sized(WHOLE + PADDING * 50),
    "50 MiB in chunks": scripts.chunked([WHOLE, *[PADDING] * 50]),
    "deep": scripts.sized(b"[" * 100_000),
    "a redirect to good keys": scripts.sized(b"", 302, "Location: /good/keys"),
    "hangs at once": (Then.WAIT,),
    "hangs in the middle": (scripts.head(200, "Content-Length: 9999") + WHOLE[:9], Then.WAIT),
}


def test_known_keys_serve_on_whatever_becomes_of_the_provider(start: Start, issuers: Issuers) -> None:
    """B070: a token of a known key holds, also one that was never seen; one that names a new key hears 503, until the
    provider is well again."""
    good = issuers.add("/good", OLD.jwk(), NEW.jwk())
    made = {name: issuers.add(f"/{place}", OLD.jwk()) for place, name in enumerate(FAULTS)}
    gateway = start(names(made))
    wait_until(lambda: fetched(gateway), 10, "all keys")
    seen = {name: token(issuer.iss, OLD) for name, issuer in made.items()}
    assert statuses(gateway, seen) == dict.fromkeys(FAULTS, 200)
    before = gateway.process.resident_bytes()
    for name, issuer in made.items():
        issuer.instead = FAULTS[name]
    new = {name: token(issuer.iss, NEW) for name, issuer in made.items()}
    assert statuses(gateway, new) == dict.fromkeys(FAULTS, 503)
    assert statuses(gateway, seen) == dict.fromkeys(FAULTS, 200)
    unseen = {name: token(issuer.iss, OLD, jti="unseen") for name, issuer in made.items()}
    assert statuses(gateway, unseen) == dict.fromkeys(FAULTS, 200)
    assert gateway.readiness() == 200
    assert gateway.process.resident_bytes() - before < 24 * MIB
    assert good.hits == {}, "a redirect is not followed"
    for issuer in made.values():
        issuer.instead, issuer.keys = None, [OLD.jwk(), NEW.jwk()]
    # Two of them are well and have nothing for us: those are asked again after the cool-down only.
    soon = {name: one for name, one in new.items() if name != "no keys"}
    wait_until(lambda: set(statuses(gateway, soon).values()) == {200}, 30, "the new keys being believed")


def test_a_cold_start_beside_failing_providers_is_503_until_they_are_well(start: Start, issuers: Issuers) -> None:
    """B070: nothing is known of anybody's token, so none is called bad; and the gateway says that it is not ready."""
    made = {name: issuers.add(f"/{place}", OLD.jwk()) for place, name in enumerate(FAULTS)}
    for name, issuer in made.items():
        issuer.instead = FAULTS[name]
    gateway = start(names(made), cooldown="2s")
    bearers = {name: token(issuer.iss, OLD) for name, issuer in made.items()}
    assert statuses(gateway, bearers) == dict.fromkeys(FAULTS, 503)
    answer = chat(gateway, bearers["500"])
    assert answer.json()["error"]["code"] == "identity_unavailable"
    assert 1 <= int(answer["retry-after"] or 0) <= 60
    assert gateway.readiness() == 503
    assert gateway.samples().get("gateway_jwks_age_seconds") is None
    assert chat(gateway, token(made["500"].iss, OLD, exp=1)).status == 401
    for issuer in made.values():
        issuer.instead = None
    wait_until(lambda: set(statuses(gateway, bearers).values()) == {200}, 30, "tokens being believed")
    assert gateway.readiness() == 200
    assert len(gateway.samples()["gateway_jwks_age_seconds"]) == len(FAULTS)


def test_a_provider_that_refuses_connections_is_said_once(start: Start, issuers: Issuers) -> None:
    """B070."""
    gone = issuers.add("/gone", OLD.jwk())
    gateway = start({"gone": gone.iss})
    wait_until(lambda: fetched(gateway), 10, "the keys")
    issuers.stop()
    assert chat(gateway, token(gone.iss, NEW)).status == 503
    assert chat(gateway, token(gone.iss, NEW)).status == 503
    assert chat(gateway, token(gone.iss, OLD)).status == 200
    assert gateway.process.tail(100_000).count("identity.keys.failed") == 1


DISCOVERED: dict[str, dict[str, str | None]] = {
    "a slash more": {"issuer": "{iss}/"},
    "another issuer": {"issuer": "https://evil.test"},
    "another case": {"issuer": "{IssUer}"},
    "no issuer": {"issuer": None},
    "keys over plain HTTP elsewhere": {"jwks_uri": "http://192.0.2.1/keys"},
    "keys in a file": {"jwks_uri": "file:///etc/passwd"},
}


def test_a_discovery_document_of_another_issuer_is_not_believed(start: Start, issuers: Issuers) -> None:
    """OpenID Connect Discovery 1.0 section 4.3."""
    made = {}
    for place, (name, says) in enumerate(DISCOVERED.items()):
        iss = f"{issuers.url}/{place}x"
        made[name] = issuers.add(f"/{place}x", OLD.jwk())
        made[name].discovery = {k: v and v.format(iss=iss, IssUer=iss[:-1] + "X") for k, v in says.items()}
    gateway = start(names(made))
    wait_until(lambda: all(issuer.hits[DISCOVERY] for issuer in made.values()), 10, "all documents being fetched")
    bearers = {name: token(issuer.iss, OLD) for name, issuer in made.items()}
    assert statuses(gateway, bearers) == dict.fromkeys(DISCOVERED, 503)
    assert [name for name, issuer in made.items() if issuer.hits[KEYS]] == []


# Keys that change, and strangers.


def test_two_hundred_first_calls_with_a_new_key_are_served_after_one_fetch(start: Start, issuers: Issuers) -> None:
    """B069: although the provider has called its old keys good for a day, and nobody hears 401."""
    corp = issuers.add("/corp", OLD.jwk())
    gateway = start({"corp": corp.iss})
    wait_until(lambda: fetched(gateway), 10, "the keys")
    corp.keys = [OLD.jwk(), NEW.jwk()]
    bearers = {str(n): token(corp.iss, NEW, jti=n) for n in range(200)}
    assert set(statuses(gateway, bearers).values()) == {200}
    assert corp.hits[KEYS] == 2


@contextmanager
def caller(gateway: Gateway) -> Iterator[Callable[[str], int]]:
    """One kept connection; gives the status of a call with this token."""
    with closing(connection(gateway.url, gateway.ca)) as line:

        def call(bearer: str) -> int:
            payload, fields = prepared(BODY, None, bearer)
            line.request("POST", CHAT, payload, fields)
            return whole(line.getresponse()).status

        yield call


def test_thousands_of_made_up_key_ids_cost_one_fetch_and_good_callers_nothing(start: Start, issuers: Issuers) -> None:
    """B068: each with a long key id of its own and a signature of nothing, from four callers; nothing of them stays."""
    corp = issuers.add("/corp", OLD.jwk())
    gateway = start({"corp": corp.iss})
    wait_until(lambda: fetched(gateway), 10, "the keys")
    _, body, signature = token(corp.iss, OLD).split(".")

    def storm(number: int) -> set[int]:
        kids = (f"{number}-{n}".ljust(9000, "x") for n in range(500))
        with caller(gateway) as call:
            return {call(f"{part({'alg': 'RS256', 'kid': kid})}.{body}.{signature}") for kid in kids}

    served = set()
    with caller(gateway) as call, ThreadPoolExecutor(4) as threads:
        assert set().union(*threads.map(storm, range(-4, 0))) == {401}
        before = gateway.process.resident_bytes()
        storms = [threads.submit(storm, number) for number in range(1, 5)]
        while not all(one.done() for one in storms):
            served.add(call(token(corp.iss, OLD, jti=time.monotonic())))
    assert served == {200}
    assert {status for one in storms for status in one.result()} == {401}
    assert corp.hits[KEYS] == 2
    assert gateway.process.resident_bytes() - before < 12 * MIB, "18 MiB of key ids came"
