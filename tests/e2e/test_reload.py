"""Files that change while the gateway runs: live in two seconds, a bad one changes nothing, streams go on."""

from __future__ import annotations

import shutil
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import devcerts
from gateway.devcerts import Paths
from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import Answer, raw
from tests.parts.gateway import Gateway, allow, pool
from tests.parts.process import wait_until
from tests.parts.stub import Stub

CHAT = "/v1/chat/completions"
#: Seconds after which a change must be live (contract, section 3).
LIVE = 2.0


@pytest.fixture
def stub() -> Iterator[Stub]:
    with Stub() as made:
        yield made


@pytest.fixture
def gateway(start_gateway: StartGateway, stub: Stub) -> Gateway:
    running = start_gateway([pool("nim", ["m", "n"], stub.url)], [allow("m-only", ["m"])])
    running.backends_up("nim", 1)
    return running


def chat(gateway: Gateway, token: str, model: str) -> Answer:
    return gateway.ask("POST", CHAT, body={"model": model}, token=token)


def live(gateway: Gateway, token: str, model: str, status: int) -> None:
    wait_until(lambda: chat(gateway, token, model).status == status, LIVE, f"{model} being answered with {status}")


def test_a_changed_policy_is_live_in_two_seconds_both_ways(gateway: Gateway, token: Token) -> None:
    alice = token("alice")
    assert [chat(gateway, alice, model).status for model in "mn"] == [200, 403]
    before = gateway.metric("gateway_config_generation")
    gateway.write_rules([allow("n-only", ["n"])])
    live(gateway, alice, "n", 200)
    live(gateway, alice, "m", 403)
    assert gateway.metric("gateway_config_generation") > before
    assert gateway.metric("gateway_config_reload_successful") == 1


def test_the_policy_that_decides_is_named_alike_in_the_status_the_metrics_the_log_and_the_audit_lines(
    gateway: Gateway, token: Token
) -> None:
    def named() -> tuple[str, int]:
        status = gateway.status()
        ((labels, value),) = gateway.samples()["gateway_policy_info"]
        number = int(gateway.metric("gateway_config_generation"))
        assert (labels, value, number) == ({"digest": status["policy"]}, 1, status["generation"])
        line = gateway.audit_of(chat(gateway, token("alice"), "m")["x-request-id"])
        assert (line["policy"], line["generation"]) == (status["policy"], number)
        return labels["digest"], number

    rules = gateway.policies / "rules.yaml"
    text = rules.read_text()
    first, number = named()
    rules.write_text(text + "# another text\n")
    wait_until(lambda: gateway.status()["policy"] != first, 5 * LIVE, "the other text being taken")
    second = named()
    assert second[1] == number + 1
    assert f"config.reloaded generation={second[1]} policy={second[0]}" in gateway.process.tail(100_000)
    rules.write_text(text)
    wait_until(lambda: gateway.status()["policy"] == first, 5 * LIVE, "the first text being taken again")
    assert named() == (first, number + 2)


def test_a_policy_in_a_new_file_counts_and_a_removed_one_does_not(gateway: Gateway, token: Token) -> None:
    shutil.copy(gateway.policies / "rules.yaml", gateway.folder / "more.yaml")
    text = (gateway.folder / "more.yaml").read_text().replace("m-only", "n-too").replace("- m\n", "- n\n")
    (gateway.folder / "more.yaml").write_text(text)
    (gateway.folder / "more.yaml").rename(gateway.policies / "more.yaml")
    live(gateway, token("alice"), "n", 200)
    (gateway.policies / "more.yaml").unlink()
    live(gateway, token("alice"), "n", 403)


@pytest.mark.parametrize(
    "bad", ["version: 1\nrules: [", "version: 1\nrules: []\n", "version: 1\nrules:\n- {id: x, effekt: allow}\n", ""]
)
def test_a_bad_policy_changes_nothing_and_is_seen(gateway: Gateway, token: Token, bad: str) -> None:
    rules = gateway.policies / "rules.yaml"
    good = rules.read_text()
    rules.write_text(bad)
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 0, 5, "the bad file being noticed")
    assert [chat(gateway, token("alice"), model).status for model in "mn"] == [200, 403]
    assert "rules.yaml" in str(gateway.status())
    assert "rules.yaml" in gateway.process.tail(100_000)
    rules.write_text(good)
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 1, 5, "the good file being noticed")


def test_a_changed_configuration_is_live_in_two_seconds(gateway: Gateway, token: Token) -> None:
    with Stub(scripts.sized(b"other")) as other:
        gateway.config["pools"] = [pool("nim", ["m"], other.url)]
        gateway.write_config()
        wait_until(lambda: chat(gateway, token("alice"), "m").body == b"other", LIVE, "the new backend being used")
        live(gateway, token("alice"), "n", 404)


def test_a_bad_configuration_changes_nothing_and_is_seen(gateway: Gateway, token: Token) -> None:
    gateway.config["pools"][0]["balanse"] = "magic"
    gateway.write_config()
    wait_until(lambda: gateway.metric("gateway_config_reload_successful") == 0, 5, "the bad file being noticed")
    assert chat(gateway, token("alice"), "m").status == 200
    assert "balanse" in gateway.process.tail(100_000)


def test_a_signal_reloads_at_once(gateway: Gateway, token: Token) -> None:
    gateway.reload()
    before = gateway.metric("gateway_config_reloads_total")
    gateway.write_rules([allow("n-only", ["n"])])
    gateway.process.signal(signal.SIGHUP)
    live(gateway, token("alice"), "n", 200)
    assert gateway.metric("gateway_config_reloads_total") >= before


def presented(gateway: Gateway, ca: Path) -> bytes | None:
    """The certificate that the gateway shows, if this authority vouches for it."""
    try:
        with raw(gateway.port, ca) as sock:
            assert isinstance(sock, ssl.SSLSocket)
            return sock.getpeercert(binary_form=True)
    except ssl.SSLError:
        return None


def test_a_renewed_certificate_is_shown_to_new_connections(
    start_gateway: StartGateway, stub: Stub, tmp_path: Path
) -> None:
    old, new = devcerts.make(tmp_path / "old"), devcerts.make(tmp_path / "new")
    used = Paths(tmp_path / "ca.crt", tmp_path / "tls.crt", tmp_path / "tls.key")
    shutil.copy(old.certificate, used.certificate)
    shutil.copy(old.key, used.key)
    gateway = start_gateway([pool("nim", ["m"], stub.url)], start=False)
    gateway.ca = old.ca
    gateway.config["listen"]["tls"] = {"certificate": str(used.certificate), "key": str(used.key)}
    gateway.write_config()
    gateway.start()
    assert presented(gateway, old.ca)
    shutil.copy(new.key, used.key)  # for a moment the two do not belong together
    shutil.copy(new.certificate, used.certificate)
    wait_until(lambda: presented(gateway, new.ca), 5, "the new certificate being shown")
    assert presented(gateway, old.ca) is None


def test_streams_of_twenty_seconds_outlive_reloads_of_every_kind(gateway: Gateway, stub: Stub, token: Token) -> None:
    pieces = scripts.events(80)
    stub.say(lambda request: scripts.sse(pieces, every=0.25) if b"stream" in request.body else scripts.sized())
    answers: list[Answer] = []

    def stream() -> None:
        body = {"model": "m", "stream": True}
        answers.append(gateway.ask("POST", CHAT, body=body, token=alice))

    alice = token("alice")
    threads = [threading.Thread(target=stream) for _ in range(4)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    stub.wait_for(4)
    gateway.write_rules([allow("n-only", ["n"])])
    live(gateway, alice, "m", 403)
    gateway.config["pools"][0]["balance"] = "least_connections"
    gateway.write_config()
    gateway.reload()
    with Stub() as other:
        gateway.config["pools"] = [pool("other", ["n"], other.url)]
        gateway.write_config()
        live(gateway, alice, "n", 200)
        for thread in threads:
            thread.join(60)
    assert time.monotonic() - began > 19
    assert [answer.body for answer in answers] == [b"".join(pieces)] * 4
