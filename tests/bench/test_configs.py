"""What the servers under test are told: the same certificate, the same backends, the same check."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import configs
from bench.configs import Site
from bench.material import write_certificate
from bench.sections import SECTIONS
from bench.servers import KINDS
from bench.work import MODEL, TENSOR_MODEL
from gateway.config import load as config

SITE = Site(
    folder=Path("/srv/bench/one"),
    port=18443,
    spare_port=19090,
    backends=(18001, 18002),
    issuer="http://127.0.0.1:18200",
    jwks='{"keys":[]}',
    shared=Path("/srv/bench"),
)
WRITERS = {
    "nginx": configs.nginx,
    "haproxy": configs.haproxy,
    "envoy": configs.envoy,
    "apache": configs.apache,
    "sglang-router": configs.sglang,
    "litellm": configs.litellm,
    "gateway": configs.gateway,
    "floor": configs.floor,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_server_listens_where_it_is_asked_and_has_both_backends(name: str) -> None:
    text = "\n".join(WRITERS[name](SITE).values())
    for port in (SITE.port, *SITE.backends):
        assert str(port) in text


@pytest.mark.parametrize("name", [name for name in WRITERS if KINDS[name].tls])
def test_every_server_shows_the_certificate_of_the_run(name: str) -> None:
    assert f"{SITE.shared}/tls." in "\n".join(WRITERS[name](SITE).values())


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
def test_braces_of_the_templates_are_balanced(name: str) -> None:
    text = "\n".join(WRITERS[name](SITE).values())
    assert text.count("{") == text.count("}")


def test_haproxy_checks_signature_expiry_and_model() -> None:
    (text,) = configs.haproxy(SITE).values()
    for check in ("jwt_verify", "'$.exp'", f"json_query('$.model') -m str {MODEL}", "balance leastconn"):
        assert check in text


def test_apache_checks_signature_and_group_and_takes_the_least_busy() -> None:
    (text,) = configs.apache(SITE).values()
    for check in (f"{SITE.shared}/issuer.pem", "Require claim groups:data-science", "lbmethod=bybusyness"):
        assert check in text


def test_litellm_is_told_of_the_model_once_for_each_backend_and_of_its_key() -> None:
    files = configs.litellm(SITE)
    document = json.loads(files["litellm.yaml"])
    assert [each["model_name"] for each in document["model_list"]] == [MODEL] * len(SITE.backends)
    assert document["general_settings"]["master_key"] == KINDS["litellm"].key


def test_every_server_takes_part_in_sections_that_exist() -> None:
    assert all(kind.sections and kind.sections <= set(SECTIONS) for kind in KINDS.values())


def test_envoy_keeps_verified_tokens_and_takes_the_least_busy() -> None:
    document = json.loads(configs.envoy(SITE)["envoy.yaml"])
    manager = document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    authentication = manager["http_filters"][0]["typed_config"]
    assert authentication["providers"]["issuer"]["jwt_cache_config"] == {"jwt_cache_size": 100}
    assert authentication["rules"][0]["requires"] == {"provider_name": "issuer"}
    assert document["static_resources"]["clusters"][0]["lb_policy"] == "LEAST_REQUEST"


def test_the_gateway_is_told_to_do_the_whole_job() -> None:
    files = configs.gateway(SITE)
    document = json.loads(files["gateway.yaml"])
    assert [pool["balance"] for pool in document["pools"]] == ["least_connections", "least_connections"]
    assert document["identity"]["oidc"][0]["issuer"] == SITE.issuer
    assert document["audit"]["file"] != "-"
    (rule,) = json.loads(files["policies/bench.yaml"])["rules"]
    assert rule["models"] == [MODEL, TENSOR_MODEL]


def test_the_gateway_takes_the_file_that_it_is_given(tmp_path: Path) -> None:
    write_certificate(tmp_path)
    site = replace(SITE, folder=tmp_path, shared=tmp_path)
    for name, text in configs.gateway(site).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    settings = config.load(tmp_path / "gateway.yaml", None, environment={}).settings
    assert [model.name for pool in settings.pools for model in pool.models] == [MODEL, TENSOR_MODEL]
    assert settings.listen.port == SITE.port
