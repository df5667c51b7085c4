"""Calls to copy: they name the model and the gateway, and no name breaks out of them."""

from __future__ import annotations

import ast
import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.values import PROTOCOLS
from gateway.portal.services import Granted
from gateway.portal.snippets import snippets

URL = "https://gw.example.com"


def texts(model: Granted, url: str = URL) -> dict[str, str]:
    return {snippet.tool: snippet.text for snippet in snippets(model, url)}


def words_of(curl: str) -> list[str]:
    return shlex.split(curl.replace(" \\\n", " "))


def body(curl: str) -> dict[str, object]:
    words = words_of(curl)
    read: dict[str, object] = json.loads(words[words.index("-d") + 1])
    return read


@given(st.text(min_size=1, max_size=40), st.sampled_from(PROTOCOLS))
def test_whatever_a_model_is_called_its_calls_are_whole(name: str, protocol: str) -> None:
    for snippet in snippets(Granted(name, (), (protocol,)), URL):
        if snippet.tool == "curl":
            words = words_of(snippet.text)
            assert words[0] == "curl"
            assert words[1].startswith(f"{URL}/")
            assert words[2:4] == ["-H", "Authorization: Bearer $NIM_GATEWAY_TOKEN"]
            assert len(words) in {4, 8}
        else:
            literals = [node.value for node in ast.walk(ast.parse(snippet.text)) if isinstance(node, ast.Constant)]
            assert name in literals


def test_a_chat_model_is_called_by_curl_and_by_the_openai_sdk() -> None:
    calls = texts(Granted("meta/llama", (), ("openai", "nim-mgmt")))
    assert list(calls) == ["curl", "OpenAI SDK"]
    assert calls["curl"].startswith(f"curl {URL}/v1/chat/completions ")
    assert body(calls["curl"])["model"] == "meta/llama"
    assert f'base_url="{URL}/v1"' in calls["OpenAI SDK"]


def test_a_model_whose_name_says_that_it_embeds_is_asked_to() -> None:
    calls = texts(Granted("nvidia/nv-embedqa-e5-v5", (), ("openai",)))
    assert f"{URL}/v1/embeddings" in calls["curl"]
    assert "client.embeddings.create" in calls["OpenAI SDK"]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (URL, "gw.example.com:443"),
        ("https://gw.example.com:8443", "gw.example.com:8443"),
        ("https://[::1]:8443", "[::1]:8443"),
        ("https://[::1]", "[::1]:443"),
    ],
)
def test_tritonclient_is_told_host_and_port(url: str, place: str) -> None:
    calls = texts(Granted("addsub", (), ("kserve",)), url)
    assert f'InferenceServerClient("{place}", ssl=True)' in calls["tritonclient"]


def test_a_slash_in_the_name_of_a_model_stays_one_segment_of_a_path() -> None:
    assert f"{URL}/v2/models/a%2Fb " in texts(Granted("a/b", (), ("kserve",)))["curl"]


def test_a_prefix_stands_before_the_paths() -> None:
    calls = texts(Granted("voice", (), ("generic-infer",), "/studio-voice"))
    assert calls["curl"].startswith(f"curl {URL}/studio-voice/v1/infer ")


def test_a_pool_without_calls_of_its_own_has_none() -> None:
    assert texts(Granted("m", (), ("nim-mgmt", "one-that-comes-later"))) == {}
