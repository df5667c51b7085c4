"""Every action of `nim-gateway policy` finds policies and configuration in one way, wherever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.cli.test_policy_cases import CASES, CONFIG, RULES

SHARED = """\
aliases: [{name: either, targets: [{model: llama, weight: 9}, {model: big, weight: 1}]}]
"""
QUESTION = ["--groups", "ds", "--model"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in a folder that is not where commands are called; no file that it names is there."""
    root = tmp_path / "site"
    for name in ("policies", "candidate"):
        (root / name / "tests").mkdir(parents=True)
        (root / name / "rules.yaml").write_text(RULES)
        (root / name / "tests" / "cases.yaml").write_text(CASES)
    text = CONFIG.replace("policies: policies", "policies: {enforce: policies, shadow: candidate}")
    text = text.replace("aliases: [small]}]", "aliases: [small]}, {name: big}]")
    (root / "gateway.yaml").write_text(text + SHARED)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return root


ROOTED = [
    ["explain", "--policies", "policies", *QUESTION, "llama"],
    ["lint", "--policies", "policies"],
    ["test", "--policies", "policies"],
    ["diff", "policies", "candidate"],
]
CONFIGURED = [
    ["explain", *QUESTION, "small"],
    ["explain", *QUESTION, "small", "--policies", "candidate"],
    ["test"],
    ["test", "--policies", "candidate"],
    ["diff", "policies", "candidate"],
    ["promote", "--dry-run"],
]


@pytest.mark.parametrize("words", ROOTED, ids=lambda words: words[0])
def test_relative_paths_of_policies_start_at_the_root(
    site: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code = main(["policy", *words, "--root", str(site)])
    assert (code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize("words", ROOTED, ids=lambda words: words[0])
def test_a_root_that_is_no_folder_is_a_bad_call(
    site: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    gone = site / "gone"
    assert main(["policy", *words, "--root", str(gone)]) == 2
    assert capsys.readouterr() == ("", f"nim-gateway: --root {gone} is not a folder\n")


@pytest.mark.parametrize("words", CONFIGURED, ids=" ".join)
def test_a_configuration_is_enough_without_its_certificates_and_secrets(
    site: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code = main(["policy", *words, "--root", str(site), "--config", "gateway.yaml"])
    assert (code, capsys.readouterr().err) == (0, "")


def test_a_configuration_around_other_policies_says_what_aliases_mean_to_all(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    around = ["--root", str(site), "--policies", "candidate", "--config", "gateway.yaml"]
    assert main(["policy", "explain", *around, *QUESTION, "small"]) == 0
    assert "note: small is an alias of llama, served by pool nim" in capsys.readouterr().out


def test_a_name_that_models_share_stands_for_the_one_that_its_caller_gets(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the gateway: drawn by provider and user, and where that one is not granted, the next that is."""
    around = ["--root", str(site), "--config", "gateway.yaml"]
    told = set()
    for number in range(40):
        who = ["--user", f"user-{number}", "--groups", "ds", "--model", "either"]
        assert main(["policy", "explain", *around, *who]) == 0
        out = capsys.readouterr().out
        assert "infer on llama" in out
        told.add(out.partition("  note: ")[2].splitlines()[0])
    either = "either is an alias of several models, "
    assert told == {
        f"{either}big, llama; this caller draws llama",
        f"{either}big, llama; this caller draws big, may not use it, and gets llama",
    }
    assert main(["policy", "explain", *around, *QUESTION, "either"]) == 0
    assert "which of them a caller draws hangs on --user and --issuer, and this is about" in capsys.readouterr().out
    assert main(["policy", "explain", *around, "--user", "eve", "--model", "either"]) == 1
    assert "model_not_allowed" in capsys.readouterr().out


def test_cases_may_name_what_models_share(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    around = ["--root", str(site), "--config", "gateway.yaml"]

    def tried(*cases: str) -> tuple[int, str, str]:
        text = "".join(f"  - {{name: c{number}, {case}}}\n" for number, case in enumerate(cases))
        (site / "policies" / "tests" / "cases.yaml").write_text(f"version: 1\ncases:\n{text}")
        return main(["policy", "test", *around]), *capsys.readouterr()

    users = [f"subject: {{user: u{number}, issuer: corp, groups: [ds]}}, model: either" for number in range(20)]
    code, out, err = tried(*(f"{user}, expect: allow, rule: chat" for user in users))
    assert (code, err) == (0, "")
    assert "1 of 2 rules covered" in out
    code, _, err = tried(*["subject: {groups: [ds]}, model: either, expect: allow, rule: chat"] * 3)
    assert code == 0
    assert "c0 and 2 more cases: which of big, llama a caller draws for 'either' hangs on user and issuer" in err
    code, out, _ = tried(f"{users[0]}, expect: deny")
    assert code == 1
    assert "expected deny, got allow by chat" in out
    assert " for llama, which was drawn for either (" in out


def test_a_rule_is_not_covered_by_a_case_that_passes_without_it_for_another_model(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever loses the one model gets the other, so the call is let in all the same."""
    (site / "policies" / "rules.yaml").write_text(
        "version: 1\nrules:\n"
        "  - {id: one, effect: allow, subjects: {groups: [ds]}, models: [llama]}\n"
        "  - {id: two, effect: allow, subjects: {groups: [ds]}, models: [big]}\n"
    )
    case = "  - {name: canary, subject: {user: a, issuer: corp, groups: [ds]}, model: either, expect: allow}\n"
    (site / "policies" / "tests" / "cases.yaml").write_text(f"version: 1\ncases:\n{case}")
    assert main(["policy", "test", "--root", str(site), "--config", "gateway.yaml"]) == 0
    assert "0 of 2 rules covered" in capsys.readouterr().out


def test_a_rule_for_a_name_that_models_share_is_told_what_it_is(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (site / "policies" / "rules.yaml").read_text()
    (site / "policies" / "rules.yaml").write_text(text.replace("[llama]", "[either]"))
    assert main(["policy", "lint", "--root", str(site), "--config", "gateway.yaml"]) == 1
    told = "'either' is an alias of several models, and rules speak of them by name: llama, big [unknown_model]"
    assert told in capsys.readouterr().out


def test_the_name_of_a_model_is_that_model_though_another_protocol_has_it_for_an_alias(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (site / "gateway.yaml").read_text()
    models, backends = "[{name: rn, aliases: [llama]}]", "[{url: 'http://127.0.0.1:2'}]"
    pool = f"  - {{name: trt, protocols: [kserve], models: {models}, backends: {backends}}}\n"
    (site / "gateway.yaml").write_text(text.replace("aliases: [{name: either", f"{pool}aliases: [{{name: either"))
    around = ["--root", str(site), "--config", "gateway.yaml"]
    assert main(["policy", "test", *around]) == 0
    assert capsys.readouterr().err == ""
    assert main(["policy", "explain", *around, *QUESTION, "llama"]) == 0
