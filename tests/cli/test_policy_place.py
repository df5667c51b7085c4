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


def test_a_name_that_models_share_stands_for_none_of_them_alone(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    around = ["--root", str(site), "--config", "gateway.yaml"]
    assert main(["policy", "explain", *around, *QUESTION, "either"]) == 2
    assert "either stands for several models: big, llama; name one of them" in capsys.readouterr().err
    case = "  - {name: canary, subject: {groups: [ds]}, model: either, expect: deny}\n"
    (site / "policies" / "tests" / "more.yaml").write_text(f"version: 1\ncases:\n{case}")
    assert main(["policy", "test", *around]) == 0
    assert "canary: 'either' means big, llama; name one of them" in capsys.readouterr().err


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
