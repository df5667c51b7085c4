"""The `openai` package against a real engine, through the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from tests.conftest import Token
from tests.e2e.conftest import ALIAS, LOCKED, TINY
from tests.parts.gateway import Gateway

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hello"}]


def client(gateway: Gateway, key: str) -> OpenAI:
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    return OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=60, http_client=trusting)


@pytest.fixture
def alice(gateway: Gateway, token: Token) -> Iterator[OpenAI]:
    with client(gateway, token("alice")) as made:
        yield made


@pytest.fixture
async def alice_async(gateway: Gateway, token: Token) -> AsyncIterator[AsyncOpenAI]:
    trusting = openai.DefaultAsyncHttpxClient(verify=gateway.trust)
    key, base = token("alice", "ES256"), f"{gateway.url}/v1"
    async with AsyncOpenAI(base_url=base, api_key=key, max_retries=0, timeout=60, http_client=trusting) as made:
        yield made


def test_a_chat_completion_comes_back_whole(alice: OpenAI) -> None:
    answer = alice.chat.completions.create(model=TINY, messages=HELLO, max_tokens=5)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_an_alias_is_as_good_as_the_name(alice: OpenAI) -> None:
    assert alice.chat.completions.create(model=ALIAS, messages=HELLO, max_tokens=2).choices


def test_a_chat_completion_streams_to_its_end_with_usage(alice: OpenAI) -> None:
    stream = alice.chat.completions.create(
        model=TINY, messages=HELLO, max_tokens=20, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]) >= 10
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 20


def test_text_completions_and_responses_work_as_well(alice: OpenAI) -> None:
    assert alice.completions.create(model=TINY, prompt="once", max_tokens=3).choices[0].text
    assert alice.responses.create(model=TINY, input="once", max_output_tokens=3).output_text


def test_embeddings_are_numbers_of_the_models_width(alice: OpenAI) -> None:
    answer = alice.embeddings.create(model=TINY, input=["one", "two"], encoding_format="float")
    assert [len(row.embedding) for row in answer.data] == [64, 64]
    assert answer.data[0].embedding != answer.data[1].embedding


def test_embeddings_in_base64_are_decoded_to_the_same_numbers(alice: OpenAI) -> None:
    plain = alice.embeddings.create(model=TINY, input="one", encoding_format="float").data[0].embedding
    packed = alice.embeddings.create(model=TINY, input="one").data[0].embedding
    assert packed == pytest.approx(plain, rel=1e-5)


def test_only_granted_models_are_listed_with_their_aliases(alice: OpenAI) -> None:
    names = {model.id for model in alice.models.list()}
    assert {TINY, ALIAS} <= names
    assert LOCKED not in names
    assert "locked" not in names


def test_a_granted_model_can_be_looked_up_and_shows_no_path_on_disk(alice: OpenAI) -> None:
    for name in (TINY, ALIAS):
        model = alice.models.retrieve(name)
        assert model.id == name
        assert model.object == "model"
        assert ".gguf" not in model.model_dump_json()


def test_a_model_that_is_not_granted_cannot_be_looked_up(alice: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        alice.models.retrieve(LOCKED)


def test_a_bad_key_is_an_authentication_error(gateway: Gateway) -> None:
    with client(gateway, "nonsense") as nobody, pytest.raises(openai.AuthenticationError) as refused:
        nobody.chat.completions.create(model=TINY, messages=HELLO)
    assert refused.value.code == "invalid_api_key"


def test_a_model_that_is_not_granted_is_a_permission_error(alice: OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as refused:
        alice.chat.completions.create(model=LOCKED, messages=HELLO)
    assert refused.value.code == "model_not_allowed"


def test_a_model_that_nobody_serves_is_a_not_found_error(alice: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        alice.chat.completions.create(model="meta/absent", messages=HELLO)
    assert refused.value.code == "model_not_found"


def test_who_is_in_no_group_of_a_rule_gets_nothing(gateway: Gateway, token: Token) -> None:
    for user in ("bob", "carol"):
        with client(gateway, token(user)) as stranger:
            with pytest.raises(openai.PermissionDeniedError):
                stranger.chat.completions.create(model=TINY, messages=HELLO)
            assert list(stranger.models.list()) == []


def test_an_error_of_the_engine_reaches_the_caller_unchanged(alice: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        alice.chat.completions.create(model=TINY, messages=HELLO, temperature="warm")  # type: ignore[call-overload]
    assert refused.value.type == "invalid_request_error"


async def test_the_async_client_gets_whole_answers(alice_async: AsyncOpenAI) -> None:
    answer = await alice_async.chat.completions.create(model=TINY, messages=HELLO, max_tokens=4)
    assert answer.choices[0].message.content


async def test_the_async_client_streams(alice_async: AsyncOpenAI) -> None:
    stream = await alice_async.chat.completions.create(model=TINY, messages=HELLO, max_tokens=30, stream=True)
    words = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    assert len([word for word in words if word]) >= 15


async def test_the_async_client_may_leave_a_stream_and_go_on(alice_async: AsyncOpenAI) -> None:
    stream = await alice_async.chat.completions.create(model=TINY, messages=HELLO, max_tokens=1000, stream=True)
    async for _ in stream:
        break
    await stream.close()
    assert (await alice_async.embeddings.create(model=TINY, input="still here")).data
