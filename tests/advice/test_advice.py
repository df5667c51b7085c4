"""What an author hardly meant is said, and what is meant is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway import settings
from gateway.advice import advice
from gateway.policy.engine import Effect, Rule


def configured(folder: Path, *models: str) -> settings.Settings:
    pools = tuple(
        settings.Pool(f"pool-{model}", ("openai",), (settings.Model(model),), (settings.BackendAddress("http://h:1"),))
        for model in models
    )
    listen = settings.Listen(settings.ServerTls(Path("c"), Path("k")))
    return settings.Settings(listen=listen, oidc=(), policies=folder, pools=pools)


def rule(*models: str, effect: Effect = Effect.ALLOW) -> Rule:
    return Rule("r", "p.yaml", 3, effect, models, groups=frozenset({"ds"}))


def test_a_good_configuration_needs_no_advice(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "cases.yaml").touch()
    (tmp_path / "..data").mkdir()

    assert list(advice(configured(tmp_path, "meta/small", "big"), [rule("meta/*"), rule("big")])) == []


def test_a_rule_for_a_model_that_nobody_configured_is_named_with_what_may_be_meant(tmp_path: Path) -> None:
    said = list(advice(configured(tmp_path, "meta/small"), [rule("Meta/small"), rule("**")]))

    assert said == ["p.yaml:3: rule r: no configured model is called 'Meta/small'; did you mean 'meta/small'?"]


def test_a_pool_that_no_rule_opens_is_named(tmp_path: Path) -> None:
    said = list(advice(configured(tmp_path, "a", "b"), [rule("a"), rule("b", effect=Effect.DENY)]))

    assert said == ["pool pool-b: no rule allows any of its models, so nobody can use it"]


@pytest.mark.parametrize("name", ["deny.yml", "deny.json", "sub/deny.yaml"])
def test_a_policy_that_is_not_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    (said,) = advice(configured(tmp_path, "a"), [rule("a")])

    assert name.partition("/")[0] in said
    assert "not read" in said


def test_certificates_that_nobody_asks_for_are_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    without = replace(configured(tmp_path, "m"), mtls=settings.Mtls())
    tls = replace(without.listen.tls, client_ca=Path("ca"))
    asked = replace(without, listen=replace(without.listen, tls=tls))

    assert [line.split(":")[0] for line in advice(without, [rule("m")])] == ["identity.mtls"]
    assert list(advice(asked, [rule("m")])) == []
