"""A file is replaced whole, or not at all; by one at a time; and stays whose it was."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gateway.config.replace import alone, replace


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    replace(tmp_path / "keys.yaml", "ø\n")
    assert (tmp_path / "keys.yaml").read_bytes() == "ø\n".encode()
    assert (tmp_path / "keys.yaml").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["keys.yaml"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
def test_a_file_that_was_there_keeps_its_mode_and_is_another_one(tmp_path: Path, mode: int) -> None:
    """Another one, so that who reads the old one reads it to its end."""
    file = tmp_path / "keys.yaml"
    file.write_text("old, and longer")
    file.chmod(mode)
    with file.open() as reader:
        before = file.stat()
        replace(file, "new")
        assert reader.read() == "old, and longer"
    assert file.read_text() == "new"
    assert file.stat().st_mode == before.st_mode
    assert file.stat().st_ino != before.st_ino


def test_a_file_stays_whose_it_was(tmp_path: Path) -> None:
    """Else the gateway, which runs as somebody else than the administrator, could not read it any more."""
    file = tmp_path / "keys.yaml"
    file.write_text("old")
    owner, group = (12345, 23456) if os.geteuid() == 0 else (os.geteuid(), os.getegid())  # only root gives files away
    os.chown(file, owner, group)
    replace(file, "new")
    assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (owner, group, 0o644)


def test_a_link_still_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "keys.yaml").write_text("old")
    (tmp_path / "keys.yaml").symlink_to("real/keys.yaml")
    replace(tmp_path / "keys.yaml", "new")
    assert (tmp_path / "keys.yaml").is_symlink()
    assert (tmp_path / "real" / "keys.yaml").read_text() == "new"


def test_what_fails_changes_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").mkdir()
    (tmp_path / "keys.yaml" / "inner").touch()
    with pytest.raises(OSError):
        replace(tmp_path / "keys.yaml", "new")
    with pytest.raises(UnicodeEncodeError):
        replace(tmp_path / "other.yaml", "\ud800")
    assert os.listdir(tmp_path) == ["keys.yaml"]


def test_one_waits_for_the_other_and_nobody_for_ever(tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with alone(tmp_path):
            entered.set()
            leave.wait(20)

    one = threading.Thread(target=first)
    one.start()
    assert entered.wait(20)
    with pytest.raises(TimeoutError, match="another process is changing a file"), alone(tmp_path, 0.1):
        pytest.fail("two are in at once")
    threading.Timer(0.2, leave.set).start()
    with alone(tmp_path, 20):
        assert leave.is_set()
    one.join()


def test_what_goes_wrong_inside_lets_the_next_one_in(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), alone(tmp_path):
        raise RuntimeError
    with alone(tmp_path, 0):
        pass
