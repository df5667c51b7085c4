"""Variables and secrets come from outside the file, or their absence is said without repeating anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.load import load
from gateway.config.mistakes import Mistakes
from gateway.config.secrets import filled
from gateway.config.yamlfile import read
from tests.config.conftest import MINIMAL

Write = Callable[[str], Path]
SECRET = "Bearer hunter2"


def with_credential(value: str) -> str:
    return MINIMAL + f"    credential: {{header: Authorization, value: {value}}}\n"


def refused(path: Path, environment: dict[str, str]) -> list[str]:
    with pytest.raises(Mistakes) as caught:
        load(path, path.parent, environment=environment)
    return [str(mistake).removeprefix(f"{path}:") for mistake in caught.value.mistakes]


def expanded(text: str, **environment: str) -> Any:
    result = filled(read(text.encode(), "f.yaml"), environment, Path("/"))
    assert not result.findings
    return result.data


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_comes_from_a_file_without_its_line_break(write: Write, root: Path, ending: str) -> None:
    (root / "key").write_bytes((SECRET + ending).encode())
    loaded = load(write(with_credential("{file: key}")), root, environment={})
    credential = loaded.settings.pools[0].credential
    assert credential is not None
    assert credential.value == SECRET
    assert root / "key" in loaded.files
    assert "hunter2" not in repr(loaded)


def test_a_secret_comes_from_the_environment(write: Write, root: Path) -> None:
    loaded = load(write(with_credential("{env: NIM_KEY}")), root, environment={"NIM_KEY": SECRET})
    credential = loaded.settings.pools[0].credential
    assert credential is not None
    assert credential.value == SECRET


def test_the_path_of_a_secret_may_hold_a_variable(write: Write, root: Path) -> None:
    (root / "key").write_text(SECRET)
    text = with_credential('{file: "${CREDENTIALS}/key"}')
    loaded = load(write(text), root, environment={"CREDENTIALS": str(root)})
    assert root / "key" in loaded.files


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hunter2", "not written here"),
        ("'hunter2'", "not written here"),
        ("{hunter2: hunter2}", "not written here"),
        ("{file: hunter2, env: hunter2}", "not written here"),
        ("{file: }", "not written here"),
        ("[hunter2]", "not written here"),
        ("12345678", "not written here"),
        ("{file: hunter2}", "cannot be read: No such file or directory"),
        ("{file: policies}", "cannot be read: Is a directory"),
        ("{file: empty}", "empty or larger than 8 KiB"),
        ("{file: large}", "empty or larger than 8 KiB"),
        ("{file: binary}", "is not text"),
        ("{file: lines}", "one line of printable ASCII"),
        ("{env: hunter2}", "is not set, or empty"),
        ("{env: EMPTY}", "is not set, or empty"),
        ("{env: LINES}", "one line of printable ASCII"),
    ],
)
def test_what_is_no_secret_is_refused_and_never_repeated(write: Write, root: Path, value: str, words: str) -> None:
    (root / "empty").write_text("\n")
    (root / "large").write_text("x" * 9000)
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "lines").write_text("hunter2\nhunter2\n")
    lines = refused(write(with_credential(value)), {"EMPTY": "", "LINES": "hunter2\r\nX: y"})
    assert len(lines) == 1
    assert words in lines[0]
    assert "hunter2" not in lines[0]
    assert lines[0].startswith("14:")


def test_a_variable_is_put_into_plain_values() -> None:
    assert expanded("a: 'x-${A}-${B_2}'\nb: ['${A}']\n", A="1", B_2="two") == {"a": "x-1-two", "b": ["1"]}


def test_a_variable_without_quotes_means_what_it_would_mean_in_its_place() -> None:
    text = "a: ${A}\nb: '${A}'\nc: x${A}\nd: ${D}\ne: ${E}\n"
    assert expanded(text, A="8443", D="true", E="") == {"a": 8443, "b": "8443", "c": "x8443", "d": True, "e": ""}


def test_a_value_is_expanded_once_and_cannot_bring_structure_with_it() -> None:
    assert expanded("a: ${A}\n", A="${B}", B="x") == {"a": "${B}"}
    assert expanded("a: ${A}\n", A="{b: c}") == {"a": "{b: c}"}
    assert expanded("${A}: $A $ ${A}\n", A="x") == {"${A}": "$A $ x"}


def test_a_port_may_come_from_the_environment(write: Write, root: Path) -> None:
    path = write(MINIMAL.replace("listen:", "listen:\n  port: ${PORT}"))
    assert load(path, root, environment={"PORT": "9443"}).settings.listen.port == 9443
    assert refused(path, {}) == ["2:3: the environment variable PORT is not set"]


@pytest.mark.parametrize("value", ["${A", "${}", "${1}", "${A:-b}", "${A}${", "${ A }", "${a-b}"])
def test_what_only_looks_like_a_variable_is_refused(value: str) -> None:
    result = filled(read(f"a: '{value}'\n".encode(), "f.yaml"), {"A": "x"}, Path("/"))
    assert [finding.path for finding in result.findings] == [("a",)]
    assert result.data == {"a": None}


@given(st.text(), st.dictionaries(st.from_regex(r"[A-Z]", fullmatch=True), st.text()))
def test_any_text_is_expanded_or_refused(text: str, environment: dict[str, str]) -> None:
    document = read(b"a: ''\n", "f.yaml")
    result = filled(replace(document, data={"a": text}), environment, Path("/"))
    assert (result.data["a"] is None) == bool(result.findings)
