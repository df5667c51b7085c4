"""`nim-gateway policy promote`: the shadow policy takes the place of the one in force, wholly or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.__main__ import main
from gateway.config import swap as swapping
from gateway.devcerts import Paths
from gateway.policy import files
from tests.parts.gateway import allow, oidc, pool


def text(*rules: dict[str, Any]) -> str:
    return yaml.safe_dump({"version": 1, "rules": list(rules)}, sort_keys=False)


OLD = {"a.yaml": text(allow("stays", ["m"]), allow("changes", ["m"])), "b.yaml": text(allow("goes", ["m"]))}
NEW = {"a.yaml": text(allow("stays", ["m"]), allow("changes", ["n"])), "c.yaml": text(allow("comes", ["m"]))}


class Site:
    """A configuration, a policy in force and one beside it."""

    def __init__(self, folder: Path, certificates: Paths) -> None:
        self.folder = folder
        self.certificates = certificates
        self.live, self.candidate = folder / "policies", folder / "candidate"
        self.write(self.live, OLD)
        self.write(self.candidate, NEW)
        self.configure()

    def write(self, folder: Path, texts: dict[str, str]) -> None:
        folder.mkdir(exist_ok=True)
        for name, content in texts.items():
            (folder / name).write_text(content)

    def configure(self, enforce: str = "policies", shadow: str | None = "candidate") -> None:
        tls = {"certificate": str(self.certificates.certificate), "key": str(self.certificates.key)}
        config = {
            "listen": {"tls": tls},
            "identity": {"oidc": [oidc("https://idp.example.com")]},
            "policies": {"enforce": enforce, **({"shadow": shadow} if shadow else {})},
            "pools": [pool("nim", ["m", "n"], "http://10.0.0.1:8000")],
        }
        (self.folder / "gateway.yaml").write_text(yaml.safe_dump(config))

    def promote(self, *more: str) -> int:
        return main(["policy", "promote", "--config", "gateway.yaml", "--root", str(self.folder), *more])

    def in_force(self) -> dict[str, str]:
        return {entry.name: entry.read_text() for entry in self.live.glob("*.yaml")}

    def kept(self) -> list[Path]:
        return sorted(self.folder.glob("*.before-*"))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.folder.iterdir())


@pytest.fixture
def site(tmp_path: Path, certificates: Paths) -> Site:
    return Site(tmp_path, certificates)


def test_whoever_works_beside_the_policies_is_told_short_paths(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.folder)
    assert main(["policy", "promote", "--config", "gateway.yaml"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("in force: policies: 3 rules, ")
    assert "what was in force is kept in policies.before-" in told
    assert str(site.folder) not in told


def test_a_folder_takes_the_place_of_the_other_and_what_was_is_kept(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = files.read(site.live).digest
    assert site.promote() == 0
    assert site.in_force() == NEW
    (kept,) = site.kept()
    assert {entry.name: entry.read_text() for entry in kept.iterdir()} == OLD
    assert kept.name == f"policies.before-{digest[:12]}"
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("  ")] == ["  ~ changes", "  + comes", "  - goes"]
    assert str(kept) in told
    assert site.names() == ["candidate", "gateway.yaml", "policies", kept.name]


def test_nothing_that_was_ever_kept_is_lost_to_another_promotion(site: Site) -> None:
    """Not by a name that is taken: what lies there may have been worked on."""
    assert site.promote() == 0
    (kept,) = site.kept()
    site.configure(shadow=kept.name)
    assert site.promote() == 0
    assert site.in_force() == OLD
    again = {**OLD, "b.yaml": text(allow("worked-on", ["m"]))}
    site.write(kept, {**again, "NOTES.md": "mine"})
    (kept / ".git").mkdir()
    (kept / ".git" / "HEAD").write_text("history")
    assert site.promote() == 0
    assert site.in_force() == again
    assert {entry.name: entry.read_text() for entry in kept.iterdir() if entry.is_file()} == {
        **again,
        "NOTES.md": "mine",
    }
    assert (kept / ".git" / "HEAD").read_text() == "history"
    (other,) = site.folder.glob(f"{kept.name}-2")
    assert {entry.name: entry.read_text() for entry in other.iterdir()} == OLD


@pytest.mark.parametrize("enforce", ["policies", "policies/a.yaml"])
def test_each_policy_that_was_in_force_is_kept_also_broken_ones(site: Site, enforce: str) -> None:
    broken = ["rules: [", "rules: {", "rules: 3"]
    site.configure(enforce, "candidate/c.yaml")
    for number, words in enumerate(broken):
        (site.live / "a.yaml").write_text(words)
        site.write(site.candidate, {"c.yaml": text(allow(f"good-{number}", ["m"]))})
        assert site.promote() == 0
    kept = [*site.kept(), *site.live.glob("*.before-*")]
    assert len(kept) == len(broken)
    assert {(one / "a.yaml" if one.is_dir() else one).read_text() for one in kept} == {*broken}


def test_a_dry_run_says_what_would_change_and_changes_nothing(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.promote("--dry-run") == 0
    assert site.in_force() == OLD
    assert site.kept() == []
    assert "  + comes\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("version: 1\nrules: [", "c.yaml:"),
        (text(allow("x", ["m"], subjects={"issuers": ["nobody"]})), "no identity provider is called 'nobody'"),
        (text(allow("stays", ["m"])), "this id is taken"),
    ],
)
def test_a_shadow_with_mistakes_is_refused_with_each_of_them(
    site: Site, capsys: pytest.CaptureFixture[str], bad: str, said: str
) -> None:
    (site.candidate / "c.yaml").write_text(bad)
    assert site.promote() == 2
    assert said in capsys.readouterr().err
    assert site.in_force() == OLD


@pytest.mark.parametrize(
    ("enforce", "shadow", "said"),
    [
        ("policies", None, "names no shadow policy"),
        ("policies", "policies", "are the same"),
        ("policies", "link", "are the same"),
        ("policies/a.yaml", "candidate", "the shadow policy has several"),
        ("policies", "nowhere", "nowhere:1:1: cannot be read"),
    ],
)
def test_what_cannot_be_put_in_force_is_refused_in_words(
    site: Site, capsys: pytest.CaptureFixture[str], enforce: str, shadow: str | None, said: str
) -> None:
    (site.folder / "link").symlink_to("policies")
    site.configure(enforce, shadow)
    assert site.promote() == 2
    assert said in capsys.readouterr().err
    assert site.in_force() == OLD


def test_a_single_file_is_replaced_and_keeps_its_mode(site: Site) -> None:
    (site.live / "a.yaml").chmod(0o640)
    site.configure("policies/a.yaml", "candidate/c.yaml")
    assert site.promote() == 0
    assert site.in_force() == {"a.yaml": NEW["c.yaml"], "b.yaml": OLD["b.yaml"]}
    assert (site.live / "a.yaml").stat().st_mode & 0o777 == 0o640
    (kept,) = site.live.glob("a.yaml.before-*")
    assert kept.read_text() == OLD["a.yaml"]


def test_a_file_may_take_the_place_of_a_folder_of_files(site: Site) -> None:
    site.configure("policies", "candidate/c.yaml")
    assert site.promote() == 0
    assert site.in_force() == {"c.yaml": NEW["c.yaml"]}


def test_modes_stay_and_what_is_no_policy_moves_along(site: Site) -> None:
    site.live.chmod(0o750)
    (site.live / "a.yaml").chmod(0o640)
    (site.live / "b.yaml").chmod(0o600)
    for name in ("README.md", ".hidden.yaml"):
        (site.live / name).write_text(name)
    (site.live / "tests").mkdir()
    (site.live / "tests" / "cases.yaml").write_text("old")
    assert site.promote() == 0
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in (site.live, *site.live.glob("[ac].yaml"))}
    assert modes == {"policies": 0o750, "a.yaml": 0o640, "c.yaml": 0o640}
    assert [(site.live / name).read_text() for name in ("README.md", ".hidden.yaml")] == ["README.md", ".hidden.yaml"]
    assert (site.live / "tests" / "cases.yaml").read_text() == "old"


def test_cases_of_the_shadow_come_with_it(site: Site) -> None:
    for folder, words in ((site.live, "old"), (site.candidate, "new")):
        (folder / "tests").mkdir()
        (folder / "tests" / "cases.yaml").write_text(words)
    assert site.promote() == 0
    assert (site.live / "tests" / "cases.yaml").read_text() == "new"
    assert (site.candidate / "tests" / "cases.yaml").read_text() == "new"
    (kept,) = site.kept()
    assert (kept / "tests" / "cases.yaml").read_text() == "old"


def test_a_broken_policy_in_force_may_be_replaced_by_a_good_one(site: Site) -> None:
    (site.live / "a.yaml").write_text("version: 1\nrules: [")
    assert site.promote() == 0
    assert site.in_force() == NEW
    assert [kept.name for kept in site.kept()] == ["policies.before-unread"]


def test_the_same_text_is_nothing_to_do(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.promote() == 0
    assert site.promote() == 0
    assert "nothing to do" in capsys.readouterr().out
    assert len(site.kept()) == 1


def test_a_volume_of_kubernetes_is_refused_with_what_to_do(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    data = site.live / "..2026_01_01"
    site.write(data, OLD)
    (site.live / "..data").symlink_to(data.name)
    assert site.promote() == 2
    assert "change its ConfigMap" in capsys.readouterr().err
    assert site.in_force() == OLD


@pytest.fixture(params=[True, False], ids=["exchange", "two renames"])
def exchanging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the system can exchange two names; not all file systems can."""
    if not request.param:
        monkeypatch.setattr(swapping, "_exchanged", lambda _one, _other: False)
    return bool(request.param)


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_in_the_middle_leaves_what_was(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], exchanging: bool, failing: int
) -> None:
    if exchanging and failing == 2:
        return  # there is one only
    rename, renames = Path.rename, 0

    def failed(self: Path, target: Path) -> Path:
        nonlocal renames
        renames += 1
        if renames == failing:
            raise OSError(30, "Read-only file system", str(target))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failed)
    before = site.names()
    assert site.promote() == 1
    assert "mounted read-only; put the new policies where it comes from" in capsys.readouterr().err
    assert (site.in_force(), site.names()) == (OLD, before)


def test_there_is_never_a_moment_with_half_a_policy(
    site: Site, monkeypatch: pytest.MonkeyPatch, exchanging: bool
) -> None:
    """Nor, where names can be exchanged, with none: killed at any time, a gateway starts with the old or the new."""
    (site.live / "README.md").touch()
    seen: list[Sequence[str]] = []
    rename = Path.rename

    def watched(self: Path, target: Path) -> Path:
        seen.append(sorted(site.in_force().values()))
        result = rename(self, target)
        seen.append(sorted(site.in_force().values()))
        return result

    monkeypatch.setattr(Path, "rename", watched)
    assert site.promote() == 0
    assert seen
    whole = [sorted(OLD.values()), sorted(NEW.values())]
    assert all(found in (whole if exchanging else [[], *whole]) for found in seen)
