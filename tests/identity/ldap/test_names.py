"""Distinguished names and filter values: whatever somebody types stays one value, and one entry has one key."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ldap3.operation.search import search_operation
from ldap3.utils.dn import parse_dn

from gateway.identity.ldap.names import Name, escape_assertion, escape_value, parse, part_of
from tests.parts.ldap_messages import escaped

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
#: B084: names that a template without escaping would take apart.
TYPED = (
    "x,ou=admins",
    "a+b",
    "#x",
    " x",
    "x ",
    'a"b',
    "a\\,b",
    "a=b",
    "a;b",
    "a\\",
    "<a>",
    " ",
    "  ",
    "#",
    "\x00",
    "élise",
)


@given(TEXT)
@pytest.mark.parametrize("position", ["uid={},ou=people,dc=test", "ou=a+uid={},dc=test", "uid={}"])
def test_whatever_is_put_into_a_name_is_one_value_of_it(position: str, value: str) -> None:
    """B084: 0 injections, by our own reader."""
    name = parse(position.format(escape_value(value)))
    assert [part.value for step in name.steps for part in step if part.type == "uid"] == [value]
    assert len(name.steps) == position.count(",") + 1


@pytest.mark.parametrize("value", TYPED)
def test_others_read_the_same_value(value: str) -> None:
    """B084: by the library's reader, which takes names apart but leaves their escapes."""
    pieces = parse_dn(f"uid={escape_value(value)},ou=people,dc=test")
    assert [piece[0] for piece in pieces] == ["uid", "ou", "dc"]


@given(TEXT.filter(bool))
@example("*")
@example("alice)(uid=*")
@example("*)(|(uid=*")
@example("alice\\2a")
@example("\\")
@example("alice\\00")
@example(" alice ")
def test_whatever_is_put_into_a_filter_is_one_value_of_it(value: str) -> None:
    """B083: 0 injections, by what the library puts on the wire."""
    text = f"(&(uid={escape_assertion(value)})(objectClass=person))"
    asked = search_operation("dc=test", text, 2, 0, ["uid"], 0, 0, False, False, True)
    first, second = asked["filter"]["and"]
    assert bytes(first["equalityMatch"]["assertionValue"]) == value.encode()
    assert str(second["equalityMatch"]["assertionValue"]) == "person"


@given(st.binary(max_size=40))
def test_bytes_stand_in_a_filter_as_the_tests_write_them(value: bytes) -> None:
    assert escape_assertion(value) == escaped(value)


@pytest.mark.parametrize(
    "other",
    [
        "CN=Data Science,OU=Groups,DC=example,DC=test",
        "cn=data science, ou=groups, dc=example, dc=test",
        "cn=data   science,ou=groups,dc=example,dc=test",
        "cn = data science , ou = groups,dc=example,dc=test",
        "cn=data\\20science,ou=groups,dc=example,dc=test",
        "2.5.4.3=data science,OID.2.5.4.11=groups,dc=example,dc=test",
        "cn=#0c0c6461746120736369656e6365,ou=groups,dc=example,dc=test",
        "cn=\\64ata science;ou=groups;dc=example;dc=test",
        "commonName=ｄａｔａ science,ou=groups,dc=example,dc=test",
    ],
)
def test_one_entry_has_one_key_however_its_name_is_written(other: str) -> None:
    """B084: case, spaces, types by number, hexadecimal."""
    assert parse(other).key == parse("cn=data science,ou=groups,dc=example,dc=test").key


@pytest.mark.parametrize(
    "other",
    [
        "cn=data science,ou=groups,dc=example",
        "cn=datascience,ou=groups,dc=example,dc=test",
        "cn=data science\\,ou=groups,dc=example,dc=test",
        "ou=data science,ou=groups,dc=example,dc=test",
        "cn=data science+ou=groups,dc=example,dc=test",
        "cn=dätä science,ou=groups,dc=example,dc=test",
        "",
    ],
)
def test_other_entries_have_other_keys(other: str) -> None:
    assert parse(other).key != parse("cn=data science,ou=groups,dc=example,dc=test").key


@given(st.lists(st.tuples(st.sampled_from(["cn", "ou", "dc"]), TEXT), min_size=1, max_size=4), st.randoms())
def test_the_order_of_parts_within_a_step_means_nothing(parts: list[tuple[str, str]], random: object) -> None:
    written = [f"{kind}={escape_value(value)}" for kind, value in parts]
    assert parse("+".join(written)).key == parse("+".join(reversed(written))).key


@given(TEXT)
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a",
            "=a",
            "cn",
            "cn=a,",
            ",cn=a",
            "cn=a,,dc=b",
            'cn="a"',
            "cn=a\\",
            "cn=a\\zz",
            "cn=a<b",
            "cn=#zz",
            "cn=#30020101",
        ),
        *("cn=#0c05ab", "cn=\\ff", "1=a", "a b=c", "cn=a+", "cn=\x00", "cn=" + "a" * 9000),
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_what_lies_below_a_base() -> None:
    base = parse("ou=Groups,dc=example,dc=test")
    assert parse("cn=a,OU=groups,DC=Example,DC=test").under(base)
    assert parse("cn=b,cn=a,ou=groups,dc=example,dc=test").under(base)
    assert base.under(base)
    assert base.under(Name(()))
    for other in (
        "cn=a,dc=example,dc=test",
        "cn=a\\,ou=groups,dc=example,dc=test",
        "dc=test",
        "ou=xgroups,dc=example,dc=test",
    ):
        assert not parse(other).under(base)


def test_the_domain_of_a_name_is_what_its_last_steps_say() -> None:
    assert parse("CN=Alice,OU=ml,DC=corp,DC=example,DC=test").domain() == "dc=corp,dc=example,dc=test"
    assert parse("uid=alice,o=example").domain() == ""
    assert parse("dc=x+cn=y,dc=test").domain() == "dc=test"


def test_a_part_shows_its_type_by_the_common_name() -> None:
    assert part_of("2.5.4.3", "a") == part_of("CN", "a") == part_of("commonName", "a")
