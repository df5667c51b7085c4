"""A key is added or ended in the text of a file, and every other byte of it stays as somebody wrote it."""

from __future__ import annotations

import difflib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import yamlfile
from gateway.config.mistakes import Mistakes
from gateway.identity.apikeys.keyedit import CannotChange, stamp, with_key, with_time
from gateway.identity.apikeys.keyfile import Entry, entries

AT = 1769860800.0
NEW = Entry("k7f3m2qa", f"sha256:{'e' * 64}", "batch", AT, ("ds",))


def entry(number: int) -> Entry:
    return Entry(f"{number:08}", f"sha256:{number:064x}", "alice", AT)


def one(number: int) -> str:
    return f'id: "{number:08}", digest: "sha256:{number:064x}", owner: alice, created: 2026-01-31T12:00:00Z'


def lines_of(number: int, indent: str) -> str:
    return f"\n{indent}".join(one(number).split(", "))


FORMS = {
    "as this program writes": with_key(with_key("", "f", entry(1)), "f", entry(2)),
    "comments everywhere": (
        "# ours\nversion: 1  # the first\nkeys:   # those of today\n"
        f"  # alice\n  - {lines_of(1, '    ')}  # of hers\n\n  # also alice\n  - {lines_of(2, '    ')}\n# the end\n"
    ),
    "no indentation": f"version: 1\nkeys:\n- {lines_of(1, '  ')}\n- {lines_of(2, '  ')}\n",
    "wide dashes": f"version: 1\nkeys:\n    -   {lines_of(1, '        ')}\n    -   {lines_of(2, '        ')}\n",
    "the version last": f"# ours\nkeys:\n  - {lines_of(1, '    ')}\n  - {lines_of(2, '    ')}\nversion: 1\n",
    "no line end at the end": f"version: 1\nkeys:\n  - {lines_of(1, '    ')}\n  - {lines_of(2, '    ')}",
    "line ends of Windows": f"version: 1\nkeys:\n  - {lines_of(1, '    ')}\n  - {lines_of(2, '    ')}\n".replace(
        "\n", "\r\n"
    ),
    "braces": f"version: 1\nkeys:\n  - {{{one(1)}}}\n  - {{ {one(2)} }}  # hers\n",
    "JSON": f'{{"version": 1, "keys": [{{{one(1)}}}, {{{one(2)}}}]}}',
}


def read(text: str) -> tuple[Entry, ...]:
    return entries(yamlfile.read(text.encode(), "f"))


def taken_away(before: str, after: str) -> list[str]:
    """Lines of the text that are no longer there."""
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("- ")]


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_added_and_all_else_stays(form: str) -> None:
    text = FORMS[form]
    edited = with_key(text, "f", NEW)
    assert read(edited) == (entry(1), entry(2), NEW)
    if form != "JSON":
        assert taken_away(text, edited) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["expires", "revoked"])
def test_a_key_is_ended_and_all_else_stays(form: str, name: str) -> None:
    text = FORMS[form]
    for number, at in ((1, AT + 1), (1, AT + 2), (2, AT + 3)):
        before = {each.id: each for each in read(text)}
        edited = with_time(text, "f", f"{number:08}", name, at)  # type: ignore[arg-type]
        key = entry(number).id
        assert read(edited) == tuple(
            (before | {key: replace(before[key], **{name: at})}).values()  # type: ignore[arg-type]
        )
        assert len(taken_away(text, edited)) <= 1
        text = edited
    assert FORMS[form].count("#") == text.count("#")


@pytest.mark.parametrize("empty", ["", "\n", "  \n\n"])
def test_an_empty_file_is_begun(empty: str) -> None:
    assert read(with_key(empty, "f", NEW)) == (NEW,)


@pytest.mark.parametrize(
    "text", ["version: 1\nkeys: []\n", "keys:  [ ]   # none yet\nversion: 1\n", "version: 1\nkeys: []"]
)
def test_the_first_key_takes_the_place_of_the_empty_list(text: str) -> None:
    edited = with_key(text, "f", NEW)
    assert read(edited) == (NEW,)
    assert edited.count("#") == text.count("#")


def test_a_form_that_cannot_be_changed_without_losing_comments_is_left_alone() -> None:
    text = f"version: 1\nkeys: [{{{one(1)}}}]  # hers\n"
    with pytest.raises(CannotChange, match="without losing its comments"):
        with_key(text, "f", NEW)
    odd = FORMS["no indentation"].replace("  owner", '  "expires": 2026-01-31T12:00:00Z\n  owner')
    assert read(with_time(odd, "f", "00000001", "expires", AT + 1))[0].expires == AT + 1  # written anew
    with pytest.raises(CannotChange):
        with_time("# ours\n" + odd, "f", "00000001", "expires", AT + 1)


@pytest.mark.parametrize("text", ["version: 1\n", "version: 1\nkeys: [1]\n", "x: [", "version: 1\nkeys:\n- {id: a}\n"])
def test_a_bad_file_is_never_changed(text: str) -> None:
    with pytest.raises(Mistakes):
        with_key(text, "f", NEW)
    with pytest.raises(Mistakes):
        with_time(text, "f", "a", "revoked", AT)


def test_a_key_that_is_not_there_cannot_be_ended() -> None:
    with pytest.raises(KeyError):
        with_time(FORMS["braces"], "f", "k7f3m2qa", "revoked", AT)


names = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=40).map(
    lambda text: text.strip() or "x"
)


@given(owner=names, groups=st.lists(names, max_size=4), note=st.none() | names, number=st.integers(0, 99_999_999))
def test_whatever_a_key_is_called_it_is_read_as_it_was_meant(
    owner: str, groups: list[str], note: str | None, number: int
) -> None:
    """Also names that look like numbers, switches, comments or YAML."""
    made = Entry(f"{number:08}", NEW.digest, owner, AT, tuple(groups), AT + 5, None, note)
    for form in FORMS.values():
        if number not in {1, 2}:
            assert read(with_key(form, "f", made))[-1] == made


def test_a_time_is_written_as_it_is_read() -> None:
    assert stamp(AT) == "2026-01-31T12:00:00Z"
    assert read(with_time(FORMS["braces"], "f", "00000001", "expires", 0.0))[0].expires == 0.0
