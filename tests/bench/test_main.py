"""The command line of the benchmark."""

from __future__ import annotations

import pytest

from bench.__main__ import arguments, leaves
from bench.sections import SECTIONS
from bench.servers import STANDARD, version_in


def test_without_words_everything_runs_on_every_server() -> None:
    options = arguments([])
    assert (options.sections, options.servers) == (list(SECTIONS), list(STANDARD))


def test_sections_and_servers_can_be_chosen() -> None:
    options = arguments(["json", "sse", "--servers", "gateway,haproxy"])
    assert (options.sections, options.servers) == (["json", "sse"], ["gateway", "haproxy"])


@pytest.mark.parametrize("given", [["jsno"], ["--servers", "lighttpd"]])
def test_a_word_it_does_not_know_is_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        arguments(given)
    assert stopped.value.code == 2
    assert given[-1] in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--quick"], ["json"], ["--servers", "gateway,haproxy"]])
def test_only_a_full_run_is_written_down(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--write", *more])
    assert "full run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("nginx version: nginx/1.22.1\n", "1.22.1"),
        ("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/", "2.6.12-1+deb12u4"),
        ("/srv/envoy  version: 9e5580933739775e/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"),
        ("command not found", "unknown"),
    ],
)
def test_versions_are_found_in_what_servers_say(text: str, version: str) -> None:
    assert version_in(text) == version


def test_failures_inside_groups_of_tasks_are_said_one_by_one() -> None:
    inner = ExceptionGroup("inner", [ValueError("a"), ValueError("b")])
    assert [str(error) for error in leaves(ExceptionGroup("outer", [inner, ValueError("c")]))] == ["a", "b", "c"]
