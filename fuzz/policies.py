"""Policy files: what is taken means what another YAML reader sees in it, and grants nothing that does not stand there.

An input is the text of one file.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from fuzz.material import Untold
from gateway.call import ModelRef, Operation, Principal
from gateway.config import yamlfile
from gateway.config.mistakes import MOST, Mistakes
from gateway.policy.conditions import DAY, DAYS
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.rules import DEFAULT_OPERATIONS, Rule
from tests.policy.reference import Where, answer, verdict

#: What is asked of every policy that was taken, besides what its own rules name.
MODELS = ("m", "meta/llama", "a/b/c")
VERSIONS = (None, "", "1", "01")
AT = 1_796_126_400.0  # a Tuesday, noon in UTC

KINDS = ("users", "groups", "clients", "issuers", "scopes", "not_groups")
LIMITS = ("max_tokens", "n", "best_of", "logprobs", "prompts", "images", "tools")
KEYS = {
    *("id", "description", "effect", "subjects", "models", "operations", "versions"),
    *("when", "from", "limits", "engine_fields"),
}
STRANGER = Principal("nobody\n", "https://elsewhere.test", "elsewhere\n")

#: What we take and the reader written in Python does not: its words, what stands in the text, why it does no harm.
WE_TAKE: tuple[tuple[str, bytes, str], ...] = (
    ("expected ", rb"[^\s,[{]\?", "a '?' within a text in brackets; YAML 1.2.2 section 7.3.3 allows it"),
)

WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}

ANSWERS = {
    "allowed": {"Grant"},
    "denied": {"Forbidden", "NotFound", "UnknownModel"},
    "denied by name": {"Forbidden", "RouteForbidden", "NotFound", "UnknownModel"},
    "nothing": {"Forbidden", "NotFound", "UnknownModel"},
    "groups": {"GroupsUnknown"},
}


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    alike = _read_alike(data)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.yaml"
        file.write_bytes(data)
        try:
            rules = load(file)
        except Mistakes as mistakes:
            _check_mistakes(mistakes, data)
            return
    if not alike:
        return
    entries = yaml.load(data, Loader=yaml.BaseLoader)["rules"]  # noqa: S506  it makes nothing but text
    assert len(rules) == len(entries) > 0
    for rule, entry in zip(rules, entries, strict=True):
        _check_rule(rule, entry)
    _check_decisions(rules)


def _check_mistakes(mistakes: Mistakes, data: bytes) -> None:
    """Each stands at a place of the file."""
    lines = data.count(b"\n") + data.count(b"\r") + 1
    assert len(mistakes.mistakes) > 0
    for mistake in mistakes.mistakes:
        assert 1 <= mistake.line <= lines + 1, mistake
        assert mistake.column >= 1, mistake


def _read_alike(data: bytes) -> bool:
    """Whatever is taken as YAML has the shape and the texts that the reader in Python finds; False: that takes less."""
    try:
        document = yamlfile.read(data, "f")
    except Mistakes as mistakes:
        assert len(mistakes.mistakes) <= MOST + 2
        return False
    try:
        theirs = yaml.load(data, Loader=yaml.BaseLoader)  # noqa: S506  it makes nothing but text
    except yaml.YAMLError as refused:
        if any(words in str(refused) and re.search(text, data) for words, text, _ in WE_TAKE):
            return False
        raise Untold(f"only we take this: {refused}") from refused
    _check_same(document.data, theirs)
    return True


def _check_same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key, value in ours.items():
            _check_same(value, theirs[key])
    elif isinstance(ours, list):
        assert isinstance(theirs, list)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            _check_same(one, other)
    elif isinstance(ours, str):
        assert ours == theirs
    elif ours is None or isinstance(ours, bool):
        assert WORDS[theirs] is ours
    else:
        assert type(ours)(theirs) == ours


def _check_rule(rule: Rule, entry: dict[str, Any]) -> None:
    """Nothing is in the rule that is not in the file, and nothing is left out."""
    subjects = entry["subjects"]
    assert (rule.id, rule.effect.value) == (entry["id"], entry["effect"])
    assert rule.models == tuple(entry["models"])
    for kind in KINDS:
        assert getattr(rule, kind) == frozenset(subjects.get(kind, ())), kind
    written = frozenset(entry.get("operations", ()))
    assert rule.explicit_operations == written
    assert rule.operations == (written or DEFAULT_OPERATIONS)
    assert rule.versions == frozenset(entry.get("versions", ()))
    _check_conditions(rule, entry)
    limits = entry.get("limits", {})
    for name in LIMITS:
        assert getattr(rule.terms, name) == (int(limits[name]) if name in limits else None), name
    assert rule.terms.engine_fields == frozenset(entry.get("engine_fields", ()))
    assert rule.terms.clamp is (limits.get("on_excess") == "clamp")
    assert set(limits) <= {*LIMITS, "input", "remote_media", "on_excess"}
    assert set(subjects) <= set(KINDS)
    assert set(entry) <= KEYS


def _check_conditions(rule: Rule, entry: dict[str, Any]) -> None:
    """When and from where the rule holds is what stands there."""
    assert [ip_network(text) for text in entry.get("from", ())] == list(rule.networks)
    when = entry.get("when")
    if when is None:
        assert rule.window is None
        return
    assert rule.window is not None
    assert rule.window.zone == when["timezone"]
    assert {DAYS[day] for day in rule.window.days} == set(when.get("days", DAYS))
    begin, _, end = when.get("hours", "00:00-00:00").partition("-")
    for minute, text in ((rule.window.begin, begin), (rule.window.end, end)):
        assert f"{minute % DAY // 60:02}:{minute % 60:02}" == text
    assert set(when) <= {"timezone", "days", "hours"}


def _check_decisions(rules: tuple[Rule, ...]) -> None:
    """The first rules and a stranger, against the semantics told rule by rule."""
    policy = Policy(rules)
    for rule in rules[:3]:
        named = next((name for name in rule.models if "*" not in name), "m")
        callers = [
            STRANGER,
            Principal(
                next(iter(sorted(rule.users)), "u"),
                "https://idp.test",
                next(iter(sorted(rule.issuers)), "corp"),
                frozenset(sorted(rule.groups)[:2]),
                client=next(iter(sorted(rule.clients)), None),
                scopes=frozenset(sorted(rule.scopes)[:1]),
            ),
        ]
        asked = (
            ModelRef(model, operation, version)
            for model in (*MODELS, named)
            for operation in (Operation.INFER, Operation.HEALTH, Operation.ADMIN)
            for version in VERSIONS
        )
        inside = str(rule.networks[0][-1]) if rule.networks else "192.0.2.1"
        for model in asked:
            for caller in callers:
                for where in (None, (AT, inside), (AT, None)):
                    _check_decision(policy, rules, caller, model, where)


def _check_decision(
    policy: Policy, rules: tuple[Rule, ...], caller: Principal, model: ModelRef, where: Where | None
) -> None:
    said = verdict(rules, caller, model, where)
    assert answer(policy, caller, model, where) in ANSWERS[said], (said, caller, model, where)
    if caller is STRANGER:
        assert said != "allowed"
