"""The JSON Schemas for editors: whatever the gateway takes, they take, and they are those of the types."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.config import checks, shape
from gateway.config.load import _spread
from gateway.config.mistakes import Mistakes
from gateway.config.part import Part
from gateway.config.secrets import filled
from gateway.config.typed import validate
from gateway.config.yamlfile import Document, read
from gateway.policy.files import _rules
from gateway.policy.rules import Rule
from tests.config.conftest import MINIMAL
from tests.config.test_docs import documented
from tests.policy.bad_files import BAD, GOOD
from tests.policy.reference import some_rules
from tests.policy.written import written

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "config" / "schema"
EXAMPLES = [ROOT / "config" / "gateway.yaml", *sorted((ROOT / "config" / "policies").rglob("*.yaml"))]
PAGES = [(ROOT / "docs" / name).read_text() for name in ("policies.md", "caps.md", "policy-tools.md")]
BLOCKS = re.findall(r"```yaml(?: lesson)?\n(.*?)```", "".join(PAGES), re.DOTALL)
CONFIGURATION = Draft202012Validator(json.loads((SCHEMAS / "gateway.schema.json").read_text()))
POLICIES = Draft202012Validator(json.loads((SCHEMAS / "policies.schema.json").read_text()))
#: Stands for the environment in which every variable is set to a number.
ENVIRONMENT = {"PORT": "8443", "NAME": "corp", "NOTHING": "null", "SWITCH": "true"}

FULL = yaml.safe_load((ROOT / "config" / "gateway.yaml").read_text())
RULE = {
    "id": "a", "effect": "allow", "description": "x", "models": ["*"], "operations": ["infer"], "versions": ["1"],
    "subjects": {"groups": ["g"], "users": ["u"], "not_groups": ["n"], "scopes": ["s"]},
    "when": {"days": ["mon"], "hours": "08:00-20:00", "timezone": "Europe/Madrid"}, "from": ["10.0.0.0/8"],
    "limits": {"max_tokens": 5, "input": "1MiB", "on_excess": "clamp"}, "engine_fields": ["priority"],
}  # fmt: skip
WHOLE = {"version": 1, "rules": [RULE, {"id": "b", "effect": "deny", "subjects": {"users": ["u"]}, "models": ["m"]}]}

#: What may stand anywhere, to see who takes it where.
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**6, 1.5, "", "x", "5s", "64MiB", "1", "auto", "jwt", "RS256", "allow", "/x",
    "10.0.0.0/8", "https://a.example", "${PORT}", "${NAME}", "${NOTHING}", "${SWITCH}", "a${NAME}b", [], ["x"], [1], {},
    {"file": "x"}, {"env": "X"}, {"x": "y"}, "a\nb", " x", "*", "!x", "mon", "infer", "localhost", "fe80::1%eth0", "::",
]  # fmt: skip


class Dumper(yaml.SafeDumper):
    """Writes each value where it stands, and variables without quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def document(data: Any) -> Document:
    return read(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True).encode(), "f.yaml")


def loader_takes(data: Any) -> bool:
    """Whether a configuration is read without a mistake, its files aside."""
    try:
        found = document(data)
        fill = filled(found, ENVIRONMENT, Path("/nowhere"))
        missing = [finding for finding in fill.findings if "this secret" not in finding.message]
        file = Part(_spread(fill.data))
        validate(replace(found, data=file.value), shape.File)
    except Mistakes:
        return False
    return not missing and not list(checks.findings(file))


def policy_takes(data: Any) -> bool:
    try:
        return bool(_rules(document(data), {}))
    except Mistakes:
        return False


def ways(data: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in a document."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [before, *(way for key, value in inner for way in ways(value, (*before, key)))]


@st.composite
def changed(draw: st.DrawFn, data: Any) -> Any:
    """`data` with one or two places changed, added or taken away."""
    found = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 2))):
        way = draw(st.sampled_from([way for way in ways(found) if way]))
        holder = found
        for step in way[:-1]:
            holder = holder[step]
        if draw(st.booleans()):
            holder[way[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
        else:
            del holder[way[-1]]
    return found


def test_the_schemas_are_those_of_the_types() -> None:
    command = [sys.executable, str(SCHEMAS / "make.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize("schema", [CONFIGURATION, POLICIES])
def test_a_schema_is_one_that_editors_read(schema: Any) -> None:
    Draft202012Validator.check_schema(schema.schema)
    patterns = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(schema.schema))
    assert patterns
    # ECMA 262 knows neither named groups of this form nor these anchors, nor an escape of what needs none.
    assert [pattern for pattern in patterns if re.search(r'\(\?P|\\\\[AZz"-]', pattern)] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_names_its_schema_and_is_taken_by_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named is not None
    schema = json.loads((path.parent / named[1]).read_text())
    data = read(path.read_bytes(), path.name).data
    assert [error.message for error in Draft202012Validator(schema).iter_errors(data)] == []


@pytest.mark.parametrize("text", [GOOD, *BLOCKS])
def test_a_policy_of_the_pages_is_taken(text: str) -> None:
    assert [error.message for error in POLICIES.iter_errors(yaml.safe_load(text))] == []


@pytest.mark.parametrize("name", documented())
def test_each_documented_example_of_a_setting_is_taken(name: str) -> None:
    data: Any = copy.deepcopy(FULL)
    data["policies"] = {"enforce": "policies"}
    holder = data
    *steps, last = name.split(".")
    for step in steps:
        plain = step.removesuffix("[]")
        inner = holder.setdefault(plain, [{}] if step != plain else {})
        holder = inner[0] if step != plain else inner
    holder[last] = yaml.safe_load(documented()[name].example)
    wrong = [error for error in CONFIGURATION.iter_errors(data) if last in error.absolute_path]
    assert [error.message for error in wrong] == []


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("listen", "adress"), "::"),
        (("listen", "port"), "8443"),
        (("listen", "port"), 0),
        (("listen", "max_body"), 64),
        (("listen", "max_body"), "64MB"),
        (("limits", "timeouts", "idle"), "60"),
        (("listen", "trusted_proxies"), "10.0.0.0/8"),
        (("listen", "trusted_proxies"), ["10.0.0.0/8 "]),
        (("pools", 0, "balance"), "random"),
        (("pools", 0, "protocols"), []),
        (("pools", 0, "protocols"), ["http"]),
        (("pools", 0, "backends", 0, "url"), "10.0.0.1:8000"),
        (("pools", 0, "credential", "value"), "Bearer abc"),
        (("identity", "oidc", 0, "algorithms"), ["HS256"]),
        (("identity", "ldap", 0, "bind", "password"), "secret"),
        (("identity", "ldap", 0, "servers"), ["ldap1"]),
        (("hide_models",), "no"),
        (("pools",), None),
        (("policies",), {"shadow": "x"}),
    ],
)
def test_what_is_wrong_with_a_configuration_is_shown_while_it_is_written(way: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(FULL)
    holder = data
    for step in way[:-1]:
        holder = holder[step]
    holder[way[-1]] = value
    assert loader_takes(FULL)
    assert not loader_takes(data)
    assert not CONFIGURATION.is_valid(data)


@pytest.mark.parametrize(
    "change",
    [
        {"effekt": "allow"}, {"effect": "permit"}, {"id": "a b"}, {"id": 7}, {"models": []}, {"models": "m"},
        {"subjects": {}}, {"subjects": {"scopes": ["s"]}}, {"subjects": {"groups": ["!g"]}},
        {"subjects": {"groups": []}},
        {"subjects": {"groups": ["*"]}}, {"subjects": {"groups": [7]}}, {"versions": [1]}, {"versions": ["01"]},
        {"operations": ["run"]}, {"when": {"timezone": "UTC"}}, {"when": {"days": ["monday"], "timezone": "UTC"}},
        {"when": {"hours": "8-20", "timezone": "UTC"}}, {"from": ["home"]}, {"limits": {}},
        {"limits": {"max_tokens": 0}}, {"limits": {"max_tokens": "5"}}, {"limits": {"concurrent": 5}},
        {"limits": {"n": 1, "on_excess": "drop"}}, {"limits": {"input": 5}}, {"engine_fields": ["temperature"]},
        {"effect": "deny"}, {"limits": None}, {"when": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_shown_while_it_is_written(change: dict[str, Any]) -> None:
    data = {"version": 1, "rules": [RULE | change]}
    assert policy_takes(WHOLE)
    assert not policy_takes(data)
    assert not POLICIES.is_valid(data)


def test_of_the_bad_policies_the_schema_takes_those_only_whose_mistake_is_no_matter_of_form() -> None:
    taken = set()
    for name, bad in BAD.items():
        try:
            data = yaml.safe_load(bad.text)
            if POLICIES.is_valid(data):
                taken.add(name)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
            continue
    assert "numbers as groups" not in taken
    assert len(taken) < len(BAD) / 2, sorted(taken)


@given(some_rules.filter(bool), st.booleans())
def test_whatever_rules_say_is_taken(rules: list[Rule], braces: bool) -> None:
    data = yaml.safe_load(written(rules, braces=braces))
    assert [error.message for error in POLICIES.iter_errors(data)] == []


@given(changed(WHOLE))
def test_a_policy_that_the_gateway_takes_is_taken_by_its_schema(data: Any) -> None:
    if policy_takes(data):
        assert [error.message for error in POLICIES.iter_errors(data)] == []


@given(changed(FULL) | changed(yaml.safe_load(MINIMAL)))
def test_a_configuration_that_the_gateway_takes_is_taken_by_its_schema(data: Any) -> None:
    if loader_takes(data):
        assert [error.message for error in CONFIGURATION.iter_errors(data)] == []
