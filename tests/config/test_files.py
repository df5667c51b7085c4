"""The files that a configuration names are looked into with it: what is wrong is said along, at its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config.mistakes import Mistakes
from tests.config.conftest import MINIMAL, Pair, make_pair, refused, taken

Write = Callable[[str], Path]

LOGIN = MINIMAL.replace("      audience", "      login: {client_id: ui}\n      audience")
TOKENS = LOGIN.replace("  oidc:", "  tokens: {key: own.key}\n  oidc:")
PROVED = LOGIN.replace("client_id: ui", "client_id: ui, private_key: own.key")
ASKED = MINIMAL.replace(
    "      audience",
    "      verify: both\n      introspection: {client_id: ui, private_key: own.key}\n      audience",
)


def put(root: Path, content: bytes | None, mode: int = 0o600) -> None:
    if content is not None:
        (root / "own.key").write_bytes(content)
        (root / "own.key").chmod(mode)


@pytest.mark.parametrize("text", [TOKENS, PROVED, ASKED])
def test_a_key_that_can_be_used_is_taken(write: Write, root: Path, pair: Pair, text: str) -> None:
    put(root, pair.key)
    assert root / "own.key" in taken(write(text)).files


@pytest.mark.parametrize(
    ("text", "place"), [(TOKENS, "4:12: "), (PROVED, "7:30: "), (ASKED, "8:38: ")], ids=["tokens", "login", "ask"]
)
@pytest.mark.parametrize("kind", ["missing", "certificate", "locked", "none", "folder"])
def test_a_key_that_cannot_is_said_with_all_else_at_its_place(
    write: Write, root: Path, pair: Pair, text: str, place: str, kind: str
) -> None:
    contents = {"certificate": pair.certificate, "locked": make_pair(password=b"hunter2").key, "none": b"hunter2"}
    put(root, contents.get(kind))
    if kind == "folder":
        (root / "own.key").mkdir()
    lines = refused(write(text + "workers: 4\n"))
    assert len(lines) == 2
    assert lines[0].startswith(f"{place}own.key ")
    assert "hunter2" not in str(lines)


def test_a_key_of_tokens_that_others_may_read_is_a_mistake(write: Write, root: Path, pair: Pair) -> None:
    put(root, pair.key, 0o644)
    assert refused(write(TOKENS)) == [
        "4:12: own.key has mode 0644: whoever reads it can make tokens; set 0600, or 0640"
    ]


def test_a_key_that_nobody_is_shown_is_not_looked_at(write: Write) -> None:
    taken(write(ASKED.replace("verify: both", "verify: jwt")))


def test_lists_are_looked_into_along_with_what_else_is_wrong(write: Write, root: Path) -> None:
    lists = "  api_keys: {file: keys.yaml}\n  revoked: {file: revoked.yaml}\n  oidc:"
    (root / "revoked.yaml").write_text(
        "version: 1\nsubjects: [{subject: a, provider: crop}, {subject: b, provider: corp}]\n"
    )
    path = write(MINIMAL.replace("  oidc:", lists) + "workers: 4\n")
    with pytest.raises(Mistakes, match="more than one worker") as caught:
        taken(path)
    assert str(caught.value).splitlines()[1:] == [
        f"{root}/keys.yaml:1:1: does not exist; nim-gateway key create makes it",
        f"{root}/revoked.yaml:2:25: no identity provider is called 'crop'; there is api_keys, corp",
    ]
