"""A start that fails says why in one line."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket

import pytest

from gateway.startup import CannotStart, endpoint, lone, needed, settle_memory


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EADDRINUSE, "error while attempting to bind on address ('::', 1)"), "address already in use"),
        (OSError(errno.EACCES, "words of a library"), "permission denied"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (OSError("words alone"), "words alone"),
    ],
)
def test_the_reason_is_said_in_the_words_of_the_system(error: OSError, said: str) -> None:
    with pytest.raises(CannotStart) as caught, needed("listen [::]:1"):
        raise error
    assert str(caught.value) == f"listen [::]:1: {said}"


def test_a_mistake_of_ours_is_not_taken_for_a_failed_start() -> None:
    with pytest.raises(ValueError, match="ours"), needed("listen"):
        raise ValueError("ours")


def test_an_address_with_colons_is_told_from_its_port() -> None:
    assert endpoint("127.0.0.1", 8443) == "127.0.0.1:8443"
    assert endpoint("::1", 8443) == "[::1]:8443"


async def test_a_failed_start_comes_out_of_its_task_group() -> None:
    error = CannotStart("listen: taken")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.TaskGroup():
            raise error
    assert lone(caught.value) is error


def test_what_else_went_wrong_is_not_hidden_behind_it() -> None:
    assert lone(ExceptionGroup("", [CannotStart("listen: taken"), KeyError("x")])) is None
    assert lone(ExceptionGroup("", [KeyError("x")])) is None


def test_what_was_built_is_not_looked_at_again() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        settle_memory()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] > 700
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
