"""More callers than there is room for: those who are in are served, those who come wait, and it ends by itself."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, RemoteDisconnected
from typing import Any

import pytest

from tests.conftest import StartGateway, Token
from tests.e2e.slow import connections, slow_callers
from tests.parts import scripts
from tests.parts.client import connection, streaming, whole
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
STREAM = {"model": "m", "stream": True}
PLACES = 12


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub(scripts.sized(b"{}")) as made:
        yield made


def crowded(start_gateway: StartGateway, stub: Stub, **limits: Any) -> Gateway:
    gateway = start_gateway(
        [pool("nim", ["m"], stub.url)],
        limits={"connections": PLACES, "timeouts": {"pre_stop": "200ms", "drain": "20s"}, **limits},
    )
    gateway.backends_up("nim", 1)
    return gateway


def call(gateway: Gateway, token: str) -> int:
    return gateway.ask("POST", CHAT, body={"model": "m"}, token=token).status


def holds(gateway: Gateway, reason: str) -> float:
    return gateway.metric("gateway_accept_holds_total", reason=reason)


def events_of(gateway: Gateway, name: str) -> list[dict[str, Any]]:
    """Log lines of this event."""
    lines = map(json.loads, gateway.process.stderr.read_text().splitlines())
    return [line for line in lines if line["event"].startswith(name)]


def test_idle_connections_make_room_for_who_comes_when_all_places_are_taken(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = crowded(start_gateway, stub)
    assert gateway.metric("gateway_connections_limit") == PLACES
    with ExitStack() as stack:
        for _ in range(PLACES):
            line = connection(gateway.url, gateway.ca)
            stack.callback(line.close)
            line.request("GET", "/v1/health/live")
            assert whole(line.getresponse()).status == 200
        assert connections(gateway) == PLACES
        for _ in range(3):
            assert call(gateway, token("alice")) == 200
        assert holds(gateway, "full") > 0
        assert connections(gateway) <= PLACES


def alive(line: HTTPConnection) -> bool:
    try:
        line.request("GET", "/v1/health/live")
        return whole(line.getresponse()).status == 200
    except (RemoteDisconnected, ConnectionError):
        return False


def test_of_the_idle_the_oldest_make_room_a_few_at_a_time_and_nobody_who_is_busy(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway, alice = crowded(start_gateway, stub, connections=40), token("alice")
    stub.say(scripts.sse(scripts.events(400), every=0.05))
    with ExitStack() as stack:
        stream = stack.enter_context(streaming(gateway.url, "POST", CHAT, body=STREAM, token=alice, ca=gateway.ca))
        stub.say(scripts.sized(b"{}"))
        idle = [connection(gateway.url, gateway.ca) for _ in range(39)]
        for line in idle:
            stack.callback(line.close)
            assert alive(line)
            line.auto_open = 0
        assert all(alive(line) for line in idle), "nobody waits, so nobody goes"
        assert holds(gateway, "full") == 0
        statuses = list[int]()
        threads = [threading.Thread(target=lambda: statuses.append(call(gateway, alice))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert statuses == [200] * 6
        there = [alive(line) for line in idle]
        assert there == sorted(there), "the oldest went"
        assert 2 <= there.count(False) <= 12
        assert stream.next()


def test_callers_beyond_the_places_wait_until_one_is_free_and_nobody_who_is_served_is_cut(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway, alice = crowded(start_gateway, stub), token("alice")
    statuses = list[int]()
    pieces = scripts.events(400)
    stub.say(scripts.sse(pieces, every=0.05))
    with ExitStack() as stack:
        streams = [
            stack.enter_context(streaming(gateway.url, "POST", CHAT, body=STREAM, token=alice, ca=gateway.ca))
            for _ in range(PLACES)
        ]
        stub.say(scripts.sized(b"{}"))
        waiting = [threading.Thread(target=lambda: statuses.append(call(gateway, alice))) for _ in range(4)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: holds(gateway, "full") > 0, 10, "callers being left waiting")
        for stream in streams:
            assert stream.next()
        assert connections(gateway) == PLACES
        assert statuses == []
        streams.pop().leave()
        for thread in waiting:
            thread.join(20)
        assert statuses == [200] * 4
        for stream in streams:
            assert stream.next()


def test_with_few_descriptors_there_are_fewer_places_and_enough_is_left_to_work_with(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """Who only connects, without a credential, can keep neither backends nor a reload from being looked at."""
    gateway = start_gateway([pool("nim", ["m"], stub.url)], under=("prlimit", "--nofile=160:160"))
    gateway.backends_up("nim", 1)
    assert gateway.metric("gateway_connections_limit") == 16
    assert "wanted=10000" in events_of(gateway, "connections.bounded")[0]["event"]
    with slow_callers(gateway) as callers:
        callers.come(200, tls=False)
        wait_until(lambda: connections(gateway) == 16, 10, "a full house")
        gateway.write_rules([allow("nobody", ["m"], subjects={"groups": ["nobody-here"]})])
        gateway.reload()
        wait_until(lambda: gateway.metric("gateway_config_generation") == 2, 10, "the reload")
        assert gateway.metric("gateway_backend_up", pool="nim") == 1
    assert gateway.ask("POST", CHAT, body={"model": "m"}, token=token("alice")).status == 403
    assert not events_of(gateway, "backend_down")


def test_running_out_of_descriptors_is_waited_out_and_is_nobodys_fault(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    """Accepting neither spins nor fills the log, answers under way go on, and afterwards all is as before."""
    gateway, alice = crowded(start_gateway, stub, connections=1000), token("alice")
    stub.say(scripts.sse(scripts.events(2000), every=0.02))
    with streaming(gateway.url, "POST", CHAT, body=STREAM, token=alice, ca=gateway.ca) as stream:
        assert stream.next()
        before = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        few = gateway.process.open_files() + 30
        management = connection(gateway.management)  # while there is a descriptor for it
        management.request("GET", "/metrics")
        whole(management.getresponse())

        def held() -> float:
            management.request("GET", "/metrics")
            page = whole(management.getresponse()).body.decode()
            (line,) = [line for line in page.splitlines() if line.startswith('gateway_accept_holds_total{reason="desc')]
            return float(line.split()[-1])

        probes = len(stub.probes)
        with slow_callers(gateway) as callers:
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (few, before[1]))
            callers.come(120, tls=False)
            wait_until(lambda: held() >= 3, 20, "accepting being held")
            assert held() < 30  # it would be thousands by now
            assert stream.next()
            assert len(events_of(gateway, "accepting.held")) <= held()
        wait_until(lambda: len(stub.probes) > probes + 1, 10, "probes going on")
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, before)
        management.close()
        assert stream.next()
    stub.say(scripts.sized(b"{}"))
    assert call(gateway, alice) == 200
    assert not events_of(gateway, "backend_down")
    assert gateway.metric("gateway_backend_failures_total", pool="nim") == 0
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 1, 10, "the files being what runs")


def test_who_leaves_while_waiting_or_in_the_handshake_leaves_nothing_behind(
    start_gateway: StartGateway, stub: Stub, token: Token
) -> None:
    gateway = crowded(start_gateway, stub)
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as line:
            line.sendall(b"\x16\x03\x01")
    wait_until(lambda: connections(gateway) == 0, 20, "everybody having left")
    assert call(gateway, token("alice")) == 200
    assert gateway.metric("gateway_handshake_failures_total", reason="left") > 0
