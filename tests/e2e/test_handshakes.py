"""The TLS port before anything is asked: what is not a handshake ends, and what is leads to one gateway. B114."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

import pytest

from tests.conftest import StartGateway
from tests.e2e.slow import connections, slow_callers
from tests.parts.client import raw, read_all
from tests.parts.gateway import Gateway, pool
from tests.parts.process import wait_until

#: The first bytes of a record that holds a ClientHello of 512 bytes.
HALF_HELLO = bytes.fromhex("16030102000100") + b"\x01\xfc\x03\x03" + bytes(40)
LIVE = b"GET /v1/health/live HTTP/1.1\r\nHost: gw.test\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def gateway(start_shared_gateway: StartGateway) -> Gateway:
    """One that is not patient, before a backend that is not there."""
    timeouts = {"header": "1s", "pre_stop": "200ms"}
    return start_shared_gateway([pool("nim", ["m"], "http://127.0.0.1:1")], limits={"timeouts": timeouts})


def failures(gateway: Gateway, reason: str) -> float:
    return gateway.metric("gateway_handshake_failures_total", reason=reason)


def meant_for(gateway: Gateway, name: str | None, protocols: Sequence[str] = ()) -> ssl.SSLSocket:
    """A connection of a client who asks for `name`."""
    context = ssl.create_default_context(cafile=str(gateway.ca))
    context.check_hostname = False  # the certificate is for localhost, whatever was asked for
    if protocols:
        context.set_alpn_protocols([*protocols])
    plain = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
    return context.wrap_socket(plain, server_hostname=name)


def test_silent_connections_and_half_a_hello_are_closed_within_the_limit(gateway: Gateway) -> None:
    before = failures(gateway, "timeout")
    with slow_callers(gateway) as callers:
        callers.come(300, tls=False)
        callers.come(100, HALF_HELLO, tls=False)
        assert gateway.metric("gateway_connections", state="handshake") > 0
        assert gateway.ask("GET", "/v1/health/live").status == 200
        wait_until(lambda: connections(gateway) == 0, 30, "the silent ones being let go")
    assert failures(gateway, "timeout") == before + 400


@pytest.mark.parametrize(
    "said",
    [
        LIVE,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x00" * 200,
        b"\x80\x2e\x01\x00\x02" + b"\x00" * 43,  # a hello of SSL 2
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\xff\xff" + b"x" * 65535,
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
)
def test_what_is_no_hello_ends_the_connection(gateway: Gateway, said: bytes) -> None:
    """B114: plain HTTP on the TLS port among it (choice: closed, without an answer)."""
    before = failures(gateway, "tls")
    received = b""
    with raw(gateway.port) as line, suppress(ConnectionError):
        line.sendall(said)
        received = read_all(line)
    assert b"HTTP" not in received
    wait_until(lambda: failures(gateway, "tls") == before + 1, 10, "the failure being counted")


def test_a_flood_of_bad_hellos_is_counted_whole_and_logged_in_part(gateway: Gateway) -> None:
    before = failures(gateway, "tls")
    for _ in range(500):
        with raw(gateway.port) as line, suppress(ConnectionError):
            line.sendall(b"garbage\r\n\r\n")
            read_all(line)
    wait_until(lambda: failures(gateway, "tls") == before + 500, 10, "all being counted")
    lines = [json.loads(line)["event"] for line in gateway.process.stderr.read_text().splitlines()]
    told = [line for line in lines if line.startswith("handshake.failed ")]  # those of a test before count too
    assert told
    assert len(told) <= 300
    assert "garbage" not in "".join(lines)
    assert len(lines) < 500


@pytest.mark.parametrize("name", [None, "localhost", "a.test", "xn--bcher-kva.test", "a" * 63 + ".test"])
@pytest.mark.parametrize("host", ["localhost", "b.test", "127.0.0.1:8443"])
def test_any_name_and_any_host_lead_to_the_one_gateway(gateway: Gateway, name: str | None, host: str) -> None:
    """B114 (choice): neither SNI nor `Host` routes anything; only a target may name a place that is not here."""
    with meant_for(gateway, name) as line:
        line.sendall(LIVE.replace(b"gw.test", host.encode()))
        assert read_all(line).startswith(b"HTTP/1.1 200")


def test_a_target_that_names_another_place_than_the_host_is_misdirected(gateway: Gateway) -> None:
    with meant_for(gateway, "a.test") as line:
        line.sendall(LIVE.replace(b" /v1", b" http://elsewhere.test/v1"))
        assert line.recv(12) == b"HTTP/1.1 421"


def test_a_client_that_only_offers_other_protocols_gets_none_and_must_speak_the_old_one(gateway: Gateway) -> None:
    """B114 (choice): RFC 7301 §3.2 has an alert for this, which Python's `ssl` cannot be made to send."""
    with meant_for(gateway, "localhost", ["h2"]) as line:
        assert line.selected_alpn_protocol() is None
        line.sendall(LIVE)
        assert read_all(line).startswith(b"HTTP/1.1 200")
    with meant_for(gateway, "localhost", ["h2", "spdy/3"]) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_all(line).startswith((b"HTTP/1.1 400", b"HTTP/1.1 405"))


def test_a_client_that_leaves_in_the_middle_is_let_go_at_once(gateway: Gateway) -> None:
    before = failures(gateway, "left")
    for said in (b"", b"\x16", HALF_HELLO):
        with raw(gateway.port) as line:
            line.sendall(said)
    wait_until(lambda: failures(gateway, "left") == before + 3, 10, "the leaving being counted")
    assert not [line for line in gateway.process.stderr.read_text().splitlines() if "reason=left" in line]
