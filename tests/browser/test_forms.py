"""What a form may send: read within bounds, and in one way."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import BadRequest
from gateway.portal.forms import FIELDS_LIMIT, FORM_LIMIT, read_form
from tests.browser.here import FROM_HERE, Visitor

pairs = st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=FIELDS_LIMIT)


@given(pairs)
def test_what_a_browser_writes_is_read_as_it_was_typed(form: dict[str, str]) -> None:
    assert read_form(urlencode(form).encode()) == form


@given(st.binary(max_size=200))
def test_any_bytes_are_a_form_or_refused(raw: bytes) -> None:
    with suppress(BadRequest):
        form = read_form(raw)
        assert len(form) <= FIELDS_LIMIT


@pytest.mark.parametrize("raw", [b"a=1&a=2", b"a=%ff", b"\xff", b"&".join(b"f%d=" % n for n in range(20))])
def test_what_can_be_read_in_two_ways_or_not_at_all_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        read_form(raw)


def test_a_form_that_is_too_large_or_none_is_said_so_on_a_page(visitor: Visitor) -> None:
    too_large = {"guard": visitor.guard(), "name": "x" * FORM_LIMIT, "password": "x"}
    assert visitor.post("/auth/login", too_large).status == 413
    json = visitor.site.ask(
        "POST", "/auth/login", body=b"{}", headers={**FROM_HERE, "Content-Type": "application/json"}
    )
    assert json.status == 415
    assert b"<h1>" in json.body
