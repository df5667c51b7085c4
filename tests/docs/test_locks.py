"""The locks hold what pyproject.toml asks for, and nothing of where it was fetched from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = PROJECT["project"]["dependencies"]
DEVELOP = PROJECT["dependency-groups"]["dev"]
BUILD = PROJECT["build-system"]["requires"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TESTS = ROOT / "tests" / "requirements-tests.txt"
ENTRY = re.compile(
    r"^([a-z0-9][a-z0-9.-]*)==(\S+)(?: ; [^\\\n]+)? \\\n"  # name, version, for which machines
    r"(?:    --hash=\S+(?: \\)?\n)+"
    r"((?:    #.*\n)*)",  # who wanted it
    re.MULTILINE,
)


class Pin(NamedTuple):
    name: str
    version: str
    wanted_by: str


def pins(lock: str) -> list[Pin]:
    """Several versions of one package stand beside each other where they are for different machines."""
    return [Pin(name, version, via) for name, version, via in ENTRY.findall((ROOT / lock).read_text())]


def asked(lines: list[str]) -> list[Requirement]:
    return [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]


@pytest.mark.parametrize(
    ("lock", "lines"),
    [("requirements.lock", [*RUN, *DEVELOP, *TESTS.read_text().splitlines()]), ("requirements-run.lock", RUN)],
)
def test_a_lock_holds_what_is_asked_for_and_nothing_that_no_longer_is(lock: str, lines: list[str]) -> None:
    wanted = {str(canonicalize_name(requirement.name)): requirement.specifier for requirement in asked(lines)}
    found = pins(lock)
    assert {pin.name for pin in found if re.search(f"pyproject.toml|{TESTS.name}", pin.wanted_by)} == set(wanted)
    assert [pin for pin in found if pin.name in wanted and not wanted[pin.name].contains(pin.version)] == []


def test_the_image_is_built_with_what_builds_the_project() -> None:
    found = {pin.name: pin.version for pin in pins("requirements-build.lock")}
    for requirement in asked(BUILD):
        assert requirement.specifier.contains(found[str(canonicalize_name(requirement.name))])


@pytest.mark.parametrize("lock", ["requirements-run.lock", "requirements-build.lock"])
def test_what_is_in_the_image_is_what_was_tested(lock: str) -> None:
    tested = {(pin.name, pin.version) for pin in pins("requirements.lock")}
    assert {(pin.name, pin.version) for pin in pins(lock)} <= tested


def test_the_image_fetches_nothing_that_is_not_locked() -> None:
    """Each install takes hashes or no index at all, and the build does not fetch its back end by itself."""
    installs = re.findall(r"pip (install|wheel)((?:[^\n&]|&(?!&))*)", DOCKERFILE)
    assert [kind for kind, _ in installs] == ["install", "install", "wheel", "install"]
    for kind, options in installs:
        locked = {"--require-hashes"} if kind == "install" else {"--no-deps", "--no-build-isolation"}
        assert locked <= set(options.split()) or {"--no-deps", "--no-index"} <= set(options.split()), options


LOCKS = ["requirements.lock", "requirements-run.lock", "requirements-build.lock", "tests/requirements-parts.lock"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_nothing_but_versions_and_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert len(pins(lock)) > 4
    assert ENTRY.sub("", text).strip() == ""
    assert "://" not in text
