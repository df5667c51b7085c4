"""`nim-gateway policy lint` tells what rules hardly mean, with and without a configuration around them."""

from __future__ import annotations

import json
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.cli.test_policy_cases import CONFIG, policy

GOOD = """\
version: 1
rules:
  - {id: chat, effect: allow, subjects: {groups: [ds]}, models: [llama]}
"""
KEYS = """\
version: 1
keys:
  - {id: k7f3m2qa, digest: "sha256:%s", owner: batch, groups: [ds, left], created: "2026-01-01T00:00:00Z"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "rules.yaml").write_text(GOOD)
    (tmp_path / "gateway.yaml").write_text(CONFIG)
    (tmp_path / "api_keys.yaml").write_text(KEYS % ("0" * 64))
    return tmp_path


def write(folder: Path, *rules: str) -> None:
    text = GOOD + "".join(f"  - {rule}\n" for rule in rules)
    (folder / "policies" / "rules.yaml").write_text(text)


def codes(folder: Path, *words: str) -> list[tuple[str, str | None]]:
    """What is found, by the same command line in this process, since starting one takes a second."""
    with chdir(folder), redirect_stdout(StringIO()) as out:
        code = main(["policy", "lint", "--config", "gateway.yaml", "--json", *words])
    found = json.loads(out.getvalue())["findings"]
    assert code == (1 if found else 0)
    return [(finding["code"], finding["rule"]) for finding in found]


def test_where_nothing_is_found_that_is_said(folder: Path) -> None:
    done = policy("lint", "--config", "gateway.yaml", at=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "policies: nothing found\n", "")
    assert codes(folder) == []


def test_a_finding_is_a_line_with_its_place_and_code_and_ends_with_1(folder: Path) -> None:
    write(folder, "{id: again, effect: allow, subjects: {groups: [ds]}, models: ['*']}")
    done = policy("lint", "--policies", "policies", at=folder)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "policies/rules.yaml:3: rule chat: all of it is allowed by again at policies/rules.yaml:4, too [redundant]",
        "policies: 1 finding",
    ]
    done = policy("lint", "--policies", "policies", "--json", at=folder)
    assert json.loads(done.stdout) == {
        "findings": [
            {
                "code": "redundant",
                "rule": "chat",
                "file": "policies/rules.yaml",
                "line": 3,
                "message": "all of it is allowed by again at policies/rules.yaml:4, too",
            }
        ],
        "ignored": 0,
    }


def test_what_is_meant_is_left_out_by_code_or_for_one_rule(folder: Path) -> None:
    deny = "{id: out, effect: deny, subjects: {groups: [x]}, models: [y], operations: [admin]}"
    write(folder, "{id: again, effect: allow, subjects: {groups: [ds]}, models: ['*']}", deny)
    assert {code for code, _ in codes(folder)} == {"redundant", "unreachable", "unknown_model", "unknown_group"}
    ignored = ("redundant:chat", "unreachable", "unknown_model", "unknown_group")
    done = policy("lint", "--config", "gateway.yaml", *(f"--ignore={one}" for one in ignored), at=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "policies: nothing found, 4 ignored\n", "")


def test_what_is_ignored_in_vain_or_unknown_is_told(folder: Path) -> None:
    done = policy("lint", "--policies", "policies", "--ignore", "redundant:chat", at=folder)
    told = "warning: --ignore redundant:chat leaves nothing out\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "policies: nothing found\n", told)
    done = policy("lint", "--policies", "policies", "--ignore", "redundand", at=folder)
    assert done.returncode == 2
    assert "there is no code 'redundand'; there is unreachable, redundant," in done.stderr


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("{id: r, effect: allow, subjects: {groups: [ds]}, models: [lama]}", "unknown_model"),
        ("{id: r, effect: allow, subjects: {groups: [ds]}, models: [small]}", "unknown_model"),
        ("{id: r, effect: allow, subjects: {users: [ann], issuers: [corp]}, models: [llama]}", "unknown_issuer"),
        ("{id: r, effect: allow, subjects: {groups: [others]}, models: [llama]}", "unknown_group"),
        ("{id: r, effect: allow, subjects: {users: [ann]}, models: [llama], versions: ['1']}", "versions_unseen"),
        ("{id: r, effect: deny, subjects: {groups: [left]}, models: [llama], operations: [admin]}", "unreachable"),
        ("{id: r, effect: allow, subjects: {groups: [left], not_groups: [left]}, models: [llama]}", "never_holds"),
        ("{id: r, effect: allow, subjects: {groups: [DS-]}, models: [llama]}", "misspelt_name"),
    ],
)
def test_what_does_not_fit_is_found(folder: Path, rule: str, code: str) -> None:
    write(folder, rule)
    assert (code, "r") in codes(folder)


def test_pools_and_models_that_nobody_may_use_are_found(folder: Path) -> None:
    """A rule that only shows their metrics does not let anybody use them."""
    text = CONFIG.replace("models: [{name: llama, aliases: [small]}]", "models: [{name: llama}, {name: big}]")
    text += (
        "  - {name: other, protocols: [kserve], models: [{name: resnet}], backends: [{url: 'http://127.0.0.1:1'}]}\n"
    )
    (folder / "gateway.yaml").write_text(text)
    write(folder, "{id: look, effect: allow, subjects: {groups: [left]}, models: ['*'], operations: [metrics]}")
    assert codes(folder) == [("unopened_model", None), ("unopened_pool", None)]
    write(
        folder,
        "{id: capped, effect: allow, subjects: {groups: [left]}, models: [resnet], limits: {max_tokens: 5}}",
        "{id: big, effect: allow, subjects: {groups: [left]}, models: [big], limits: {max_tokens: 5}}",
        "{id: near, effect: allow, subjects: {groups: [ds]}, models: [resnet], limits: {remote_media: false}}",
        "{id: small, effect: allow, subjects: {users: [ann]}, models: [resnet], limits: {input: 5KiB}}",
    )
    assert codes(folder) == [("caps_unseen", "capped"), ("caps_unseen", "near")]


def test_groups_of_keys_are_not_judged_where_the_keys_are_kept_elsewhere(folder: Path) -> None:
    (folder / "api_keys.yaml").unlink()
    write(folder, "{id: r, effect: allow, subjects: {groups: [others]}, models: [llama]}")
    assert codes(folder) == []


def test_a_group_is_judged_by_what_its_provider_may_give(folder: Path) -> None:
    corp = (
        "oidc: [{name: corp, issuer: 'https://idp.test', audience: [gw], group_prefix: 'c:', "
        "group_map: {'c:/ml': science}, groups_allowed: ['c:*', science]}]"
    )
    (folder / "gateway.yaml").write_text(CONFIG.replace("{api_keys: {file: api_keys.yaml}}", f"{{{corp}}}"))
    rules = [f"{{id: {n}, effect: allow, subjects: {{groups: ['{group}']}}, models: [llama]}}" for n, group in
             (("a", "c:ds"), ("b", "science"), ("c", "c:/ml"), ("d", "c:x/y"))]  # fmt: skip
    write(folder, *rules)
    assert codes(folder) == [("unknown_group", "chat"), ("unknown_group", "c"), ("unknown_group", "d")]


def test_overlaps_are_told_to_those_who_ask(folder: Path) -> None:
    write(folder, "{id: out, effect: deny, subjects: {groups: [left]}, models: ['**']}")
    assert codes(folder) == []
    assert codes(folder, "--overlaps") == [("overlap", "out")]


def test_a_bad_file_ends_with_2(folder: Path) -> None:
    (folder / "gateway.yaml").write_text(CONFIG.replace("openai", "opnai"))
    done = policy("lint", "--config", "gateway.yaml", at=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (told,) = done.stderr.splitlines()
    assert told.startswith("gateway.yaml:6:17: unknown protocol; expected one of: openai, ")
