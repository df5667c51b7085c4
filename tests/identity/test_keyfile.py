"""The file of API keys is taken whole, or every mistake in it is said with its place."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import yamlfile
from gateway.config.mistakes import Mistakes
from gateway.identity.apikeys.apikey import ApiKey
from gateway.identity.apikeys.keyfile import entries, load

DIGESTS = [f"sha256:{digit * 64}" for digit in "0123456789"]

GOOD = f"""\
version: 1
keys:
  - id: k7f3m2qa
    digest: "{DIGESTS[0]}"
    owner: batch
    groups: [data-science, "/ml/ds"]
    created: 2026-01-31T12:00:00Z
    expires: 2026-05-01T00:00:00Z
    note: the nightly run
  - {{id: "00000001", digest: "{DIGESTS[1]}", owner: al, created: 2026-01-31T12:00:00Z, revoked: 2026-02-01T00:00:00Z}}
"""


def wrong(text: str) -> list[str]:
    with pytest.raises(Mistakes) as caught:
        entries(yamlfile.read(text.encode(), "keys.yaml"))
    return [str(mistake).removeprefix("keys.yaml:") for mistake in caught.value.mistakes]


def test_a_good_file_gives_its_keys(tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").write_text(GOOD)
    first, second = load(tmp_path / "keys.yaml")
    assert first == ApiKey(
        "k7f3m2qa", bytes(32), "batch", frozenset({"data-science", "/ml/ds"}), 1769860800.0, 1777593600.0
    )
    assert (second.id, second.groups, second.expires, second.revoked) == (
        "00000001",
        frozenset(),
        float("inf"),
        1769904000.0,
    )


def test_a_file_may_hold_no_key_at_all(tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").write_text("version: 1\nkeys: []\n")
    assert load(tmp_path / "keys.yaml") == ()


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(Mistakes, match=r"keys.yaml:1:1: does not exist; nim-gateway key create makes it"):
        load(tmp_path / "keys.yaml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 2", "1:1: expected 1"),
        ("version: 1", "version: true", "1:1: expected 1"),
        ("version: 1\n", "", "1:1: the setting 'version' is missing"),
        ("keys:", "key:", "2:1: unknown setting 'key'; did you mean 'keys'?"),
        ("    owner: batch\n", "", "3:5: the setting 'owner' is missing"),
        ("owner: batch", "owner: ''", "5:5: expected a name: text in one line, of 1 to 512 characters"),
        (
            "owner: batch",
            "owner: 7",
            "5:5: expected a name: text in one line, of 1 to 512 characters; put it",
        ),
        ("owner: batch", "owner: 'batch '", "5:5: begins or ends with a space, and names are compared exactly"),
        ("owner: batch", 'owner: "a\\nb"', "5:5: expected a name: text in one line, of 1 to 512 characters"),
        ("groups: [data-science,", "groups: [7,", "6:14: expected a name: "),
        ('groups: [data-science, "/ml/ds"]', "groups: data-science", "6:5: expected a list"),
        ("note: the nightly run", "nota: x", "9:5: unknown setting 'nota'; did you mean 'note'?"),
        ("id: k7f3m2qa", "id: K7F3M2QA", "3:5: expected the id of a key: the eight letters and digits behind nimgw_"),
        ("id: k7f3m2qa", "id: 12345678", "3:5: expected the id of a key"),
        ("sha256:00", "sha1:00", "4:5: expected sha256: and 64 digits"),
        ("2026-05-01T00:00:00Z", "2026-05-01", "8:5: expected a time in UTC, such as 2026-01-31T12:00:00Z"),
        ("2026-05-01T00:00:00Z", "2026-02-30T00:00:00Z", "8:5: expected a time in UTC"),
        ("2026-05-01T00:00:00Z", "2026-05-01T00:00:00+02:00", "8:5: expected a time in UTC"),
        ("2026-05-01T00:00:00Z", "90d", "8:5: expected a time in UTC"),
        ('id: "00000001"', "id: k7f3m2qa", "10:6: another key has this id already, in line 3"),
        (DIGESTS[1], DIGESTS[0], "10:22: another key has this digest already, in line 4"),
    ],
)
def test_a_mistake_is_said_with_its_place_and_what_to_do(old: str, new: str, said: str) -> None:
    assert old in GOOD
    (line,) = [line for line in wrong(GOOD.replace(old, new)) if line.startswith(said[:4])][:1]
    assert line.startswith(said)


def test_all_mistakes_are_said_at_once_and_quote_nothing() -> None:
    """A key that somebody pasted where its digest belongs must not go into a log."""
    lines = wrong("version: 1\nkeys:\n- {id: a, digest: nimgw_secret, owner: b, created: c}\n- {id: a, owner: 1}\n")
    assert [line.split(": ")[0] for line in lines] == ["3:4", "3:11", "3:43", "4:3", "4:3", "4:4", "4:4", "4:11"]
    assert "nimgw_secret" not in "\n".join(lines)


def test_two_keys_of_one_id_are_seen_also_on_one_line() -> None:
    one = f"{{id: a0000000, digest: '{DIGESTS[0]}', owner: b, created: 2026-01-31T12:00:00Z}}"
    assert wrong(f"{{version: 1, keys: [{one}, {one.replace(DIGESTS[0], DIGESTS[1])}]}}") == [
        "1:162: another key has this id already, in line 1"
    ]


@given(st.text(alphabet="abk:-{}[]\"' \n1,", max_size=60), st.integers(0, len(GOOD)))
def test_whatever_stands_in_the_file_it_is_keys_or_mistakes(text: str, at: int) -> None:
    with contextlib.suppress(Mistakes):
        entries(yamlfile.read((GOOD[:at] + text + GOOD[at:]).encode(), "keys.yaml"))
