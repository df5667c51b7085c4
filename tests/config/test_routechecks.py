"""Models that stand in for each other or share a name must be able to: every mistake is said at its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config.routechecks import MOST_FALLBACKS, MOST_TARGETS
from gateway.settings import Alias, Target
from tests.config.conftest import MINIMAL, refused, taken

Write = Callable[[str], Path]

POOLS = """\
  - name: more
    protocols: [openai, anthropic]
    models: [{name: big, aliases: [large]}, {name: extra}]
    backends: [{url: http://10.0.0.12:8000}]
  - name: triton
    protocols: [kserve]
    models: [{name: tensors}]
    backends: [{url: http://10.0.0.13:8000}]
  - name: hidden
    protocols: [openai]
    prefix: /hidden
    models: [{name: away}]
    backends: [{url: http://10.0.0.14:8000}]
"""


def falling_back(to: str) -> str:
    """A configuration whose model `llama` (line 12) has this fallback."""
    return MINIMAL.replace("[{name: llama}]", f"[{{name: llama, fallback: [{to}]}}]") + POOLS


def sharing(targets: str, name: str = "any") -> str:
    return MINIMAL + POOLS + f"aliases: [{{name: {name}, targets: [{targets}]}}]\n"


def test_a_model_may_name_those_that_stand_in_for_it(write: Write) -> None:
    pools = taken(write(falling_back("big, extra"))).settings.pools
    assert pools[0].models[0].fallback == ("big", "extra")


def test_all_that_is_wrong_with_a_fallback_is_said_at_once(write: Write) -> None:
    lines = refused(write(falling_back("llama, nobody, large, big, big, tensors, away")))
    said = [line.split(": ", 1) for line in lines]
    assert [place for place, _ in said] == ["12:28", "12:39", "12:46", "12:54", "12:66", "12:71", "12:80"]
    for (_, message), words in zip(
        said,
        [
            f"at most {MOST_FALLBACKS} models",
            "cannot stand in for itself",
            "'nobody' is no configured model",
            "'large' is no configured model; aliases are not taken here",
            "stands in the list already",
            "'tensors' cannot take these calls",
            "'away' cannot take these calls",
        ],
        strict=True,
    ):
        assert words in message


def test_a_model_whose_name_stands_in_the_path_has_none_to_stand_in(write: Write) -> None:
    text = MINIMAL + POOLS.replace("[{name: tensors}]", "[{name: tensors, fallback: [other]}, {name: other}]")
    [line] = refused(write(text))
    assert "one of openai, anthropic, retriever" in line


def test_models_may_share_a_name(write: Write) -> None:
    settings = taken(write(sharing("{model: llama, weight: 95}, {model: big, weight: 5}"))).settings
    assert settings.aliases == (Alias("any", (Target("llama", 95), Target("big", 5))),)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ("", f"from 1 to {MOST_TARGETS} models"),
        (", ".join(f"{{model: m{number}, weight: 1}}" for number in range(MOST_TARGETS + 1)), "from 1 to"),
        ("{model: llama, weight: 0}, {model: big, weight: 0}", "at least one weight must be above 0"),
        ("{model: llama, weight: -1}", "expected a whole number from 0 to 1000"),
        ("{model: llama, weight: 1001}", "expected a whole number from 0 to 1000"),
        ("{model: llama, weight: 0.5}", "expected a whole number"),
        ("{model: llama}", "the setting 'weight' is missing"),
        ("{model: nobody, weight: 1}", "'nobody' is no configured model"),
        ("{model: large, weight: 1}", "'large' is no configured model"),
        ("{model: any, weight: 1}", "'any' is no configured model"),
        ("{model: llama, weight: 1}, {model: llama, weight: 2}", "stands in the list already"),
        ("{model: tensors, weight: 1}", "no protocol in common"),
        ("{model: llama, weight: 1}, {model: tensors, weight: 1}", "no protocol in common"),
        ("{model: llama, weight: 1}, {model: away, weight: 1}", "no protocol in common under one prefix"),
    ],
)
def test_a_shared_name_that_leads_nowhere_is_refused(write: Write, targets: str, words: str) -> None:
    lines = refused(write(sharing(targets)))
    assert [line for line in lines if words in line], lines


@pytest.mark.parametrize("name", ["llama", "big", "large"])
def test_a_shared_name_is_nobody_elses(write: Write, name: str) -> None:
    [line] = refused(write(sharing("{model: llama, weight: 1}, {model: big, weight: 1}", name)))
    assert f"'{name}' is a model or alias of a pool already, for protocol openai" in line


def test_a_shared_name_may_be_a_models_of_another_protocol(write: Write) -> None:
    taken(write(sharing("{model: llama, weight: 1}, {model: big, weight: 1}", "tensors")))


def test_two_shared_names_differ(write: Write) -> None:
    one = "{name: any, targets: [{model: llama, weight: 1}]}"
    [line] = refused(write(MINIMAL + POOLS + f"aliases: [{one}, {one}]\n"))
    assert "an alias with this name stands above already" in line
