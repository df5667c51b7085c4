"""A policy file is taken whole and as it is meant, or refused with all that is wrong with it, each at its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.config.mistakes import Mistakes
from gateway.config.yamltext import LARGEST
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule
from tests.policy.files import one, put, wrong

GOOD = """\
version: 1
rules:
  - id: ds-chat
    description: Data science may chat
    effect: allow
    subjects: {groups: [data-science], users: [], clients: [], issuers: [corp]}
    models: ["meta/llama-3.1-8b-instruct", "nvidia/*"]
    operations: [infer, stream]
    versions: ["1"]
  - id: no-interns
    effect: deny
    subjects: {groups: [interns]}
    models: ["*"]
"""

RULE = "- {{id: {id}, effect: allow, subjects: {{users: [ann]}}, models: [m]}}\n"


def test_a_file_becomes_rules_with_their_places(tmp_path: Path) -> None:
    chat, interns = load(put(tmp_path, a=GOOD))
    file = str(tmp_path / "a.yaml")
    assert chat == Rule(
        id="ds-chat",
        file=file,
        line=3,
        effect=Effect.ALLOW,
        models=("meta/llama-3.1-8b-instruct", "nvidia/*"),
        groups=frozenset({"data-science"}),
        issuers=frozenset({"corp"}),
        operations=frozenset({Operation.INFER, Operation.STREAM}),
        explicit_operations=frozenset({Operation.INFER, Operation.STREAM}),
        versions=frozenset({"1"}),
    )
    assert interns == Rule("no-interns", file, 10, Effect.DENY, ("*",), groups=frozenset({"interns"}))
    assert (interns.operations, interns.explicit_operations) == (DEFAULT_OPERATIONS, frozenset())


def test_what_was_read_decides(tmp_path: Path) -> None:
    policy = Policy(load(put(tmp_path, a=GOOD)))
    ann = Principal("ann", "https://idp.test", "corp", frozenset({"data-science"}))
    grant = policy.authorize(ann, ModelRef("nvidia/nv-embed", Operation.INFER, version="1"))
    assert (grant.rule, grant.place) == ("ds-chat", f"{tmp_path}/a.yaml:3")


class TestWhichFilesAreRead:
    def test_the_yaml_files_of_a_folder_in_the_order_of_their_names(self, tmp_path: Path) -> None:
        put(tmp_path, b=one(id="second"), a=one(id="first"), B=one(id="capital"))
        assert [rule.id for rule in load(tmp_path)] == ["capital", "first", "second"]

    def test_nothing_else_in_the_folder(self, tmp_path: Path) -> None:
        put(tmp_path, a=one())
        for name in ("b.yml", "c.yaml.bak", ".hidden.yaml", ".d.yaml.swp", "README.md", "yaml"):
            (tmp_path / name).write_text("not: [a, policy")
        for name in ("tests", "folder.yaml", "..2026_a"):
            (tmp_path / name).mkdir()
            put(tmp_path / name, x="not: [a, policy")
        assert [rule.id for rule in load(tmp_path)] == ["r"]

    def test_one_file_of_any_name(self, tmp_path: Path) -> None:
        file = tmp_path / "policy.conf"
        file.write_text(one())
        assert [rule.file for rule in load(file)] == [str(file)]

    def test_a_kubernetes_volume_with_its_links(self, tmp_path: Path) -> None:
        """B094: the files are links into a hidden folder, which is itself reached through a link."""
        for generation in ("..2026_a", "..2026_b"):
            (tmp_path / generation).mkdir()
            put(tmp_path / generation, policy=one(id=generation.strip(".")))
        data = tmp_path / "..data"
        data.symlink_to("..2026_a")
        (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
        assert [(rule.id, rule.place) for rule in load(tmp_path)] == [("2026_a", f"{tmp_path}/policy.yaml:3")]
        data.unlink()
        data.symlink_to("..2026_b")
        assert [rule.id for rule in load(tmp_path)] == ["2026_b"]

    @pytest.mark.parametrize("name", ["missing", "missing.yaml"])
    def test_what_is_not_there_is_refused(self, tmp_path: Path, name: str) -> None:
        assert wrong(tmp_path / name) == [f"{name}:1:1: cannot be read: No such file or directory"]

    def test_a_folder_without_policies_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "policy.yml").write_text(one())
        assert wrong(tmp_path)[0].endswith(
            ":1:1: no policy in this folder: it needs a file '*.yaml' with at least one rule"
        )

    def test_a_dangling_link_is_refused_and_not_passed_over(self, tmp_path: Path) -> None:
        put(tmp_path, a=one())
        (tmp_path / "b.yaml").symlink_to("..data/b.yaml")
        assert wrong(tmp_path) == ["b.yaml:1:1: cannot be read: No such file or directory"]

    def test_a_pipe_is_refused_without_waiting_for_its_other_end(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.yaml")
        assert wrong(tmp_path) == ["a.yaml:1:1: not a file"]

    def test_a_file_beyond_the_bound_is_refused(self, tmp_path: Path) -> None:
        put(tmp_path, a=one() + "# \n" * (LARGEST // 3))
        assert "larger than" in wrong(tmp_path)[0]

    def test_more_rules_than_can_be_held_are_refused(self, tmp_path: Path) -> None:
        for file in range(3):
            rules = "".join(RULE.format(id=f"r{file}-{number}") for number in range(3_500))
            put(tmp_path, **{f"f{file}": f"version: 1\nrules:\n{rules}"})
        assert wrong(tmp_path)[0].endswith(":1:1: more than 10000 rules")


def test_every_mistake_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    put(
        tmp_path,
        a=one(effect="alow", id='"-x"', models="[]"),
        b="rules: [",
        c=one(id="twice"),
        d=one(subjects="{group: [g]}", operations="[infer, chat]").replace("id: r", "id: twice"),
    )
    told = wrong(tmp_path)
    assert [line.split(": ")[0] for line in told] == [
        "a.yaml:3:5",
        "a.yaml:4:5",
        "a.yaml:6:5",
        "b.yaml:2:1",
        "d.yaml:3:5",
        "d.yaml:5:16",
        "d.yaml:7:25",
    ]
    assert told[4].endswith(f"this id is taken: the rule at {tmp_path}/c.yaml:3 has it".replace(f"{tmp_path}/", ""))


@pytest.mark.parametrize(("name", "shown"), [(b"\xff.yaml", "\\udcff.yaml"), (b"a\nb.yaml", "a\\nb.yaml")])
def test_a_file_whose_name_is_no_text_is_a_mistake_of_one_line_that_names_it(
    tmp_path: Path, name: bytes, shown: str
) -> None:
    put(tmp_path, good=one())
    with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
        file.write(b"version: 1\nrules: 3\n")
    with pytest.raises(Mistakes) as caught:
        load(tmp_path)
    assert all(str(mistake).startswith(f"{tmp_path}/{shown}:") for mistake in caught.value.mistakes)
    str(caught.value).encode()


def test_a_file_cut_at_any_byte_is_refused_or_says_less_but_never_something_else(tmp_path: Path) -> None:
    """B095: half a file can be valid YAML. No rule may come out of it that is not in the whole."""
    whole = load(put(tmp_path, a=GOOD))
    for length in range(len(GOOD)):
        put(tmp_path, a=GOOD[:length])
        try:
            part = load(tmp_path)
        except Mistakes:
            continue
        assert part[0] == whole[0] or length < GOOD.index("  - id: no-interns")


# Any tree that YAML can hold, with the words of the language in it so that it gets past the first check.
WORDS = st.sampled_from(
    [
        "id",
        "effect",
        "subjects",
        "models",
        "operations",
        "versions",
        "when",
        "from",
        "limits",
        "allow",
        "groups",
        "users",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | WORDS | st.text(max_size=4)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES, st.dictionaries(WORDS, TREES, max_size=6))
def test_whatever_stands_in_a_file_only_mistakes_come_out(tmp_path: Path, tree: Any, rule: dict[str, Any]) -> None:
    """JSON is YAML, so any tree can be written. None of these has every setting that a rule needs."""
    for data in (tree, {"version": 1, "rules": tree}, {"version": 1, "rules": [rule | {"effect": "maybe"}]}):
        assert wrong(put(tmp_path, a=json.dumps(data)))
