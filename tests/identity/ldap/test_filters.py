"""Search filters with places: which are taken, and what is asked when they are filled."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.identity.ldap.filters import Filter, all_of, any_of

RULE = "1.2.840.113556.1.4.1941"


@pytest.mark.parametrize(
    "text",
    [
        "(uid={username})",
        "(&(objectClass=person)(|(uid={username})(mail={username}@example.com)))",
        "(!(uid={username}))",
        "( uid = {username} )",
        "(&(uid={username})(userAccountControl:1.2.840.113556.1.4.803:=512))",
        "(cn:dn:caseExactMatch:={username})",
        "(cn;lang-de={username})",
        "(2.5.4.3={username})",
        "(cn=a*{username}*\\2a)",
        "(uid>={username})",
        "(uid~={username})",
        "(cn:={username})",
        " (uid={username}) ",
        "(uid=\N{LATIN SMALL LETTER E WITH ACUTE}{username})",
    ],
)
def test_filters_of_every_kind_are_taken(text: str) -> None:
    assert Filter(text).places == {"username"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("uid={username}", "in parentheses"),
        ("", "in parentheses"),
        ("(uid={username}", "do not match"),
        ("(uid={username}))", "behind the last"),
        ("(uid={username})(cn=a)", "behind the last"),
        ("(&)", "join filters"),
        ("(!(a=b)(c=d))", "stands before one"),
        ("(& uid={username})", "join filters"),
        ("({username}=x)", "an attribute"),
        ("(uid={user})", "nothing is called {user}"),
        ("(uid={})", "nothing is called {}"),
        ("(uid={username)", "into a value only"),
        ("(uid=a\\zz)", "do not match"),
        ("(uid)", "an attribute"),
        ("(=a)", "an attribute"),
        ("(u(id=a))", "an attribute"),
        ("(" * 40 + "a=b" + ")" * 40, "an attribute"),
        ("(!" * 40 + "(a=b)" + ")" * 40, "nested too deeply"),
    ],
)
def test_what_is_no_filter_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        Filter(text)


def test_a_place_is_filled_once_whatever_is_put_there() -> None:
    filled = Filter("(|(member={dn})(memberUid={username}))").fill(username="{dn}", dn="cn={username}")
    assert filled == "(|(member=cn=\\7busername\\7d)(memberUid=\\7bdn\\7d))"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_filled_filter_is_a_filter_with_as_many_parts(username: str, dn: str) -> None:
    filled = Filter("(&(uid={username})(|(member={dn})(owner={dn})))").fill(username=username, dn=dn)
    assert filled.count("(") == filled.count(")") == 5
    assert Filter(filled).places == frozenset()


def test_for_anybody_it_says_what_it_asks_beside_the_name() -> None:
    assert Filter("(&(uid={username})(ou=ml))").for_anybody() == "(&(uid=*)(ou=ml))"


def test_an_active_directory_follows_members_by_its_own_rule() -> None:
    asked = Filter("(&(objectClass=group)( member = {dn} ))").in_chain(dn="CN=a\\,b")
    assert asked == f"(&(objectClass=group)(member:{RULE}:=CN=a\\5c,b))"
    assert Filter("(member={dn})").of_sid(b"\x01\x05(") == "(objectSid=\\01\\05\\28)"
    assert Filter("(|(member={dn})(memberUid={username}))").in_chain(dn="cn=a", username="(") == (
        f"(|(member:{RULE}:=cn=a)(memberUid=\\28))"
    )


@pytest.mark.parametrize("text", ["(memberUid={username})", "(member=x{dn})", "(member>={dn})", "(!(member={dn}*))"])
def test_what_compares_no_attribute_with_the_member_alone_is_not_followed(text: str) -> None:
    assert Filter(text).in_chain(dn="cn=a") is None


def test_several_are_joined_and_one_stays_as_it_is() -> None:
    assert any_of(["(a=b)"]) == all_of(["(a=b)"]) == "(a=b)"
    assert any_of(["(a=b)", "(c=d)"]) == "(|(a=b)(c=d))"
    assert all_of(["(a=b)", "(c=d)"]) == "(&(a=b)(c=d))"
