"""The form of the `Authorization` field: what is ours, what is nobody's, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Call, Principal
from gateway.errors import Unidentified
from gateway.identity.credentials.bearer import bearer_token
from gateway.identity.first import FirstOf
from gateway.identity.refused import BadToken
from tests.identity.conftest import Bench, call_with, challenge

NAME = b"authorization"


@pytest.mark.parametrize(
    "form",
    ["Bearer {}", "bearer {}", "BEARER {}", "bEaReR {}", "Bearer  {}", "Bearer     {}", "Bearer {} ", " Bearer {}\t"],
)
async def test_the_scheme_has_any_case_and_spaces_may_be_several(bench: Bench, form: str) -> None:
    """B076: RFC 9110 sections 11.1 and 11.4; white space around a field value is not part of it."""
    principal = await bench.identity.identify(call_with((NAME, form.format(bench.token()).encode())))
    assert principal is not None
    assert principal.subject == "alice"


@pytest.mark.parametrize(
    "form",
    [
        "Bearer", "Bearer ", "bearer\t{}", "Bearer \t{}", 'Bearer "{}"', "Bearer {},Bearer {}", "Bearer {}, Bearer {}",
        "Bearer {} {}", "Bearer {} x=y", "Bearer token={}", "Bearer,{}", "Bearer={}", 'Bearer realm="x"', "Bearer:{}",
        "Bearer \u00e9", "Bearer \x00", "Bearer {}\r\nx", "Bearer \u00a0{}",
    ],
)  # fmt: skip
async def test_an_odd_form_of_our_scheme_is_refused(bench: Bench, form: str) -> None:
    """B076."""
    token = bench.token()
    with pytest.raises(BadToken) as caught:
        await bench.identity.identify(call_with((NAME, form.replace("{}", token).encode())))
    assert b'error="invalid_token"' in challenge(caught.value.headers)
    assert not any(result == "ok" for _, result in bench.counts)


@pytest.mark.parametrize("form", ["Basic YTpi", "BearerX {}", "Bearer-Token {}", "Bear {}", "{}", "", " "])
async def test_another_scheme_is_left_to_others(bench: Bench, form: str) -> None:
    call = call_with((NAME, form.format(bench.token()).encode()))
    assert await bench.identity.identify(call) is None
    assert not bench.counts


@pytest.mark.parametrize("second", ["Bearer {}", "Basic YTpi", ""])
@pytest.mark.parametrize("turned", [False, True])
async def test_two_lines_are_refused_even_if_they_are_the_same(bench: Bench, second: str, turned: bool) -> None:
    """B076: the next hop could take the other one."""
    token = bench.token()
    lines = [(NAME, f"Bearer {token}".encode()), (NAME, second.format(token).encode())]
    with pytest.raises(BadToken):
        await bench.identity.identify(call_with(*(reversed(lines) if turned else lines)))
    assert bench.counts == {("unknown", "malformed"): 1}


class Nobody:
    """An identity that recognises nothing."""

    def recall(self, call: Call) -> Principal | None:
        return None

    async def identify(self, call: Call) -> Principal | None:
        return None

    def revoked(self, call: Call, why: str, /) -> Unidentified:
        raise AssertionError("it recognised nobody")


async def test_a_call_without_a_credential_is_told_which_kinds_are_taken(bench: Bench) -> None:
    """RFC 6750 section 3.1: without a credential there is no error code."""
    identify = FirstOf(
        [Nobody(), bench.identity], (b'Bearer realm="nim-gateway"', b'Basic realm="nim-gateway"')
    ).identify
    with pytest.raises(Unidentified) as caught:
        await identify(call_with((b"host", b"gw.test")))
    assert caught.value.headers == (
        (b"www-authenticate", b'Bearer realm="nim-gateway"'),
        (b"www-authenticate", b'Basic realm="nim-gateway"'),
    )
    with pytest.raises(Unidentified) as caught:
        await FirstOf([]).identify(call_with())
    assert caught.value.headers == ((b"www-authenticate", b'Bearer realm="nim-gateway"'),)


async def test_the_first_identity_that_recognises_the_credential_decides(bench: Bench) -> None:
    good = call_with((NAME, f"Bearer {bench.token()}".encode()))
    bad = call_with((NAME, f"Bearer {bench.token(exp=1)}".encode()))
    identify = FirstOf([Nobody(), bench.identity, Nobody()]).identify
    assert (await identify(good)).subject == "alice"
    with pytest.raises(BadToken, match="expired"):
        await identify(bad)


async def test_what_is_said_of_a_bad_token_is_plain_and_quotes_nothing_of_it(bench: Bench) -> None:
    """RFC 6750 section 3: error_description has a narrow alphabet. The text says what is wrong with this token."""
    with pytest.raises(BadToken) as caught:
        await bench.identity.identify(call_with((NAME, f"Bearer {bench.token(aud='secret-app')}".encode())))
    said = challenge(caught.value.headers).decode()
    assert re.fullmatch(r'Bearer realm="nim-gateway", error="invalid_token", error_description="[ !#-\[\]-~]+"', said)
    assert "audience" in said
    assert "audience" in caught.value.message
    assert "secret-app" not in said + caught.value.message


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda raw: b"Bearer " + raw))
def test_any_bytes_are_a_token_or_another_scheme_or_refused(value: bytes) -> None:
    try:
        token = bearer_token(value)
    except BadToken:
        return
    assert token is None or (token.isascii() and token and not re.search(r"[\s,\"]", token))
