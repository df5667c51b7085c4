"""`nim-gateway policy diff` says whose calls a new version of the policies decides otherwise."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.__main__ import main
from gateway.call import ModelRef, Operation, Principal
from gateway.policy.asked import Asked
from gateway.policy.engine import Policy
from gateway.policy.files import read
from gateway.policy.history import keep
from tests.policy.test_replay import line

ANYBODY = Principal("", "https://idp.test", "corp")

CHAT = {"id": "chat", "effect": "allow", "subjects": {"groups": ["ds"]}, "models": ["meta/llama"]}
NO_INTERNS = {"id": "no-interns", "effect": "deny", "subjects": {"groups": ["interns"]}, "models": ["meta/llama"]}
MORE = {
    "id": "more",
    "effect": "allow",
    "subjects": {"users": ["ann"]},
    "models": ["nvidia/*"],
    "operations": ["infer"],
}


def policies(folder: Path, *rules: dict[str, Any]) -> Path:
    """A folder of one file."""
    folder.mkdir()
    file = json.loads(json.dumps({"version": 1, "rules": rules}))  # nothing stands in it twice
    (folder / "p.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
    return folder


def diff(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "policy", "diff", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return policies(tmp_path / "old", CHAT, NO_INTERNS)


def test_who_is_newly_allowed_is_told_first_with_the_rules_that_decide(old: Path, tmp_path: Path) -> None:
    new = policies(tmp_path / "new", NO_INTERNS, MORE)
    done = diff(old, new)
    assert done.returncode == 1, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "Newly allowed: 1"
    assert lines.index("Newly allowed: 1") < lines.index("user ann") < lines.index("No longer allowed: 1")
    assert "before: denied, for no rule allows it" in lines
    place = next(rule.place for rule in read(new).rules if rule.id == "more")
    assert f"after:  allowed by more ({place})" in lines
    assert not done.stderr


def test_json_holds_one_entry_for_each_caller_model_and_operation(old: Path, tmp_path: Path) -> None:
    done = diff(old, policies(tmp_path / "new", CHAT, NO_INTERNS, MORE), "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [(one["operation"], one["before"], one["after"]) for one in found["changes"]] == [
        ("infer", "deny", "allow"),
        ("health", "deny", "allow"),
    ]
    infer = found["changes"][0]
    assert infer["subject"] == {"groups": [], "user": "ann"}
    assert infer["model"].startswith("nvidia/")
    assert infer["patterns"] == ["nvidia/*"]
    assert infer["rule_before"] is None
    assert infer["rule_after"]["id"] == "more"


def test_equal_policies_change_nothing(old: Path, tmp_path: Path) -> None:
    done = diff(old, policies(tmp_path / "new", NO_INTERNS, CHAT))
    assert (done.returncode, done.stdout) == (0, "nothing changes: both decide every call alike\n")
    assert json.loads(diff(old, old, "--json").stdout) == {"changes": [], "limits": []}


def test_a_pipeline_may_fail_on_grants_alone(old: Path, tmp_path: Path) -> None:
    less, wider = policies(tmp_path / "less", NO_INTERNS), policies(tmp_path / "wider", CHAT)
    assert diff(old, less, "--fail-on", "grant").returncode == 0
    assert diff(old, less).returncode == 1
    assert diff(old, wider, "--fail-on", "grant").returncode == 1


def test_wider_limits_count_as_a_grant_and_narrower_ones_do_not(tmp_path: Path) -> None:
    small, big = (policies(tmp_path / str(most), CHAT | {"limits": {"max_tokens": most}}) for most in (10, 20))
    done = diff(small, big, "--fail-on", "grant", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["changes"] == []
    assert (found["limits"][0]["before"], found["limits"][0]["after"]) == ([{"max_tokens": 10}], [{"max_tokens": 20}])
    assert diff(big, small, "--fail-on", "grant").returncode == 0


def rule(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "effect": "allow", "models": ["m"], "operations": ["infer"], **more}


TRAINEES = rule("t", subjects={"groups": ["trainees"]}, limits={"input": "4KiB", "remote_media": False})
OTHERS = {**TRAINEES, "effect": "deny", "subjects": {"issuers": ["corp"]}, "id": "corp"}
del OTHERS["limits"]
LAB = {**OTHERS, "subjects": {"issuers": ["lab"]}, "id": "lab"}
BY_LAB = rule("by-lab", subjects={"issuers": ["lab"]})
OFFICE = rule("o", subjects={"users": ["ann"]}, when={"days": ["mon"], "timezone": "Europe/Madrid"})


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([OTHERS], [OTHERS, TRAINEES], "group trainees, of any provider that no rule names"),
        ([OTHERS, LAB], [OTHERS, BY_LAB, TRAINEES], "group trainees, of any provider that no rule names"),
        ([OTHERS], [OTHERS, BY_LAB, TRAINEES], "everybody of provider lab"),
        ([OTHERS], [OTHERS, TRAINEES], "; t limits input: 4KiB, remote_media: false"),
        ([OTHERS, BY_LAB], [OTHERS, BY_LAB, OFFICE], "at times like mon "),
    ],
)
def test_an_entry_reads_like_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: list[Any], after: list[Any], told: str
) -> None:
    old, new = policies(tmp_path / "old", *before), policies(tmp_path / "new", *after)
    assert main(["policy", "diff", str(old), str(new)]) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(told in line for line in lines), lines


def test_a_provider_that_is_made_up_is_never_told_by_its_made_up_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it is one of several that no rule in question tells apart."""
    elsewhere = {**BY_LAB, "models": ["x"]}
    old, new = policies(tmp_path / "old", OTHERS, elsewhere), policies(tmp_path / "new", OTHERS, elsewhere, TRAINEES)
    main(["policy", "diff", str(old), str(new)])
    assert "group trainees, of provider lab or any that no rule names\n" in capsys.readouterr().out
    main(["policy", "diff", str(old), str(new), "--json"])
    (entry, *_) = json.loads(capsys.readouterr().out)["changes"]
    assert entry["subject"]["issuer"] == "lab"
    assert entry["stands_for"]["issuer"] == {"others": [], "any_unnamed": True}


def test_what_is_not_printed_is_counted(old: Path, tmp_path: Path) -> None:
    new = policies(tmp_path / "new", MORE)
    short = diff(old, new, "--limit", "1").stdout
    assert "more of these; --all shows them" in short
    assert "more of these" not in diff(old, new, "--all").stdout


def test_a_version_that_is_kept_is_found_by_its_digest(old: Path, tmp_path: Path) -> None:
    written = read(old)
    keep(tmp_path / "history", written, 5, lambda: written.digest)
    done = diff(written.digest, old, "--history", tmp_path / "history")
    assert done.returncode == 0, done.stderr
    assert diff("0" * 32, old, "--history", tmp_path / "history").returncode == 2


def test_of_the_calls_that_were_made_those_are_told_that_come_out_otherwise(old: Path, tmp_path: Path) -> None:
    new = policies(tmp_path / "new", NO_INTERNS, MORE)
    bob = replace(ANYBODY, subject="bob", groups=frozenset({"ds"}))
    asked = [(bob, "meta/llama")] * 3 + [(replace(ANYBODY, subject="ann"), "nvidia/x"), (bob, "nvidia/x")]
    written = read(old)
    by = Policy(written.rules, digest=written.digest)
    lines = [line(by, Asked(who, ModelRef(name, Operation.INFER), 1.0)) for who, name in asked]
    audit = tmp_path / "audit.log"
    audit.write_text("".join(json.dumps(one) + "\n" for one in lines) + "nonsense\n")

    done = diff(old, new, "--audit", audit)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "1 call let in, or not, alike, 1 newly allowed, 3 no longer allowed",
        "  3 calls no longer allowed: bob of corp, infer on meta/llama",
        "  1 call newly allowed: ann of corp, infer on nvidia/x",
        "  1 line not compared: not a whole line of JSON",
    ]
    found = json.loads(diff(old, new, "--json", "--audit", audit).stdout)
    assert (found["same"], found["granted"], found["revoked"]) == (1, 1, 3)
    assert found["calls"][0]["count"] == 3
    packed = tmp_path / "audit.log.1.gz"
    packed.write_bytes(gzip.compress(audit.read_bytes()))
    both = json.loads(diff(old, new, "--json", "--audit", packed, audit).stdout)
    assert (both["same"], both["granted"], both["revoked"]) == (2, 2, 6)
    assert diff(new, old, "--audit", audit, "--fail-on", "grant").returncode == 1
    assert diff(old, new, "--audit", tmp_path / "none").returncode == 2


def test_calls_that_cannot_be_compared_are_not_said_to_stay_as_they_are(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a part of them nor all, as of a file that is no audit file; whichever changes a pipeline asks for."""
    made = json.dumps(line(Policy(read(old).rules), Asked(ANYBODY, ModelRef("m", Operation.INFER), 1.0)))
    log = json.dumps({"level": "info"})
    audit = tmp_path / "audit.log"
    for lines, code in (
        ([made], 0),
        ([made, log], 0),
        ([made, "nonsense"], 1),
        ([made, made.replace('"left_out": 0', '"left_out": 1')], 1),
        ([log], 1),
        ([], 1),
    ):
        audit.write_text("".join(f"{one}\n" for one in lines))
        for fail_on in ("any", "grant"):
            assert main(["policy", "diff", str(old), str(old), "--fail-on", fail_on, "--audit", str(audit)]) == code
    assert capsys.readouterr().out.endswith("0 calls let in, or not, alike, 0 newly allowed, 0 no longer allowed\n")


def test_names_that_lines_may_leave_out_are_told_whichever_version_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line under a policy that speaks of no `sales` is silent of them: what both versions say of it may be wrong."""
    no_sales: dict[str, Any] = rule("no-sales", effect="deny", subjects={"groups": ["sales"]})
    scoped = rule("scoped", subjects={"groups": ["ds"], "scopes": ["write"]})
    first = policies(tmp_path / "first", CHAT)
    second = policies(tmp_path / "second", CHAT, no_sales)
    third = policies(tmp_path / "third", CHAT, scoped)
    bob = replace(ANYBODY, subject="bob", groups=frozenset({"ds", "sales"}), scopes=frozenset({"write"}))
    audit = tmp_path / "audit.log"

    def noted(logged: Path, old: Path, new: Path) -> tuple[int, list[str], list[str]]:
        written = read(logged)
        made = line(Policy(written.rules, digest=written.digest), Asked(bob, ModelRef("m", Operation.INFER), 1.0))
        audit.write_text(json.dumps(made) + "\n")
        main(["policy", "diff", str(old), str(new), "--json", "--audit", str(audit)])
        found = json.loads(capsys.readouterr().out)
        return found["other_policy"], found["groups_not_logged"], found["scopes_not_logged"]

    assert noted(first, second, first) == (1, ["sales"], [])
    assert noted(first, second, third) == (1, ["ds", "sales"], ["write"])
    assert noted(second, second, third) == (0, [], ["write"])
    assert noted(third, second, third) == (1, ["sales"], [])
    assert noted(second, second, first) == (0, [], [])
    main(["policy", "diff", str(second), str(first), "--audit", str(audit)])
    assert "leave out" not in capsys.readouterr().out
    main(["policy", "diff", str(first), str(third), "--audit", str(audit)])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  1 call decided by another policy than the old version here",
        "  lines may leave out groups that the policy of their time may not have named: ds",
        "  lines may leave out scopes that the policy of their time may not have named: write",
    ]


@pytest.mark.parametrize("text", ["rules: []", "version: 1\nrules:\n  - {id: x}\n"])
def test_a_bad_file_is_a_bad_call(old: Path, tmp_path: Path, text: str) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    done = diff(old, bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{bad}:")
    assert diff(old, tmp_path / "nothing").returncode == 2
