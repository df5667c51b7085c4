"""What is limited or closed is found wherever an engine may look for it, and what is the caller's own is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.caps.media import Media
from gateway.caps.members import SAID, find
from gateway.caps.names import ADAPTERS, noted
from gateway.caps.numbers import NUMBERS
from gateway.errors import CapExceeded
from gateway.seams import Interface
from gateway.terms import ENGINE_FIELDS, NO_TERMS, Terms
from tests.caps.asked import meet

STRICT = Terms(max_tokens=10, n=1, best_of=1, logprobs=1, prompts=2, images=1, tools=1, remote_media=False)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "priority": {"type": "string"}, "url": {}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
ASKED = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"n":99,"priority":1}'}}

#: Calls as SDKs write them: within the limits, whatever the words in them.
ORDINARY: list[tuple[Interface, dict[str, Any]]] = [
    (Interface.CHAT, {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "priority"}}}),
    (Interface.CHAT, {"functions": [TOOL["function"]], "function_call": {"name": "n"}}),
    (Interface.CHAT, {"messages": [{"role": "user", "content": "n", "priority": 1, "n": 9}]}),
    (Interface.CHAT, {"messages": [{"role": "assistant", "tool_calls": [ASKED]}, {"role": "tool", "content": "n"}]}),
    (Interface.CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "rid": "y"}]}]}),
    (Interface.CHAT, {"metadata": {"n": "9", "priority": "high", "session_id": "s", "url": "https://x"}}),
    (Interface.CHAT, {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
    (Interface.CHAT, {"extra_body": {"guided_json": SCHEMA}, "nvext": {"guided_json": SCHEMA}}),
    (Interface.CHAT, {"structured_outputs": {"json": SCHEMA}, "guided_json": SCHEMA}),
    (Interface.CHAT, {"chat_template_kwargs": {"enable_thinking": False, "thinking_budget": 5, "tools": [TOOL]}}),
    (Interface.CHAT, {"stream": True, "stream_options": {"include_usage": True}, "logit_bias": {"5": -100}}),
    (Interface.CHAT, {"reasoning": {"effort": "low"}, "modalities": ["text"], "stop": ["n", "priority"]}),
    (Interface.CHAT, {"documents": [{"title": "n", "priority": 1}], "user": "rid", "seed": 99}),
    (Interface.CHAT, {"prediction": {"type": "content", "content": "n"}, "web_search_options": {"priority": 1}}),
    (Interface.CHAT, {"guardrails": {"config_id": "x", "options": {"llm_params": {"max_tokens": 5}}}}),
    (Interface.CHAT, {"max_prompt_tokens": 9999, "truncate_prompt_tokens": 9999, "max_input_tokens": 9999}),
    (
        Interface.RESPONSES,
        {"input": [{"role": "user", "content": "n", "n": 9}], "text": {"format": {"schema": SCHEMA}}},
    ),
    (Interface.RESPONSES, {"prompt": {"id": "p", "variables": {"n": "9", "priority": "1"}}}),
    (Interface.MESSAGES, {"system": [{"type": "text", "text": "n"}], "tools": [{"name": "f", "input_schema": SCHEMA}]}),
    (Interface.MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 10}, "metadata": {"user_id": "n"}}),
    (Interface.PLAIN, {"query": {"text": "n", "priority": 1}, "passages": [{"text": "x", "n": 9}]}),
    (Interface.PLAIN, {"input": ["a", "b"], "encoding_format": "float", "dimensions": 1024}),
    (
        Interface.GENERATE,
        {"text_input": "a", "temperature": 0.5, "top_k": 50, "random_seed": 9999, "stop_words": ["a", "b", "c"]},
    ),
    (Interface.GENERATE, {"text_input": "a", "parameters": {"max_tokens": 5, "top_k": 50, "temperature": 0}}),
]


@pytest.mark.parametrize(("interface", "body"), ORDINARY)
def test_an_ordinary_call_passes_whatever_words_are_in_it(interface: Interface, body: dict[str, Any]) -> None:
    body |= {"max_tokens": 5} if interface is not Interface.RESPONSES else {"max_output_tokens": 5}
    for terms in ((), (NO_TERMS,), (STRICT,)):
        met = meet(body, *terms, interface=interface)
        assert (met.says, met.changed) == (body, ())


BEYOND: list[tuple[Interface, dict[str, Any], str]] = [
    (Interface.CHAT, {"nvext": {"extra_body": {"max_tokens": 11}}}, "nvext.extra_body.max_tokens"),
    (Interface.CHAT, {"extra_body": {"tools": [{}, {}]}}, "extra_body.tools"),
    (Interface.CHAT, {"extra_body": {"prompt": ["a", "b", "c"]}}, "extra_body.prompt"),
    (Interface.CHAT, {"sampling_params": [{"n": 1}, {"n": 2}]}, "sampling_params.n"),
    (Interface.CHAT, {"guardrails": {"options": {"llm_params": {"n": 2}}}}, "guardrails.options.llm_params.n"),
    (Interface.CHAT, {"a": {"b": {"c": {"d": {"e": {"f": {"n": 2}}}}}}}, "a.….d.e.f.n"),
    (Interface.CHAT, {"a": {"b": {"c": {"d": {"n": 2}}}}}, "a.b.c.d.n"),
    (Interface.CHAT, {"a": {"b": {"c": {"d": {"e": {"n": 2}}}}}}, "a.….c.d.e.n"),
    (Interface.CHAT, {"reasoning": {"max_tokens": 11}}, "reasoning.max_tokens"),
    (Interface.CHAT, {"chat_template_kwargs": {"thinking_budget": 11}}, "chat_template_kwargs.thinking_budget"),
    (Interface.CHAT, {"unheard_of": {"Max_Tokens": 1}}, "unheard_of.max_tokens"),
    (Interface.MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 11}}, "thinking.budget_tokens"),
    (Interface.PLAIN, {"prompt": "a", "num_outputs_per_prompt": 2}, "num_outputs_per_prompt"),
    (Interface.PLAIN, {"Priority": 1}, "priority"),
    (Interface.GENERATE, {"request_output_len": 11}, "request_output_len"),
    (Interface.GENERATE, {"beam_width": 2}, "beam_width"),
    (Interface.GENERATE, {"num_return_sequences": 2}, "num_return_sequences"),
    (Interface.GENERATE, {"OUTPUT_LENGTH": 2}, "output_length"),
    (Interface.GENERATE, {"OUTPUT_LENGTH": [[2]]}, "output_length"),
    (Interface.GENERATE, {"steps": -1}, "steps"),
    (Interface.GENERATE, {"parameters": {"steps": 1e9}}, "steps"),
    (Interface.GENERATE, {"x": [{"steps": 1}]}, "x"),
    (Interface.GENERATE, {"text_input": ["a"] * 50}, "text_input"),
    (Interface.GENERATE, {"QUERY": ["a"] * 50}, "QUERY"),
    (Interface.GENERATE, {"lora_name": "of-bob"}, "lora_name"),
]  # fmt: skip


@pytest.mark.parametrize(("interface", "body", "param"), BEYOND)
@pytest.mark.parametrize("clamp", [False, True])
def test_too_much_is_found_wherever_it_is_said(
    interface: Interface, body: dict[str, Any], param: str, clamp: bool
) -> None:
    terms = Terms(max_tokens=10, n=1, prompts=2, tools=1, clamp=clamp)
    body |= {"max_tokens": 5}
    if clamp and "." not in param and param in {*NUMBERS, *ENGINE_FIELDS}:
        assert meet(body, terms, interface=interface).changed
        return
    with pytest.raises(CapExceeded) as refused:
        meet(body, terms, interface=interface)
    assert refused.value.param == param
    assert interface is Interface.PLAIN or "lora" in param or meet(body, interface=interface).says == body


STEERING: list[tuple[dict[str, Any], str]] = [
    ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "chat_template_kwargs.chat_template"),
    ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
    ({"nvext": {"agent_hints": {"priority": 9}}}, "nvext.agent_hints"),
    ({"nvext": {"backend_instance_id": 1}}, "nvext.backend_instance_id"),
    ({"nvext": {"decode_worker_id": 1}}, "nvext.decode_worker_id"),
    ({"extra_body": {"lora_request": {"lora_name": "of-bob"}}}, "extra_body.lora_request"),
    ({"a": [{"b": [[{"c": {"priority": 1}}]]}]}, "a.b.c.priority"),
    ({"extra_key": "of-bob"}, "extra_key"),
    ({"disaggregated_params": {}}, "disaggregated_params"),
    ({"conversation_params": {}}, "conversation_params"),
]


@pytest.mark.parametrize(("body", "param"), STEERING)
def test_what_steers_the_engine_is_found_at_any_depth_for_everybody(body: dict[str, Any], param: str) -> None:
    for terms in ((), (NO_TERMS,), (STRICT,)):
        with pytest.raises(CapExceeded) as refused:
            meet({"max_tokens": 1, **body}, *terms)
        assert refused.value.param == param


def test_a_field_that_a_rule_opens_is_open_wherever_it_stands() -> None:
    body = {"chat_template_kwargs": {"chat_template": "x"}}
    assert meet(body, Terms(engine_fields=frozenset({"chat_template"}))).says == body


NAMES = st.sampled_from(["a", "nvext", "extra_body", "parameters", "guardrails", "chat_template_kwargs", "options"])
DEEPLY = st.lists(st.tuples(NAMES, st.booleans()), min_size=1, max_size=6)


def _within(path: list[tuple[str, bool]], value: dict[str, Any]) -> dict[str, Any]:
    for name, listed in path:
        value = {name: [value, 1] if listed else value}
    return value


@given(DEEPLY, st.sampled_from([*sorted(ENGINE_FIELDS), *sorted(ADAPTERS)]))
def test_no_depth_hides_a_field_that_steers_the_engine(path: list[tuple[str, bool]], name: str) -> None:
    with pytest.raises(CapExceeded, match="reaches into the engine"):
        meet(_within(path, {name: 1}))


@given(DEEPLY, st.sampled_from(NUMBERS))
def test_no_depth_hides_a_number(path: list[tuple[str, bool]], name: str) -> None:
    with pytest.raises(CapExceeded, match="is 11, and you may ask for"):
        meet({"max_tokens": 1, **_within(path, {name: 11})}, Terms(max_tokens=10, n=10, best_of=10, logprobs=10))


@given(st.sampled_from(sorted(SAID)), DEEPLY, st.sampled_from([*sorted(ENGINE_FIELDS), *NUMBERS]))
def test_what_the_caller_says_is_left_alone(said: str, path: list[tuple[str, bool]], name: str) -> None:
    body = {"max_tokens": 1, "a": {said: _within(path, {name: 99})}, said: [_within(path, {name: 99})]}
    assert meet(body, Terms(max_tokens=10, n=1, best_of=1, logprobs=1)).says == body


class Weighed(str):
    """A name that adds up how many of its characters were gone through."""

    __slots__ = ()
    work = 0

    def casefold(self) -> str:
        Weighed.work += len(self)
        return super().casefold()


SHAPES = st.recursive(
    st.sampled_from(["", "x", "http://x", "data:image/png,x", None, 1]),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.integers(0, 600).map(lambda size: "k" * size), inner)
    ),
    max_leaves=40,
)


def _weighed(value: object) -> Any:
    if isinstance(value, dict):
        return {Weighed(name): _weighed(each) for name, each in value.items()}
    return [_weighed(each) for each in value] if isinstance(value, list) else value


def test_a_body_that_names_limited_members_without_end_is_refused_at_once() -> None:
    body = {"x": [{"n": 1}] * 100_000}
    assert len(find(body, noted)) <= 1001
    with pytest.raises(CapExceeded, match="more than 1000 members"):
        meet(json.dumps(body).encode(), Terms(n=1))


@given(st.dictionaries(st.sampled_from(["a", "kkk"]), SHAPES), st.integers(1, 200))
def test_names_are_gone_through_once_for_each_member_and_not_for_each_item(body: dict[str, Any], times: int) -> None:
    body |= {"k" * 60: [""] * times, "more": {"k" * 60: [[""] * times] * 3}}
    Weighed.work = 0
    weighed = _weighed(body)
    Media(weighed)
    find(weighed, noted)
    assert Weighed.work <= 3 * len(json.dumps(body).replace('""', ""))


@pytest.mark.parametrize("depth", [1, 100])
def test_a_refusal_names_no_more_than_a_line(depth: int) -> None:
    body: dict[str, Any] = {"priority": 1}
    for _ in range(depth):
        body = {"k" * 5000: body}
    with pytest.raises(CapExceeded) as refused:
        meet(body)
    assert len(str(refused.value)) < 500
