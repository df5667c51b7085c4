"""Threads for what blocks: bounded, reused, and in nobody's way."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from gateway.identity.ldap.workers import Workers
from tests.parts.process import wait_until


class Gate:
    """A job that ends when it is told to."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.running = 0
        self.most = 0
        self.done = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.open.wait(20)
        with self._lock:
            self.running -= 1
            self.done += 1


def _as_many(ran: list[int], number: int) -> bool:
    return len(ran) == number


def test_so_many_run_at_once_so_many_wait_and_the_next_is_turned_away() -> None:
    workers, gate = Workers("test", 3, 2), Gate()
    assert [workers.submit(gate) for _ in range(6)] == [True] * 5 + [False]
    wait_until(lambda: gate.running == 3, 10, "three at once")
    assert not workers.submit(gate)
    gate.open.set()
    wait_until(lambda: gate.done == 5, 10, "all done")
    assert gate.most == 3
    assert workers.submit(gate)
    workers.close()


def test_a_thread_serves_again_and_ends_when_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.ldap.workers.IDLE", 0.05)
    workers, ran = Workers("idle-test", 5, 5), list[int]()
    for number in range(1, 5):
        workers.submit(lambda: ran.append(threading.get_ident()))
        wait_until(partial(_as_many, ran, number), 10, "the job")
    assert len(set(ran)) <= 2
    wait_until(lambda: not any(one.name == "idle-test" for one in threading.enumerate()), 10, "no thread left")
    workers.submit(lambda: ran.append(0))
    wait_until(lambda: 0 in ran, 10, "a new thread")
    workers.close()


def test_what_was_taken_is_done_although_nothing_more_is() -> None:
    workers, gate = Workers("test", 1, 5), Gate()
    for _ in range(3):
        workers.submit(gate)
    workers.close()
    assert not workers.submit(gate)
    gate.open.set()
    wait_until(lambda: gate.done == 3, 10, "all that were taken")


def test_a_fault_costs_the_job_and_not_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    workers, done = Workers("test", 1, 5), threading.Event()
    workers.submit(lambda: 1 // 0)  # type: ignore[arg-type]
    workers.submit(done.set)
    assert done.wait(10)
    wait_until(lambda: "worker.fault name=test" in caplog.text, 10, "the log line")
    workers.close()
