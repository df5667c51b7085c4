"""`nim-gateway policy test` holds policies against their cases, for people, for programs and for every CI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.cli.policy.junit import junit
from gateway.policy.cases import Case
from gateway.policy.trial import Tried
from tests.parts.process import ROOT

RULES = """\
version: 1
rules:
  - {id: chat, effect: allow, subjects: {groups: [ds]}, models: [llama]}
  - {id: out, effect: deny, subjects: {groups: [left]}, models: ["**"]}
"""
CASES = """\
version: 1
cases:
  - {name: ds chats, subject: {groups: [ds]}, model: llama, expect: allow, rule: chat}
  - {name: who left does not, subject: {groups: [ds, left]}, model: llama, expect: deny, rule: out}
"""
WRONG = "  - {name: strangers chat, subject: {user: bob}, model: llama, expect: allow, rule: chat}\n"

CONFIG = """\
listen: {tls: {certificate: certs/tls.crt, key: certs/tls.key}}
identity: {api_keys: {file: api_keys.yaml}}
policies: policies
pools:
  - name: nim
    protocols: [openai]
    models: [{name: llama, aliases: [small]}]
    backends: [{url: "http://127.0.0.1:1"}]
    credential: {header: Authorization, value: {file: secret}}
"""


def policy(*words: str | Path, at: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gateway", "policy", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(line, cwd=at, env=environment, check=False, capture_output=True, text=True, timeout=60)


def parsed(xml: bytes) -> ET.Element:
    return ET.fromstring(xml)  # noqa: S314  it is our own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Policies with their cases, without anything else."""
    (tmp_path / "policies" / "tests").mkdir(parents=True)
    (tmp_path / "policies" / "rules.yaml").write_text(RULES)
    (tmp_path / "policies" / "tests" / "cases.yaml").write_text(CASES)
    return tmp_path


def add(folder: Path, text: str) -> None:
    with (folder / "policies" / "tests" / "cases.yaml").open("a") as file:
        file.write(text)


def test_each_case_is_a_line_and_the_last_line_counts_them(folder: Path) -> None:
    done = policy("test", "--policies", "policies", at=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "ok    ds chats",
        "ok    who left does not",
        "2 cases: 2 passed, 0 failed; 2 of 2 rules covered (100 %)",
    ]


def test_a_case_that_fails_is_told_with_its_place_and_ends_with_1(folder: Path) -> None:
    add(folder, WRONG)
    done = policy("test", "--policies", "policies/rules.yaml", at=folder)
    assert done.returncode == 1
    assert done.stdout.splitlines()[2:] == [
        "FAIL  strangers chat: expected allow by chat, got deny: no rule allows it (policies/tests/cases.yaml:5)",
        "3 cases: 2 passed, 1 failed; 2 of 2 rules covered (100 %)",
    ]


def test_rules_without_a_case_are_named_and_fail_where_coverage_is_required(folder: Path) -> None:
    cases = folder / "policies" / "tests" / "cases.yaml"
    cases.write_text("".join(CASES.splitlines(keepends=True)[:3]))
    done = policy("test", "--policies", "policies", at=folder)
    assert done.returncode == 0
    assert "not covered: rule out (policies/rules.yaml:4)" in done.stdout.splitlines()
    assert policy("test", "--policies", "policies", "--require-coverage", "50%", at=folder).returncode == 0
    done = policy("test", "--policies", "policies", "--require-coverage", "100", "--junit", "out.xml", at=folder)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "FAIL  50 % of the rules are covered, 100 % are required"
    root = parsed((folder / "out.xml").read_bytes())
    assert root.get("failures") == "1"
    (failure,) = root.iter("failure")
    assert failure.get("message", "").endswith("100 % are required; not covered: out (policies/rules.yaml:4)")
    done = policy("test", "--policies", "policies", "--require-coverage", "100", "--json", at=folder)
    told = json.loads(done.stdout)["coverage"]
    assert (done.returncode, told["percent"], told["required"], told["enough"]) == (1, 50, 100, False)


def test_programs_get_the_same_as_json_and_as_junit(folder: Path) -> None:
    add(folder, WRONG)
    done = policy("test", "--policies", "policies", "--json", "--junit", "out.xml", at=folder)
    told = json.loads(done.stdout)
    assert (done.returncode, told["passed"], told["failed"]) == (1, 2, 1)
    assert told["coverage"] == {"percent": 100.0, "required": None, "enough": True, "rules": 2, "uncovered": []}
    assert told["cases"][0] == {
        "name": "ds chats",
        "file": "policies/tests/cases.yaml",
        "line": 3,
        "passed": True,
        "model": "llama",
        "asked_model": None,
        "expected": {"decision": "allow", "rule": "chat"},
        "decision": "allow",
        "rule": {"id": "chat", "file": "policies/rules.yaml", "line": 3},
        "reason": "allow by chat at policies/rules.yaml:3",
    }
    assert told["cases"][2]["rule"] is None
    root = parsed((folder / "out.xml").read_bytes())
    assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "3", "1")
    assert [case.get("name") for case in root.iter("testcase")] == ["ds chats", "who left does not", "strangers chat"]
    (failure,) = root.iter("failure")
    assert failure.get("message", "").startswith("expected allow by chat, got deny")


def test_with_a_configuration_aliases_are_names_and_models_nobody_serves_are_a_warning(folder: Path) -> None:
    """Neither its certificates nor its secrets need to be there."""
    (folder / "gateway.yaml").write_text(CONFIG)
    add(folder, "  - {name: small is llama, subject: {groups: [ds]}, model: small, expect: allow}\n")
    for name in ("no such", "again", "and again"):
        add(folder, f"  - {{name: {name}, subject: {{groups: [ds]}}, model: lama, expect: deny}}\n")
    done = policy("test", "--config", "gateway.yaml", at=folder)
    assert done.returncode == 0, done.stdout
    assert done.stderr.splitlines() == [
        "warning: policies/tests/cases.yaml:6: no such and 2 more cases: no model of the configuration is called 'lama'"
    ]


def test_the_files_that_are_given_are_tried_and_no_others(folder: Path) -> None:
    (folder / "more.yaml").write_text(f"version: 1\ncases:\n{WRONG}")
    done = policy("test", "--policies", "policies", "more.yaml", at=folder)
    assert done.stdout.startswith("FAIL  strangers chat: ")
    assert "1 case: 0 passed, 1 failed" in done.stdout


def test_where_there_are_no_cases_it_is_said_where_to_write_them(folder: Path) -> None:
    shutil.rmtree(folder / "policies" / "tests")
    done = policy("test", "--policies", "policies", at=folder)
    told = "nim-gateway: there are no cases: write them in policies/tests/*.yaml, or name a file\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


def test_cases_are_not_taken_for_a_policy(folder: Path) -> None:
    done = policy("test", "--policies", "policies/tests", at=folder)
    told = "policies/tests/cases.yaml:2:1: these are cases, for `policy test FILE`; a policy has rules\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policies", "gone"], "gone:1:1: cannot be read: No such file or directory"),
        (["--policies", "policies", "gone.yaml"], "gone.yaml:1:1: cannot be read: No such file or directory"),
        ([], "config/gateway.yaml:1:1: cannot be read: No such file or directory"),
        (["--policies", "policies", "--root", "gone"], "nim-gateway: --root gone is not a folder"),
        (["--policies", "policies", "--junit", "no/where.xml"], "nim-gateway: no/where.xml: No such file or directory"),
    ],
)
def test_a_bad_call_or_file_is_one_line_and_ends_with_2(folder: Path, words: list[str], said: str) -> None:
    done = policy("test", *words, at=folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_a_share_that_is_none_is_a_bad_call(folder: Path) -> None:
    done = policy("test", "--policies", "policies", "--require-coverage", "all", at=folder)
    assert done.returncode == 2
    assert "expected a number from 0 to 100" in done.stderr


@given(st.text(max_size=40), st.text(max_size=40))
def test_junit_is_xml_whatever_a_case_is_called(name: str, wrong: str) -> None:
    case = Case(name, name, 3, Principal("", "", ""), ModelRef("m", Operation.INFER), allowed=True)
    root = parsed(junit([Tried(case, None, wrong)], ""))
    assert root.get("failures") == ("1" if wrong else "0")
    assert len(list(root.iter("testcase"))) == 1
