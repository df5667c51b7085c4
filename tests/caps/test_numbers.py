"""Budgets and other numbers: at most the cap, whole as JSON writes it, filled in where the call names none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import CapExceeded
from gateway.seams import Interface
from gateway.terms import Terms
from tests.caps.asked import meet

CAP = Terms(max_tokens=100, n=2, best_of=3, logprobs=5)
CLAMP = Terms(max_tokens=100, n=2, best_of=3, logprobs=5, clamp=True)

CAPPED = [
    ("max_tokens", 100), ("max_completion_tokens", 100), ("max_output_tokens", 100), ("max_new_tokens", 100),
    ("n_predict", 100), ("num_predict", 100), ("min_tokens", 100), ("thinking_token_budget", 100), ("n", 2),
    ("best_of", 3), ("logprobs", 5), ("top_logprobs", 5), ("prompt_logprobs", 5), ("request_output_len", 100),
    ("budget_tokens", 100), ("thinking_budget", 100), ("max_reasoning_tokens", 100), ("reasoning_max_tokens", 100),
    ("num_outputs_per_prompt", 2), ("num_return_sequences", 2), ("beam_width", 2), ("num_beams", 2),
    ("samples", 2), ("num_samples", 2), ("num_images", 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "cap"), CAPPED)
def test_a_number_above_its_cap_is_refused_by_name_value_and_cap(name: str, cap: int) -> None:
    with pytest.raises(CapExceeded) as refused:
        meet({"max_tokens": 1, name: cap + 1}, CAP)
    assert str(refused.value) == f"'{name}' is {cap + 1}, and you may ask for {cap} at most."
    assert (refused.value.param, refused.value.status, refused.value.code) == (name, 400, "cap_exceeded")
    assert refused.value.detail == f"{name} {cap + 1} > {cap}"


@pytest.mark.parametrize(("name", "cap"), CAPPED)
def test_a_number_at_its_cap_goes_on_as_it_came(name: str, cap: int) -> None:
    body = json.dumps({"max_tokens": 1, name: cap}).encode()
    met = meet(body, CAP)
    assert (met.payload, met.told, met.changed, met.rule) == (body, [], (), "r0")


@pytest.mark.parametrize(("name", "cap"), CAPPED)
def test_where_a_rule_clamps_the_number_is_lowered_and_said(name: str, cap: int) -> None:
    met = meet({"max_tokens": 1, name: cap + 1, "x": [1]}, CLAMP)
    assert met.says == {"max_tokens": 1, name: cap, "x": [1]}
    assert met.told == [f"tell x-gateway-clamped: {name}={cap}"]
    assert met.changed == (f"{name}={cap}",)


ODD = ['"4096"', "1e5", "100.0", "true", "-1", "0", "[1]", "{}", "1e400", "99999999999999999999999", '""']


@pytest.mark.parametrize("value", [value for value in ODD if value != "1e400"])
@pytest.mark.parametrize("terms", [CAP, CLAMP])
@pytest.mark.parametrize("name", ["max_tokens", "n", "max_completion_tokens"])
def test_what_engines_would_make_a_number_of_is_none_where_there_is_a_cap(name: str, value: str, terms: Terms) -> None:
    with pytest.raises(CapExceeded) as refused:
        meet(
            f'{{"max_tokens":1,"{name}":{value}}}'.encode()
            if name != "max_tokens"
            else f'{{"max_tokens":{value}}}'.encode(),
            terms,
        )
    assert refused.value.param == name
    assert "whole number from 1 to" in str(refused.value)


@pytest.mark.parametrize(
    ("interface", "name"),
    [
        (Interface.CHAT, "max_tokens"),
        (Interface.COMPLETIONS, "max_tokens"),
        (Interface.MESSAGES, "max_tokens"),
        (Interface.RESPONSES, "max_output_tokens"),
        (Interface.GENERATE, "max_tokens"),
    ],
)
@pytest.mark.parametrize("terms", [CAP, CLAMP])
@pytest.mark.parametrize("null", [False, True])
def test_a_call_that_names_no_budget_gets_the_cap_and_is_told(
    interface: Interface, name: str, terms: Terms, null: bool
) -> None:
    body: dict[str, Any] = {"x": "1", **({name: None} if null else {})}
    met = meet(body, terms, interface=interface)
    assert met.says == {"x": "1", name: 100}
    assert met.told == [f"tell x-gateway-clamped: {name}=100"]


@pytest.mark.parametrize("interface", [Interface.PLAIN])
def test_a_route_that_generates_no_tokens_gets_no_budget(interface: Interface) -> None:
    assert meet({"input": "x"}, CAP, interface=interface).says == {"input": "x"}


def test_a_budget_under_either_name_is_a_budget_of_a_chat() -> None:
    assert meet({"max_completion_tokens": 5}, CAP).says == {"max_completion_tokens": 5}
    assert meet({"max_completion_tokens": 5, "max_tokens": None}, CAP).changed == ()


def test_a_budget_that_the_interface_does_not_know_is_none() -> None:
    met = meet({"max_completion_tokens": 5}, CAP, interface=Interface.COMPLETIONS)
    assert met.says == {"max_completion_tokens": 5, "max_tokens": 100}


def test_a_budget_within_another_member_is_none_but_for_triton() -> None:
    assert meet({"parameters": {"max_tokens": 5}}, CAP).says == {"parameters": {"max_tokens": 5}, "max_tokens": 100}


def test_log_probabilities_may_be_a_switch() -> None:
    assert meet({"max_tokens": 1, "logprobs": True, "top_logprobs": 5}, CAP).changed == ()


@pytest.mark.parametrize("holder", ["nvext", "extra_body", "parameters", "sampling_params"])
@pytest.mark.parametrize("terms", [CAP, CLAMP])
def test_a_number_within_a_member_that_servers_unpack_is_held_too(holder: str, terms: Terms) -> None:
    with pytest.raises(CapExceeded, match=rf"'{holder}.max_tokens' is 101"):
        meet({"max_tokens": 1, holder: {"max_tokens": 101}}, terms)
    assert meet({"max_tokens": 1, holder: {"max_tokens": 100}}, terms).changed == ()
    with pytest.raises(CapExceeded, match="more than once"):
        meet(b'{"max_tokens":1,"%b":{"max_tokens":1,"max_tokens":101}}' % holder.encode(), terms)


@pytest.mark.parametrize("name", ["Max_Tokens", "MAX_TOKENS", "max_token\u017f", "N", "Tools"])
def test_a_limited_member_in_other_letters_is_refused(name: str) -> None:
    with pytest.raises(CapExceeded, match="in lower case"):
        meet({name: 1}, CAP)
    assert meet({name: 1}).payload is not None


@given(
    st.dictionaries(
        st.sampled_from([name for name, _ in CAPPED]),
        st.none() | st.integers(-3, 300) | st.booleans() | st.floats(0, 9),
    ),
    st.sampled_from([CAP, CLAMP]),
    st.sampled_from(list(Interface)),
)
def test_whatever_passes_asks_for_no_more_than_the_caps(
    body: dict[str, Any], terms: Terms, interface: Interface
) -> None:
    if interface in {Interface.FORM, Interface.PICTURE_FORM}:
        return
    try:
        says = meet(body, terms, interface=interface).says
    except CapExceeded:
        return
    for name, cap in CAPPED:
        value = says.get(name)
        assert value is None or isinstance(value, bool) or (type(value) is int and value <= cap)
    assert all(says[name] == value for name, value in body.items() if name not in dict(CAPPED))
