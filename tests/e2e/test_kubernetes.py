"""Tokens of ServiceAccounts, at a gateway that is configured as docs/identity.md says, and a cluster of their shape."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.devcerts import Paths
from gateway.settings import ServerTls
from gateway.tls import server_context
from tests.identity.samples import POD, SAMPLES, documented
from tests.identity.signers import Json, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Config, Gateway, pool
from tests.parts.issuers import Issuer, Issuers
from tests.parts.process import wait_until
from tests.parts.stub import Stub

KEY = ec_signer("cluster")
#: What the API server wants to see before it shows its keys.
OURS = "the-gateways-own-token"
NIGHTLY = "system:serviceaccount:batch:nightly"


@dataclass(frozen=True)
class Cluster:
    """A cluster's issuer, the file with the gateway's own token, and the entry of the page that leads to both."""

    issuer: Issuer
    token: Path
    entry: Config

    def show(self, token: str) -> None:
        """Put the gateway's token into its file, as Kubernetes renews it."""
        beside = self.token.with_suffix(".new")
        beside.write_text(token)
        beside.replace(self.token)

    def account(self, namespace: str, name: str, **more: object) -> str:
        """The token of a ServiceAccount, as the TokenRequest API makes it for a pod."""
        (sample,) = (sample for sample in SAMPLES if sample.name == "kubernetes-pod" and not sample.changed)
        whole = sample.claims()
        whole["kubernetes.io"]["namespace"] = namespace
        whole["kubernetes.io"]["serviceaccount"]["name"] = name
        now = int(time.time())
        own = {"sub": f"system:serviceaccount:{namespace}:{name}", "iat": now, "nbf": now, "exp": now + 3600}
        return KEY.sign({key: value for key, value in (whole | own | more).items() if value is not ...})


@pytest.fixture
def cluster(tmp_path: Path, certificates: Paths) -> Iterator[Cluster]:
    with Issuers(tls=server_context(ServerTls(certificates.certificate, certificates.key))) as issuers:
        entry = documented("name: cluster")["cluster"]
        path = "/openid/v1/jwks"
        assert entry["jwks_uri"].endswith(path)
        issuer = issuers.add_keys(path, KEY.jwk())
        issuer.asks = OURS
        token = tmp_path / "token"
        moved = {"jwks_uri": issuers.url + path, "ca": str(certificates.ca), "discovery_token": {"file": str(token)}}
        made = Cluster(issuer, token, entry | moved)
        made.show(OURS)
        yield made


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def gateway(tmp_path: Path, certificates: Paths, cluster: Cluster, stub: Stub) -> Iterator[Gateway]:
    """`m` is for the namespace `ml`, `n` for one account of `batch`."""
    rules = [
        {"id": "ml", "effect": "allow", "subjects": {"groups": ["k8s:ml"]}, "models": ["m"]},
        {"id": "one", "effect": "allow", "subjects": {"users": [NIGHTLY]}, "models": ["n"]},
    ]  # fmt: skip
    pools = [pool("nim", ["m", "n"], stub.url)]
    with Gateway(tmp_path / "gateway", certificates, [cluster.entry], pools, rules) as running:
        running.backends_up("nim", 1)
        yield running


def chat(gateway: Gateway, token: str, model: str) -> Answer:
    return gateway.ask("POST", "/v1/chat/completions", body={"model": model}, token=token)


def known(gateway: Gateway) -> bool:
    return bool(gateway.status()["issuers"]["cluster"]["ready"])


def test_a_service_account_is_who_it_is_and_in_the_group_of_its_namespace(gateway: Gateway, cluster: Cluster) -> None:
    wait_until(lambda: known(gateway), 10, "the cluster's keys")
    answer = chat(gateway, cluster.account("ml", "trainer"), "m")
    assert answer.status == 200
    record = gateway.audit_of(answer["x-request-id"])
    assert (record["subject"], record["groups_used"]) == ("system:serviceaccount:ml:trainer", ["k8s:ml"])
    assert (record["provider"], record["credential"]) == ("cluster", POD)
    assert record["issuer"] == "https://kubernetes.default.svc.cluster.local"
    assert [chat(gateway, cluster.account("batch", "nightly"), model).status for model in "mn"] == [403, 200]
    assert [chat(gateway, cluster.account("batch", "other"), model).status for model in "mn"] == [403, 403]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"aud": ["https://kubernetes.default.svc.cluster.local"]}, "bad_audience"),
        ({"exp": ...}, "bad_claims"),
        ({"iss": "kubernetes/serviceaccount"}, "bad_issuer"),
        ({"iss": "https://kubernetes.default.svc"}, "bad_issuer"),
    ],
)
def test_a_token_for_the_api_server_or_of_the_old_kind_is_refused(
    gateway: Gateway, cluster: Cluster, more: Json, reason: str
) -> None:
    wait_until(lambda: known(gateway), 10, "the cluster's keys")
    answer = chat(gateway, cluster.account("ml", "trainer", **more), "m")
    assert answer.status == 401
    assert gateway.audit_of(answer["x-request-id"])["detail"].split(" ")[0] == reason


def test_a_cluster_that_shows_its_keys_to_no_stranger_is_asked_with_the_token_of_the_file(
    gateway: Gateway, cluster: Cluster
) -> None:
    """And with the new one, once it is renewed; the old keys serve on."""
    wait_until(lambda: known(gateway), 10, "the cluster's keys")
    assert cluster.issuer.hits["refused"] == 0
    cluster.issuer.asks = "renewed"
    cluster.show("renewed")
    fetches = sum(cluster.issuer.hits.values())
    wait_until(lambda: sum(cluster.issuer.hits.values()) > fetches, 10, "the keys being fetched again")
    assert cluster.issuer.hits["refused"] == 0
    assert chat(gateway, cluster.account("ml", "trainer"), "m").status == 200


def test_without_the_right_token_of_its_own_the_gateway_knows_nobody_and_says_503(
    cluster: Cluster, tmp_path: Path, certificates: Paths, stub: Stub
) -> None:
    cluster.show("a stranger's")
    rules = [{"id": "all", "effect": "allow", "subjects": {"issuers": ["cluster"]}, "models": ["**"]}]
    with Gateway(tmp_path / "own", certificates, [cluster.entry], [pool("nim", ["m"], stub.url)], rules) as running:
        wait_until(lambda: cluster.issuer.hits["refused"] > 0, 10, "the fetch being refused")
        assert chat(running, cluster.account("ml", "trainer"), "m").status == 503
        assert "answered with status 401" in running.process.tail(100_000)
        running.backends_up("nim", 1)
        cluster.show(OURS)
        wait_until(lambda: chat(running, cluster.account("ml", "trainer"), "m").status == 200, 10, "being known")


def test_the_gateways_own_token_is_told_to_nobody(gateway: Gateway, cluster: Cluster) -> None:
    cluster.issuer.asks = "another"
    cluster.show("a-wrong-one")
    wait_until(lambda: cluster.issuer.hits["refused"] > 0, 10, "the fetch being refused")
    written = gateway.process.tail(1_000_000) + str(gateway.status())
    assert OURS not in written
    assert "a-wrong-one" not in written
