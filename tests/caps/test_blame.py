"""Which refusals name the rule whose terms a call was held against."""

from __future__ import annotations

import pytest

from gateway.call import Grant
from gateway.caps.meeting import Meeting
from gateway.drive import Drive
from gateway.errors import BadRequest, ClientGone, Overloaded, Refusal, TooLarge
from gateway.exchange import Exchange
from gateway.resolve import jsonbody
from gateway.seams import Interface, Resolved, UsageKind
from gateway.terms import Terms
from tests.caps.asked import ALICE, LIMIT, MODEL, Body, pool
from tests.path.fakes import CALL, Recorder

LOW = Terms(max_tokens=10)


class Broken(Body):
    """A body that ends in this way."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(b"", announced=False)
        self.refusal = refusal

    async def whole(self, limit: int) -> bytes:
        raise self.refusal


def refused(
    terms: Terms, body: Body, *, interface: Interface = Interface.PLAIN, payload: bytes | None = None
) -> Refusal:
    """How a call under the rule `one` is refused."""
    fields = None if payload is None else jsonbody.peek(payload).fields
    limit = LIMIT if payload is None else len(payload)
    asked = Resolved((MODEL,), pool(), b"/x", payload, limit, UsageKind.NONE, fields, interface)
    grants = (Grant(ALICE, MODEL, "one", "p.yaml:1", (), (("one", terms),)),)
    exchange, found = Exchange(CALL, body, Recorder()), list[Refusal]()

    async def path() -> None:
        meeting = Meeting()
        try:
            meeting.held(await meeting.opened(asked, grants, exchange), grants, exchange)
        except Refusal as refusal:
            found.append(refusal)

    Drive(path()).step()
    return found[0]


@pytest.mark.parametrize("refusal", [ClientGone(), Overloaded(), BadRequest("x"), TooLarge.beyond(LIMIT)])
def test_an_upload_that_fails_is_no_rule_s_refusal(refusal: Refusal) -> None:
    caught = refused(LOW, Broken(refusal))
    assert (caught, caught.rule) == (refusal, "")


def test_a_body_that_nobody_can_read_or_that_the_pool_does_not_take_is_no_rule_s_refusal() -> None:
    assert refused(LOW, Body(b"no JSON", announced=False)).rule == ""
    grown = refused(LOW, Body(b'{"a":1}'), interface=Interface.CHAT, payload=b'{"a":1}')
    assert (type(grown), grown.rule) == (TooLarge, "")


def test_what_a_rule_s_terms_refuse_names_the_rule() -> None:
    assert refused(LOW, Body(b'{"max_tokens":11}', announced=False)).rule == "one"
    assert refused(Terms(max_tokens=9, input=9), Broken(TooLarge.beyond(9))).rule == "one"
    small = refused(Terms(input=6), Body(b'{"a":1}'), interface=Interface.CHAT, payload=b'{"a":1}')
    assert (type(small), small.rule) == (TooLarge, "one")
