"""Policies that are kept: the very same again, or none."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy import history
from gateway.policy.files import Written, read
from gateway.policy.history import NotKept, digests, load

RULE = "- {{id: {id}, effect: allow, subjects: {{groups: [ds]}}, models: ['*']}}\n"


def put(folder: Path, **files: str) -> Written:
    """A policy whose files, by their names, have one rule each."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.yaml"):
        old.unlink()
    for name, rule in files.items():
        (folder / f"{name}.yaml").write_text("version: 1\nrules:\n" + RULE.format(id=rule))
    return read(folder)


def keep(folder: Path, policy: Written, most: int = 100, in_force: str = "") -> None:
    history.keep(folder, policy, most, lambda: in_force)


def test_a_kept_policy_has_the_same_rules_at_the_same_places_after_its_files_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    policy = put(folder, a="one", b="two")
    keep(tmp_path / "kept", policy)
    put(folder, c="three")

    again = load(tmp_path / "kept", policy.digest, folder)
    assert again == policy
    assert [rule.place for rule in again.rules] == [f"{folder}/a.yaml:3", f"{folder}/b.yaml:3"]


def test_a_policy_of_one_file_is_kept_under_its_own_place(tmp_path: Path) -> None:
    put(tmp_path / "policies", a="one")
    policy = read(tmp_path / "policies" / "a.yaml")
    keep(tmp_path / "kept", policy)

    assert load(tmp_path / "kept", policy.digest, tmp_path / "policies").rules == policy.rules


def test_others_can_neither_read_nor_write_what_is_kept(tmp_path: Path) -> None:
    policy = put(tmp_path / "policies", a="one")
    keep(tmp_path / "kept", policy)

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "kept", *(tmp_path / "kept").rglob("*")]}
    assert set(modes.values()) == {0o750, 0o640}
    assert all(mode == 0o640 for path, mode in modes.items() if path.is_file())


@pytest.mark.parametrize("how", ["changed", "added", "removed", "broken", "gone", "a file"])
def test_what_is_not_what_it_was_is_refused_and_mended_when_it_is_in_force_again(tmp_path: Path, how: str) -> None:
    policy = put(tmp_path / "policies", a="one", b="two")
    kept = tmp_path / "kept"
    keep(kept, policy)
    spoil(kept / policy.digest, how)

    with pytest.raises(NotKept, match=r"not kept in|not what it was|cannot be read"):
        load(kept, policy.digest, tmp_path)
    keep(kept, policy)
    assert load(kept, policy.digest, tmp_path / "policies") == policy
    assert [path.name for path in kept.iterdir()] == [policy.digest]


def spoil(folder: Path, how: str) -> None:
    if how == "changed":
        (folder / "a.yaml").write_text("version: 1\nrules:\n" + RULE.format(id="other"))
    elif how == "added":
        (folder / "c.yaml").write_text("version: 1\nrules:\n" + RULE.format(id="more"))
    elif how == "removed":
        (folder / "b.yaml").unlink()
    elif how == "broken":
        (folder / "a.yaml").write_text("rules: [")
    else:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        if how == "a file":
            folder.write_text("nothing")


def test_the_oldest_go_when_there_are_too_many_but_never_the_one_in_force(tmp_path: Path) -> None:
    kept, made = tmp_path / "kept", list[Written]()
    for number in range(5):
        policy = put(tmp_path / "policies", a=f"rule-{number}")
        keep(kept, policy, most=3, in_force=made[0].digest if made else "")
        os.utime(kept / policy.digest, (1000 + number, 1000 + number))
        made.append(policy)

    keep(kept, made[4], most=3, in_force=made[0].digest)
    assert set(digests(kept)) == {made[number].digest for number in (0, 2, 3, 4)}


def test_one_that_is_put_in_force_again_is_the_newest_again(tmp_path: Path) -> None:
    one, two = put(tmp_path / "policies", a="one"), put(tmp_path / "policies", a="two")
    for number, policy in enumerate((one, two)):
        keep(tmp_path / "kept", policy)
        os.utime(tmp_path / "kept" / policy.digest, (1000 + number, 1000 + number))
    assert digests(tmp_path / "kept") == [two.digest, one.digest]

    keep(tmp_path / "kept", one)
    assert digests(tmp_path / "kept") == [one.digest, two.digest]


def test_what_a_crash_has_left_is_removed_in_time_and_nothing_that_is_not_ours(tmp_path: Path) -> None:
    policy = put(tmp_path / "policies", a="one")
    kept = tmp_path / "kept"
    fresh, old, foreign = (kept / name for name in (f".{'a' * 32}.{'b' * 16}", f".{'c' * 32}.{'d' * 16}", "notes"))
    for folder in (fresh, old, foreign):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - 7200,) * 2 if folder is not fresh else None)

    keep(kept, policy, most=1)
    assert {path.name for path in kept.iterdir()} == {fresh.name, foreign.name, policy.digest}


def test_a_folder_whose_parent_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        keep(tmp_path / "no" / "such", put(tmp_path / "policies", a="one"))


@given(st.text(max_size=40))
def test_a_digest_that_is_none_never_leads_to_a_file(digest: str) -> None:
    with pytest.raises(NotKept):
        load(Path("/"), digest, Path("/"))
