"""What an author hardly meant is said, and what is meant is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway import settings
from gateway.advice import advice, thorough
from gateway.generation import Source
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.revocation.revoked import Revoked
from gateway.listed import Listed
from gateway.policy.files import Written
from gateway.policy.rules import Effect, Rule


def configured(folder: Path, *models: str) -> settings.Settings:
    pools = tuple(
        settings.Pool(f"pool-{model}", ("openai",), (settings.Model(model),), (settings.BackendAddress("http://h:1"),))
        for model in models
    )
    listen = settings.Listen(settings.ServerTls(Path("c"), Path("k")))
    return settings.Settings(listen=listen, oidc=(), policies=settings.Policies(folder), pools=pools)


def rule(*models: str, effect: Effect = Effect.ALLOW) -> Rule:
    return Rule("r", "p.yaml", 3, effect, models, groups=frozenset({"ds"}))


def source(settings: settings.Settings, *rules: Rule, **more: Any) -> Source:
    given: dict[str, Any] = {"listed": Listed(), "files": {}}
    return Source(settings, Written(rules), **(given | more))


def test_a_good_configuration_needs_no_advice(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "cases.yaml").touch()
    (tmp_path / "..data").mkdir()

    assert list(advice(source(configured(tmp_path, "meta/small", "big"), rule("meta/*"), rule("big")))) == []


def test_a_rule_for_a_model_that_nobody_configured_is_named_with_what_may_be_meant(tmp_path: Path) -> None:
    said = list(advice(source(configured(tmp_path, "meta/small"), rule("Meta/small"), rule("**"))))

    assert said == ["p.yaml:3: rule r: no configured model is called 'Meta/small'; did you mean 'meta/small'?"]


def test_a_pool_that_no_rule_opens_is_named(tmp_path: Path) -> None:
    said = list(advice(source(configured(tmp_path, "a", "b"), rule("a"), rule("b", effect=Effect.DENY))))

    assert said == ["pool pool-b: no rule allows any of its models, so nobody can use it"]


@pytest.mark.parametrize("name", ["deny.yml", "deny.json", "sub/deny.yaml"])
def test_a_policy_that_is_not_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    (said,) = advice(source(configured(tmp_path, "a"), rule("a")))

    assert name.partition("/")[0] in said
    assert "not read" in said


def test_certificates_that_nobody_asks_for_are_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    corp = settings.OidcIssuer("corp", "https://idp.test", ("gw",))
    without = replace(configured(tmp_path, "m"), mtls=settings.Mtls(), oidc=(corp,))
    tls = replace(without.listen.tls, client_ca=Path("ca"))
    asked = replace(without, listen=replace(without.listen, tls=tls))

    assert [line.split(":")[0] for line in advice(source(without, rule("m")))] == ["identity.mtls"]
    assert list(advice(source(asked, rule("m")))) == []


def test_a_provider_that_could_be_asked_and_is_not_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    corp = settings.OidcIssuer("corp", "https://idp.test", ("gw",), introspection=settings.Introspection("gw"))
    idle = replace(configured(tmp_path, "m"), oidc=(corp,))

    assert list(advice(source(idle, rule("m")))) == [
        "identity.oidc: corp: its introspection is not used until verify is introspect or both"
    ]
    assert list(advice(source(replace(idle, oidc=(replace(corp, verify="both"),)), rule("m")))) == []


def test_a_revoked_key_that_there_is_not_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    key = ApiKey("k7f3m2qa", b"", "batch", frozenset(), 0.0, float("inf"), None)
    listed = Listed((key,), Revoked(keys=frozenset({"k7f3m2qa", "nosuch00"})))
    revoking = replace(configured(tmp_path, "m"), revoked=settings.Revoked(Path("revoked.yaml")))

    assert list(advice(source(revoking, rule("m"), listed=listed))) == [
        "revoked.yaml: keys: no API key has the id nosuch00"
    ]


@pytest.mark.parametrize(
    ("mode", "public", "secret"),
    [
        (0o600, None, None),
        (0o640, None, None),
        (0o644, None, "may read this secret (mode 0644); set 0600, or 0640"),
        (0o646, "may change it (mode 0646)", "may change it (mode 0646)"),
        (0o777, "may change it (mode 0777)", "may change it (mode 0777)"),
    ],
)
def test_files_that_others_could_let_themselves_in_by_are_pointed_out(
    tmp_path: Path, mode: int, public: str | None, secret: str | None
) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").touch()
    names = [tmp_path / name for name in ("config.yaml", "tls.key", "secret")]
    for name in names:
        name.touch()
        name.chmod(mode)
    made = configured(tmp_path / "policies", "m")
    made = replace(made, listen=settings.Listen(settings.ServerTls(Path("c"), names[1])))
    files = {**dict.fromkeys(names), tmp_path / "gone": None}
    said = list(advice(source(made, rule("m"), files=files, secrets=frozenset({names[2]}))))

    wanted = [(name, words) for name, words in zip(names, (public, secret, secret), strict=True) if words]
    assert len(said) == len(wanted)
    for line, (name, words) in zip(said, wanted, strict=True):
        assert line.startswith(f"{name}: everybody on this machine {words}")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("new", None),
        ("folder", None),
        ("file", "is not a folder; no policy is kept"),
        ("parent", "does not exist; no policy is kept"),
    ],
)
def test_a_place_where_no_policy_can_be_kept_is_said(tmp_path: Path, kind: str, said: str | None) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").touch()
    history = tmp_path / "kept" if kind != "parent" else tmp_path / "no" / "kept"
    if kind == "folder":
        history.mkdir()
    if kind == "file":
        history.touch()
    made = configured(tmp_path / "policies", "m")
    made = replace(made, policies=replace(made.policies, history=history))
    told = [line for line in advice(source(made, rule("m"))) if line.startswith("policies.history: ")]

    assert len(told) == (said is not None)
    assert said is None or told[0].endswith(said)


def test_what_policy_lint_finds_for_certain_is_said_and_what_it_guesses_is_not(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").touch()
    twice = replace(rule("m"), id="twice", line=9)
    stranger = replace(rule("m"), id="stranger", line=12, groups=frozenset({"DS"}))
    shut = replace(rule("m"), id="shut", line=15, groups=frozenset({"left"}))
    deny = replace(shut, id="deny", line=18, effect=Effect.DENY)

    assert list(thorough(source(configured(tmp_path, "m"), rule("m"), twice, stranger, shut, deny))) == [
        "p.yaml:15: rule shut: allows nothing, because all of it is denied by deny at p.yaml:18"
    ]
