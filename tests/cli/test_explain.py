"""`nim-gateway policy explain`: what people and programs are told, and what the exit codes are."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.__main__ import main
from gateway.call import ModelRef, Operation, Principal
from gateway.devcerts import Paths
from gateway.policy.asked import Asked
from gateway.policy.engine import Policy
from gateway.policy.files import read
from gateway.policy.history import keep
from tests.identity.signers import Mint, ec_signer
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.policy.test_replay import line

Explain = Callable[..., tuple[int, str, str]]

KEY = ec_signer("k")
ISSUER = "https://idp.example.com/realms/ml"
MINT = Mint(ISSUER, KEY, time.time())
RULES: list[dict[str, Any]] = [
    allow("ds-chat", ["meta/*"], subjects={"groups": ["data-science"]}, limits={"max_tokens": 1024}),
    allow(
        "office", ["meta/*"], subjects={"users": ["bob"]}, when={"hours": "08:00-20:00", "timezone": "Europe/Madrid"}
    ),
    allow("batch", ["meta/*"], subjects={"clients": ["job"]}, **{"from": ["10.0.0.0/8"]}),
    {**allow("no-large", ["meta/large"], subjects={"groups": ["data-science"]}), "effect": "deny"},
]


@pytest.fixture
def site(tmp_path: Path, certificates: Paths) -> Gateway:
    """The files of a gateway whose tokens say who is in which group under other names; nothing runs."""
    issuers = [oidc(ISSUER, claims={"groups": ["roles"]}, group_map={"/ds": "data-science"})]
    models: list[str | Mapping[str, Any]] = [{"name": "meta/small", "aliases": ["small"]}, "meta/large"]
    return Gateway(tmp_path, certificates, issuers, [pool("llama", models, "http://127.0.0.1:9")], RULES, start=False)


@pytest.fixture
def explain(site: Gateway, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["policy", "explain", "--config", str(site.config_file), *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def test_an_allowed_caller_is_told_the_rule_its_place_and_its_terms(explain: Explain, site: Gateway) -> None:
    code, told, _ = explain("--user", "alice", "--groups", "data-science", "--model", "small")

    assert code == 0
    assert told.startswith("ALLOWED: alice in data-science vouched for by corp, infer on meta/small\n")
    assert f"because ds-chat ({site.policies}/rules.yaml:3) allows it" in told
    assert "under the terms of ds-chat: max_tokens: 1024\n" in told
    assert "note: small is an alias of meta/small, served by pool llama" in told


def test_a_denied_caller_is_told_what_each_rule_that_nearly_let_in_lacked(explain: Explain, site: Gateway) -> None:
    code, told, _ = explain(
        "--user",
        "bob",
        "--client",
        "job",
        "--groups",
        "ml",
        "--model",
        "meta/small",
        "--at",
        "2026-03-02T22:30:00+01:00",
    )

    file = f"{site.policies}/rules.yaml"
    assert code == 1
    assert "the caller gets HTTP 403, model_not_allowed" in told
    assert f"ds-chat ({file}:3) lacks: the caller is in none of groups data-science" in told
    assert (
        "lacks: it holds every day 08:00-20:00 Europe/Madrid, and it is mon 2026-03-02 22:30 Europe/Madrid there"
        in told
    )
    assert "lacks: it is for clients in 10.0.0.0/8, and nobody knows the caller's address" in told
    assert explain("--client", "job", "--from", "10.1.2.3", "--model", "meta/small")[0] == 0


def test_a_rule_that_denies_is_named_with_the_one_that_would_have_let_in(explain: Explain) -> None:
    code, told, _ = explain("--groups", "data-science", "--model", "meta/large")

    assert code == 1
    assert "no-large (" in told.splitlines()[1]
    assert "ds-chat (" in told.split("but for one thing:")[1]
    assert "lacks: nothing of its own; no-large (" in told


def test_programs_are_told_the_same_as_json(explain: Explain, site: Gateway) -> None:
    code, told, _ = explain("--user", "eve", "--model", "meta/small", "--from", "192.0.2.1", "--json")

    found = json.loads(told)
    place = {"id": "ds-chat", "file": f"{site.policies}/rules.yaml", "line": 3}
    assert code == 1
    assert (found["decision"], found["rule"], found["status"]) == ("deny", None, 403)
    assert found["near_misses"][0]["rule"] == place
    assert found["near_misses"][0]["lacks"] == "the caller is in none of groups data-science"
    assert len(found["generation"]) == 32

    code, told, _ = explain("--groups", "data-science", "--model", "meta/small", "--json")
    found = json.loads(told)
    assert (code, found["decision"], found["rule"], found["near_misses"]) == (0, "allow", place, [])
    assert found["terms"] == [{"rule": "ds-chat", "max_tokens": 1024}]


def test_terms_and_times_are_told_as_policies_write_them(explain: Explain, site: Gateway) -> None:
    limits = {"max_tokens": 512, "n": 1, "input": "256KiB", "remote_media": False, "on_excess": "clamp"}
    rule = allow("capped", ["meta/*"], subjects={"users": ["eve"]}, limits=limits, engine_fields=["rid", "priority"])
    site.write_rules([rule])
    question = ["--user", "eve", "--model", "meta/small", "--at", "2026-03-02T22:30:00+01:00"]
    _, told, _ = explain(*question)
    assert (
        "under the terms of capped: max_tokens: 512, n: 1, input: 256KiB, remote_media: false, "
        "engine_fields: [priority, rid], on_excess: clamp\n"
    ) in told

    found = json.loads(explain(*question, "--json")[1])
    fields = {"input": 256 * 1024, "engine_fields": ["priority", "rid"]}
    assert found["terms"] == [{"rule": "capped"} | limits | fields]
    assert found["at"] == "2026-03-02T21:30:00Z"


def test_a_token_is_read_as_its_provider_is_configured_and_never_shown(explain: Explain, tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    text = MINT.token(roles=["/ds"], exp=1)
    file.write_text(text + "\n")
    code, told, errors = explain("--token", file, "--model", "meta/small")

    assert code == 0
    assert told.startswith("ALLOWED: alice in data-science")
    assert "note: signature not checked" in told
    assert "note: the token has expired: the gateway answers 401" in told
    assert not set(text.split(".")) & set((told + errors).replace("\n", " ").split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("opaque", "this is no JWT"),
        ("a.b.c", "this is no JWT"),
        (Mint("https://elsewhere.test", KEY, 0).token(), "no configured provider has issued this token; there is corp"),
        (MINT.token(sub=...), "its subject is missing"),
    ],
)
def test_a_token_that_says_nothing_is_refused_without_being_shown(
    explain: Explain, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "token").write_text(text)
    code, told, errors = explain("--token", tmp_path / "token", "--model", "m")

    assert (code, told) == (2, "")
    assert why in errors
    assert text not in errors.split(why)[1]
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--user", "a"], "--model is needed"),
        (["--model", "m"], "say who calls"),
        (["--user", "a", "--model", "m", "--at", "yesterday"], "--at: 'yesterday' is no time"),
        (["--user", "a", "--model", "m", "--at", "2026-03-02T09:30:00"], "names no zone"),
        (["--user", "a", "--model", "m", "--from", "home"], "--from: 'home' is no address"),
        (["--user", "a", "--model", "m", "--issuer", "crop"], "no provider is called 'crop'; there is corp"),
        (["--token", "x", "--user", "a", "--model", "m"], "leave out --user"),
        (["--token", "/nowhere", "--model", "m"], "/nowhere cannot be read: No such file"),
        (["--decision", "0" * 32], "--decision needs the files to look in"),
        (["--decision", "x", "--audit", "/dev/null"], "'x' is no decision id"),
        (["--decision", "0" * 32, "--audit", "/dev/null"], "no line of /dev/null is of"),
        (["--audit", "/dev/null", "--user", "a", "--model", "m"], "leave out --user, --model, or add --decision ID"),
        (["--audit", "/dev/null", "--groups-unknown"], "leave out --groups-unknown, or add"),
        (["--audit", "/dev/null", "--version", "1", "--explicit"], "leave out --explicit, --version, or add"),
        (["--audit", "/dev/null", "--decision", "0" * 32, "--from", "10.0.0.1"], "leave out --from"),
        (["--audit", "/dev/null", "--decision", "0" * 32, "--at", "x", "--model", "m"], "leave out --at\n"),
        (["--user", "a", "--model", "m", "--history", "kept"], "--history is for what was logged"),
        (["--audit", "/nowhere"], "/nowhere cannot be read: No such file"),
    ],
)
def test_a_bad_call_is_told_in_one_line(explain: Explain, arguments: list[str], why: str) -> None:
    code, told, errors = explain(*arguments)

    assert (code, told, errors.count("\n")) == (2, "", 1)
    assert why in errors


def test_a_model_that_nobody_serves_is_said_to_be_unknown(explain: Explain) -> None:
    code, told, _ = explain("--groups", "data-science", "--model", "meta/medium")

    assert code == 1
    assert told.splitlines()[0].startswith("DENIED: ")
    assert "because no pool serves meta/medium, so no rule is asked" in told
    assert "the caller gets HTTP 404, model_not_found" in told
    assert "403" not in told
    code, told, _ = explain("--groups", "data-science", "--model", "meta/medium", "--json")
    found = json.loads(told)
    assert (code, found["decision"], found["status"], found["code"]) == (1, "deny", 404, "model_not_found")
    assert (found["rule"], found["near_misses"]) == (None, [])


def test_spaces_between_groups_and_scopes_are_no_part_of_their_names(explain: Explain) -> None:
    code, told, _ = explain("--groups", "nlp, data-science ,", "--scopes", " a , b", "--model", "small")
    assert code == 0
    assert told.startswith("ALLOWED: a caller without a name in data-science, nlp with scopes a, b vouched for")


def test_a_version_that_no_rule_can_name_is_said_to_be_none(explain: Explain, site: Gateway) -> None:
    rule = allow("first", ["meta/*"], subjects={"users": ["bob"]}, versions=["1"])
    site.write_rules([rule])
    _, told, _ = explain("--user", "bob", "--model", "meta/small", "--version", "01")
    assert "it is for versions 1, and the call names '01', which is not a plain number" in told
    _, told, _ = explain("--user", "bob", "--model", "meta/small")
    assert "it is for versions 1, and the call names none" in told


def test_a_call_that_a_limit_refused_is_explained_with_what_was_too_much(
    explain: Explain, site: Gateway, tmp_path: Path
) -> None:
    """The rules let it pass; it is the answer that tells otherwise."""
    written = read(site.policies)
    caller = Principal("alice", "https://idp.test", "corp", frozenset({"data-science"}))
    asked = Asked(caller, ModelRef("meta/small", Operation.INFER), 1.0)
    refused = {"status": 400, "reason": "cap_exceeded", "detail": "max_tokens 4096 > 1024", "terms": "ds-chat"}
    facts = line(Policy(written.rules, digest=written.digest), asked) | refused
    (tmp_path / "audit.log").write_text(json.dumps(facts) + "\n")
    code, told, _ = explain("--audit", tmp_path / "audit.log", "--decision", facts["decision_id"])
    assert code == 0
    assert "note: the rules let it pass, and the caller got 400 cap_exceeded: max_tokens 4096 > 1024" in told


def test_a_decision_of_another_policy_is_told_with_where_its_text_is(
    explain: Explain, site: Gateway, tmp_path: Path
) -> None:
    """The lines that are named are those of that text, and the file of that name may say something else by now."""
    written = read(site.policies)
    caller = Principal("alice", "https://idp.test", "corp", frozenset({"data-science"}))
    asked = Asked(caller, ModelRef("meta/small", Operation.INFER), 1.0)
    facts = line(Policy(written.rules, digest=written.digest), asked)
    (tmp_path / "audit.log").write_text(json.dumps(facts) + "\n")
    question = ("--audit", tmp_path / "audit.log", "--decision", facts["decision_id"], "--history", tmp_path / "kept")
    keep(tmp_path / "kept", written, 5, lambda: written.digest)
    assert "decided by policy" not in explain(*question)[1]
    site.write_rules(RULES[1:])
    code, told, _ = explain(*question)
    assert code == 0
    kept = tmp_path / "kept" / written.digest
    note = f"decided by policy {written.digest}, not by what {site.policies} says now: lines are those of {kept}"
    assert f"  note: {note}\n" in told


def test_groups_that_nobody_knows_are_said_to_be_the_reason(explain: Explain) -> None:
    code, told, _ = explain("--user", "eve", "--groups-unknown", "--model", "meta/small")

    assert code == 1
    assert "the groups of eve are not all known, and ds-chat (" in told
    assert "groups_overage" in told


def test_policies_alone_are_explained_without_a_configuration(
    site: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["policy", "explain", "--policies", str(site.policies), "--groups", "data-science"]
    assert main([*arguments, "--model", "meta/small"]) == 0
    assert "ALLOWED" in capsys.readouterr().out
    (site.policies / "rules.yaml").write_text("rules: [")
    assert main([*arguments, "--model", "meta/small"]) == 2
    assert capsys.readouterr().err.startswith(f"{site.policies}/rules.yaml:")


def test_files_without_a_decision_have_nothing_to_be_decided_again(explain: Explain, tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"level":"info"}\n{"torn\n')
    code, told, _ = explain("--audit", tmp_path / "log")

    assert code == 1
    assert told.splitlines() == [
        "0 decisions identical, 0 different, 1 not to be made again",
        "  1 line: not a whole line of JSON",
        "  1 line: no audit line of a call",
    ]


def test_every_line_is_counted_however_many_reasons_there_are(explain: Explain, tmp_path: Path) -> None:
    caller = Principal("alice", "https://idp.test", "corp")
    asked = Asked(caller, ModelRef("meta/small", Operation.INFER), 1.0)
    lines = [json.dumps(line(Policy([], digest=f"{number:032x}"), asked)) for number in range(15)]
    (tmp_path / "audit.log").write_text("\n".join([*lines, lines[0]]))
    code, told, _ = explain("--audit", tmp_path / "audit.log", "--json")
    assert code == 1
    assert sorted(json.loads(told)["not_replayable"].values()) == [1] * 14 + [2]
    _, told, _ = explain("--audit", tmp_path / "audit.log")
    assert told.splitlines()[-1] == "  5 lines for 5 more reasons"
    assert len(told.splitlines()) == 12


@pytest.mark.parametrize("packed", [False, True])
def test_a_logged_decision_that_comes_out_otherwise_is_1_whichever_way_it_is_asked_for(
    explain: Explain, site: Gateway, tmp_path: Path, *, packed: bool
) -> None:
    """Also where the call is allowed now, and where the audit file was packed when it was rotated."""
    caller = Principal("alice", "https://idp.test", "corp", frozenset({"data-science"}))
    written = read(site.policies)
    facts = line(
        Policy(written.rules, digest=written.digest), Asked(caller, ModelRef("meta/small", Operation.INFER), 1.0)
    )
    audit = tmp_path / ("audit.log.1.gz" if packed else "audit.log")

    def log(**changed: object) -> None:
        text = (json.dumps(facts | changed) + "\n").encode()
        audit.write_bytes(gzip.compress(text) if packed else text)

    log()
    assert explain("--audit", audit, "--decision", facts["decision_id"])[0] == 0
    code, told, errors = explain("--audit", audit, "--decision", facts["decision_id"], "--model", "meta/large")
    assert (code, told) == (2, "")
    assert "--decision: this one was about meta/small; leave out --model" in errors
    assert explain("--audit", audit)[:2] == (0, "1 decision identical, 0 different, 0 not to be made again\n")
    log(rule="another")
    code, told, _ = explain("--audit", audit, "--decision", facts["decision_id"])
    assert code == 1
    assert told.startswith("ALLOWED")
    assert "note: NOT as it was logged: it was allowed by another, and now ds-chat allows it" in told
    assert explain("--audit", audit)[0] == 1


def test_a_name_that_a_terminal_would_obey_is_written_out(explain: Explain) -> None:
    code, told, errors = explain("--user", "\x1b[2Jeve", "--model", "m\nALLOWED: eve")
    assert code == 1
    assert told.startswith("DENIED: \\x1b[2Jeve vouched for by corp, infer on m\\nALLOWED: eve\n")
    assert "\x1b" not in told + errors


def test_a_token_of_the_gateway_s_own_says_who_vouched_for_its_holder(
    explain: Explain, site: Gateway, certificates: Paths, tmp_path: Path
) -> None:
    """Its groups were mapped when it was made, and count as far as their provider may still give them."""
    key = tmp_path / "own.key"
    key.write_bytes(certificates.key.read_bytes())
    key.chmod(0o600)
    (issuer,) = site.config["identity"]["oidc"]
    issuer |= {"login": {"client_id": "ui"}, "groups_allowed": ["data-*"]}
    site.config["identity"]["tokens"] = {"key": str(key)}
    site.write_config()
    own = Mint("https://localhost:8443", KEY, time.time())
    (tmp_path / "token").write_text(
        own.token(idp=ISSUER, groups=["data-science", "others"], scope="a b", client_id="ui")
    )
    code, told, _ = explain("--token", tmp_path / "token", "--model", "small")

    assert code == 0
    assert told.startswith("ALLOWED: alice in data-science through ui with scopes a, b vouched for by corp,")


def test_groups_that_a_directory_knows_are_to_be_given(explain: Explain, site: Gateway, tmp_path: Path) -> None:
    (issuer,) = site.config["identity"]["oidc"]
    issuer["groups_from"] = "directory"
    del issuer["group_map"], issuer["claims"]
    base = "dc=example,dc=com"
    site.config["identity"]["ldap"] = [
        {
            "name": "directory",
            "servers": ["ldaps://127.0.0.1:9"],
            "bind": {"dn": f"cn=gateway,{base}", "password": {"env": "HOME"}},
            "users": {"base": base, "filter": "(uid={username})", "subject": "uid"},
            "groups": {"base": base, "filter": "(member={dn})", "name": "cn"},
        }
    ]
    site.write_config()
    (tmp_path / "token").write_text(MINT.token(roles=["data-science"]))
    arguments = ["--token", tmp_path / "token", "--model", "small"]

    code, told, errors = explain(*arguments)
    assert code == 1, errors
    assert "note: its groups come from directory, which was not asked: give them with --groups" in told
    assert "with groups that nobody knows" in told
    assert explain(*arguments, "--groups", "data-science")[0] == 0
