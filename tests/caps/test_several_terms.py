"""Several rules let a call in, each under its own terms; bodies that are not read as JSON; salts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.call import Fields, Grant, Principal
from gateway.caps.meeting import Meeting
from gateway.drive import Drive
from gateway.errors import BadRequest, CapExceeded, TooLarge, UnsupportedMedia
from gateway.exchange import Exchange
from gateway.seams import Interface, Resolved, UsageKind
from gateway.terms import NO_TERMS, Terms
from tests.caps.asked import ALICE, LIMIT, MODEL, Body, Met, meet, pool
from tests.path.fakes import CALL, Recorder

LOW, HIGH = Terms(max_tokens=10), Terms(max_tokens=100)

#: Terms, what a call asks for, the rule under which it passes, and the budget that it has then.
CHOICES = [
    ((LOW, HIGH), 5, "r0", 5),
    ((LOW, HIGH), 50, "r1", 50),
    ((HIGH, LOW), 5, "r0", 5),
    ((LOW, HIGH), None, "r0", 10),
    ((HIGH, LOW), None, "r0", 100),
    ((LOW, NO_TERMS), None, "r1", None),
    ((LOW, NO_TERMS), 10_000, "r1", 10_000),
    ((LOW, replace(HIGH, clamp=True)), 500, "r1", 100),
    ((replace(LOW, clamp=True), HIGH), 50, "r1", 50),
    ((replace(LOW, clamp=True), replace(HIGH, clamp=True)), 500, "r0", 10),
]


@pytest.mark.parametrize(("terms", "asks", "rule", "gets"), CHOICES)
def test_a_call_passes_under_the_rule_that_changes_least(
    terms: tuple[Terms, ...], asks: int | None, rule: str, gets: int | None
) -> None:
    met = meet({} if asks is None else {"max_tokens": asks}, *terms)
    assert (met.rule, met.says.get("max_tokens")) == (rule, gets)
    assert bool(met.told) is (asks != gets)


def test_a_call_that_no_rule_takes_is_refused_in_the_words_of_the_first() -> None:
    with pytest.raises(CapExceeded, match="you may ask for 10 at most"):
        meet({"max_tokens": 500}, LOW, HIGH)


def test_a_clamp_that_cannot_lower_everything_lowers_nothing() -> None:
    with pytest.raises(CapExceeded, match="tools"):
        meet({"max_tokens": 50, "tools": [{}]}, replace(LOW, tools=0, clamp=True))


def test_a_refusal_names_what_is_wrong_first_where_nothing_would_be_lowered() -> None:
    with pytest.raises(CapExceeded, match="'max_tokens'"):
        meet({"max_tokens": 50, "tools": [{}]}, replace(LOW, tools=0))


def test_a_body_that_grows_beyond_what_the_pool_takes_is_too_large() -> None:
    body = b'{"x":"%b"}' % (b"a" * (LIMIT - 8))
    assert meet(body).payload == body
    with pytest.raises(TooLarge, match=f"the {LIMIT} bytes"):
        meet(body, LOW)


GENERATE = Interface.GENERATE


def test_a_generate_call_of_triton_is_read_and_held() -> None:
    met = meet(b' {"text_input":"a","max_tokens":7}', LOW, interface=GENERATE, unread=True)
    assert met.payload == b' {"text_input":"a","max_tokens":7}'
    assert meet({"text_input": "a"}, LOW, interface=GENERATE, unread=True).says == {"text_input": "a", "max_tokens": 10}
    inner = {"text_input": "a", "parameters": {"max_tokens": 7}}
    assert meet(inner, LOW, interface=GENERATE, unread=True).says == inner
    for body in ({"max_tokens": 11}, {"max_tokens": 1, "parameters": {"max_tokens": 11}}):
        with pytest.raises(CapExceeded, match="is 11"):
            meet(body, LOW, interface=GENERATE, unread=True)
    with pytest.raises(CapExceeded, match="'sampling_parameters'"):
        meet({"max_tokens": 1, "sampling_parameters": '{"max_tokens":99}'}, LOW, interface=GENERATE, unread=True)
    with pytest.raises(BadRequest):
        meet(b"no JSON", LOW, interface=GENERATE, unread=True)
    with pytest.raises(UnsupportedMedia):
        meet(b"{}", LOW, interface=GENERATE, unread=True, fields=((b"content-encoding", b"gzip"),))


FIELD_LIMITS = [
    LOW,
    Terms(n=1),
    Terms(best_of=1),
    Terms(logprobs=1),
    Terms(prompts=1),
    Terms(images=1),
    Terms(tools=1),
    Terms(remote_media=False),
]


@pytest.mark.parametrize("limit", FIELD_LIMITS)
def test_a_body_that_nobody_understands_is_refused_where_its_fields_are_limited(limit: Terms) -> None:
    with pytest.raises(CapExceeded, match="cannot be seen on this route"):
        meet(b"tensors", limit, interface=Interface.UNKNOWN, unread=True)
    assert meet(b"tensors", limit, Terms(input=9), interface=Interface.UNKNOWN, unread=True).rule == "r1"
    assert meet(b"tensors", limit, NO_TERMS, interface=Interface.UNKNOWN, unread=True).payload is None


@pytest.mark.parametrize("limit", FIELD_LIMITS)
def test_json_whose_words_nobody_knows_is_refused_where_its_members_are_limited(limit: Terms) -> None:
    body = {"requests": [{"max_tokens": 100_000}]}
    with pytest.raises(CapExceeded, match="cannot be seen on this route"):
        meet(body, limit, interface=Interface.UNKNOWN)
    assert meet(body, limit, Terms(input=99), interface=Interface.UNKNOWN).rule == "r1"


def test_a_call_for_several_models_is_refused_in_the_name_of_the_rule_that_it_does_not_meet() -> None:
    asked = Resolved((MODEL, MODEL), pool(), b"/x", b'{"n":2}', LIMIT, UsageKind.NONE, {"n": 2}, Interface.PLAIN)
    grants = tuple(
        Grant(ALICE, MODEL, rule, "p.yaml:1", (), ((rule, terms),))
        for rule, terms in (("wide", Terms(n=2)), ("narrow", Terms(n=1)))
    )
    exchange = Exchange(CALL, Body(b'{"n":2}'), Recorder())
    with pytest.raises(CapExceeded) as caught:
        Meeting().held(asked, grants, exchange)
    assert caught.value.rule == "narrow"
    met = Meeting().held(asked, grants[:1], exchange)
    assert (met.rule, met.grant, met.resolved.payload) == ("wide", grants[0], b'{"n":2}')


def test_how_much_may_be_streamed_is_known_before_it_comes() -> None:
    met = meet(b"tensors", Terms(input=5), interface=Interface.UNKNOWN, unread=True)
    assert (met.resolved.limit, met.payload) == (5, None)
    two = (Terms(input=9), Terms(input=10))
    assert meet(b"10 tensors", *two, interface=Interface.UNKNOWN, unread=True).resolved.limit == 10
    assert meet(b"a", *two, interface=Interface.UNKNOWN, unread=True, announced=False).resolved.limit == 10
    met = meet(b"a", *two, NO_TERMS, interface=Interface.UNKNOWN, unread=True, announced=False)
    assert (met.resolved.limit, met.rule) == (LIMIT, "r2")


@pytest.mark.parametrize("limit", FIELD_LIMITS)
def test_a_body_that_was_read_but_is_not_understood_is_refused_where_its_fields_are_limited(limit: Terms) -> None:
    with pytest.raises(CapExceeded, match="cannot be seen on this route"):
        meet({"model": "small", "content": "x"}, limit, interface=Interface.UNKNOWN)
    assert meet({"model": "small"}, limit, NO_TERMS, interface=Interface.UNKNOWN).rule == "r1"


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_a_rule_that_takes_small_bodies_takes_nothing_from_one_that_limits_tokens(
    announced: bool, turned: bool
) -> None:
    two = (LOW, Terms(input=1024)) if turned else (Terms(input=1024), LOW)
    low, small = ("r0", "r1") if turned else ("r1", "r0")

    def held(body: dict[str, object] | bytes, fields: Fields = ()) -> Met:
        return meet(body, *two, interface=GENERATE, unread=True, announced=announced, fields=fields)

    large = {"text_input": "x" * 3000, "max_tokens": 5}
    assert (held(large).says, held(large).rule) == (large, low)
    assert held({"text_input": "x", "max_tokens": 500}).rule == small
    assert held(b"no JSON").rule == small
    assert held(b"coded", ((b"content-encoding", b"gzip"),)).rule == small
    with pytest.raises((CapExceeded, TooLarge)):
        held({"text_input": "x" * 3000, "max_tokens": 500})


@pytest.mark.parametrize("turned", [False, True])
def test_a_call_for_two_models_is_read_for_the_one_whose_rule_limits_fields(turned: bool) -> None:
    """The other takes small bodies of any kind, and how large this one is shows only when it is there."""
    body = b'{"text_input":"a","max_tokens":50}'
    asked = Resolved((MODEL, MODEL), pool(), b"/x", None, LIMIT, UsageKind.NONE, None, GENERATE)
    both = (("small", Terms(input=1024)), ("low", LOW)), (("high", HIGH),)
    grants = tuple(Grant(ALICE, MODEL, each[0][0], "p.yaml:1", (), each) for each in (both[::-1] if turned else both))
    exchange = Exchange(CALL, Body(body, announced=False), Recorder())
    opened = list[Resolved]()

    async def path() -> None:
        opened.append(await Meeting().opened(asked, grants, exchange))

    Drive(path()).step()
    met = Meeting().held(opened[0], grants, exchange)
    assert (met.rule, met.resolved.payload) == ("high" if not turned else "small", body)


@pytest.mark.parametrize("interface", [Interface.UNKNOWN, Interface.GENERATE, Interface.FORM])
def test_a_call_without_a_body_asks_for_nothing(interface: Interface) -> None:
    met = meet(b"", LOW, interface=interface, bodiless=True)
    assert (met.payload, met.told, met.rule) == (b"", [], "r0")


FORM = ((b"content-type", b"application/x-www-form-urlencoded"),)


def test_the_fields_of_a_form_are_held_and_nothing_is_changed() -> None:
    def form(text: bytes, *terms: Terms, interface: Interface = Interface.FORM) -> bytes | None:
        return meet(text, *terms, interface=interface, fields=FORM).payload

    assert form(b"model=a&max_completion_tokens=10", LOW) == b"model=a&max_completion_tokens=10"
    assert form(b"model=a", replace(LOW, clamp=True)) == b"model=a"
    for text in (b"max_completion_tokens=11", b"max_completion_tokens=1e9", b"max_completion_tokens=-1", b"priority=1"):
        with pytest.raises(CapExceeded):
            form(text, replace(LOW, clamp=True))
    with pytest.raises(CapExceeded, match="outside of the call"):
        form(b"url=http://x", Terms(remote_media=False))
    with pytest.raises(CapExceeded, match="not counted"):
        form(b"n=1", Terms(images=3), interface=Interface.PICTURE_FORM)
    assert form(b"n=99", NO_TERMS) == b"n=99"
    assert form(b"n=99", Terms(input=4)) == b"n=99"
    with pytest.raises(TooLarge):
        form(b"n=99", Terms(input=3))


def salted(by: str, principal: Principal = ALICE, groups_used: tuple[str, ...] = ()) -> str:
    met = meet({"a": 1}, by=pool(cache_salt=by), principal=principal, groups_used=groups_used)
    assert (met.told, met.changed) == ([], ())
    return str(met.says["cache_salt"])


def test_calls_of_one_tenant_share_a_salt_and_those_of_two_do_not() -> None:
    bob = replace(ALICE, subject="bob")
    elsewhere = replace(ALICE, provider="other")
    assert salted("subject") == salted("subject") != salted("subject", principal=bob)
    assert salted("subject") != salted("subject", principal=elsewhere)
    assert salted("provider") == salted("provider", principal=bob) != salted("provider", principal=elsewhere)
    assert salted("client") == salted("client", principal=bob) != salted("client", principal=replace(ALICE, client="b"))
    nobody = replace(ALICE, client=None), replace(bob, client=None)
    assert salted("client", principal=nobody[0]) != salted("client", principal=nobody[1])
    assert salted("group", ALICE, ("ds",)) == salted("group", bob, ("ds",)) != salted("group", ALICE, ("ml",))
    assert salted("group") != salted("group", principal=bob)
    assert len(salted("subject")) == 64


def test_a_salt_goes_only_where_engines_know_it() -> None:
    with_salt = [
        each
        for each in Interface
        if each not in {Interface.FORM, Interface.PICTURE_FORM}
        and b"cache_salt" in (meet({"a": 1}, interface=each, by=pool(cache_salt="subject")).payload or b"")
    ]
    assert with_salt == [Interface.CHAT, Interface.COMPLETIONS, Interface.RESPONSES]


def test_where_the_gateway_salts_a_caller_cannot_whatever_a_rule_opens() -> None:
    opened = Terms(engine_fields=frozenset({"cache_salt"}))
    by = pool(cache_salt="subject")
    for terms in ((), (opened,)):
        with pytest.raises(CapExceeded, match="'cache_salt'"):
            meet({"cache_salt": "mine"}, *terms, by=by)
    met = meet({"cache_salt": "mine"}, replace(opened, clamp=True), by=by)
    assert met.says == {"cache_salt": salted("subject")}
    assert met.told == ["tell x-gateway-clamped: cache_salt removed"]
    assert meet({"cache_salt": "mine"}, opened).says == {"cache_salt": "mine"}
