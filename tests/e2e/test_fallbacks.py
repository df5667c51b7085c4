"""Models that stand in for each other and share names, with real connections: simulated NIMs that die, and stubs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations
from pathlib import Path

import openai
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from gateway.__main__ import main
from tests.conftest import StartGateway, Token
from tests.parts import scripts
from tests.parts.client import ask
from tests.parts.gateway import Config, Gateway, allow, pool
from tests.parts.process import ServerProcess, free_port, wait_until
from tests.parts.stub import Stub

BIG, SMALL = "meta/llama-3.3-70b-instruct", "meta/llama-3.1-8b-instruct"
PATH = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "hello"}]
#: So that only calls find out that a backend is gone.
STEADY = {"interval": "1h", "fall": 100}


class Nim:
    """A simulated NIM that serves one model."""

    def __init__(self, folder: Path, model: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        name = f"nim-{port}"
        options = ["--port", str(port), "--name", name, "--model", model]
        self.process = ServerProcess([sys.executable, "-m", "gateway", "simulate", "nim", *options], folder, name=name)
        self.process.wait_ready(self._ready)

    def _ready(self) -> bool:
        try:
            return ask(self.url, "GET", "/v1/health/ready").status == 200
        except OSError:
            return False


@pytest.fixture
def nims(tmp_path: Path) -> Iterator[tuple[Nim, Nim]]:
    """One for the big model and one for the small, which may be killed."""
    both = Nim(tmp_path, BIG), Nim(tmp_path, SMALL)
    yield both
    for nim in both:
        nim.process.kill()


def client(gateway: Gateway, key: str) -> OpenAI:
    trusting = openai.DefaultHttpxClient(verify=gateway.trust)
    return OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=60, http_client=trusting)


def now_rules(gateway: Gateway, rule: Config) -> None:
    """This rule alone holds from now on."""
    before = gateway.metric("gateway_config_generation")
    gateway.write_rules([rule])
    wait_until(lambda: gateway.metric("gateway_config_generation") > before, 10, "the reload")


def test_when_the_backends_of_a_model_die_another_model_answers_whole_and_streamed(
    start_gateway: StartGateway, token: Token, nims: tuple[Nim, Nim]
) -> None:
    big, small = nims
    models = (
        pool("big", [{"name": BIG, "fallback": [SMALL]}], big.url, health=STEADY),
        pool("small", [SMALL], small.url),
    )
    gateway = start_gateway(models)
    for name in ("big", "small"):
        gateway.backends_up(name, 1)
    with client(gateway, token("alice")) as alice:
        create = alice.chat.completions.with_raw_response.create
        before = create(model=BIG, messages=HELLO, max_tokens=3)
        assert (before.headers.get("x-gateway-model"), before.parse().model) == (None, BIG)
        big.process.kill()

        whole = create(model=BIG, messages=HELLO, max_tokens=3)
        assert (whole.headers["x-gateway-model"], whole.parse().model) == (SMALL, SMALL)
        streamed = create(model=BIG, messages=HELLO, max_tokens=3, stream=True)
        assert streamed.headers["x-gateway-model"] == SMALL
        chunks = list(streamed.parse())
        assert {chunk.model for chunk in chunks} == {SMALL}
        assert chunks[-1].choices[0].finish_reason == "length"
    for answer, operation in ((whole, "infer"), (streamed, "stream")):
        line = gateway.audit_of(answer.headers["x-request-id"])
        assert (line["model"], line["asked_model"], line["pool"], line["operation"]) == (SMALL, BIG, "small", operation)
        assert (line["decision"], line["attempts"]) == ("allow", 2)
    assert gateway.metric("gateway_fallbacks_total", model=BIG, target=SMALL) == 2
    assert gateway.metric("gateway_in_flight_requests") == 0


def test_a_model_without_a_healthy_backend_is_stood_in_for(start_gateway: StartGateway, token: Token) -> None:
    with Stub() as big, Stub() as small:
        models = pool("big", [{"name": "big", "fallback": ["small"]}], big.url), pool("small", ["small"], small.url)
        gateway = start_gateway(models)
        gateway.backends_up("small", 1)
        big.healthy = False
        gateway.backends_up("big", 0)
        answer = gateway.ask("POST", PATH, body={"model": "big"}, token=token("alice"))
        assert (answer.status, answer["x-gateway-model"]) == (200, "small")
        assert (len(big.requests), len(small.requests)) == (0, 1)


@pytest.mark.parametrize("busy", [502, 503, 504])
def test_a_call_that_one_model_is_too_busy_for_reaches_the_other_whole(
    start_gateway: StartGateway, token: Token, busy: int
) -> None:
    """Every byte but the name is the caller's, also of a body that came in pieces."""
    pad = b"0123456789" * 100_000
    with Stub(scripts.sized(b"{}", busy)) as big, Stub() as small:
        named = {"name": "small", "backend_name": "engine/small"}
        models = pool("big", [{"name": "big", "fallback": ["small"]}], big.url), pool("small", [named], small.url)
        gateway = start_gateway(models)
        for name in ("big", "small"):
            gateway.backends_up(name, 1)
        for body in (b'{ "model" :"big", "x": 1.0 }', b'{"pad":"%b","model":"big"}' % pad):
            answer = gateway.ask("POST", PATH, body=body, headers=JSON, token=token("alice"))
            assert (answer.status, answer["x-gateway-model"]) == (200, "small")
            assert big.requests[-1].body == body
            assert small.requests[-1].body == body.replace(b'"big"', b'"engine/small"')
            assert small.requests[-1].values("content-length") == [str(len(small.requests[-1].body))]


def test_whoever_asks_only_a_model_that_they_are_granted_ever_answers(
    start_gateway: StartGateway, token: Token
) -> None:
    """Every set of rights, for a model with others behind it and for a name that all share."""
    models = ("a", "b", "c")
    sets = list(chain.from_iterable(combinations(models, size) for size in range(4)))
    with Stub(scripts.sized(b"{}", 503)) as busy, Stub() as good:
        pools = [
            pool("a", [{"name": "a", "fallback": ["b", "c"]}], busy.url),
            pool("others", ["b", "c"], good.url),
        ]
        shared = [{"name": "all", "targets": [{"model": name, "weight": 1} for name in models]}]
        gateway = start_gateway(pools, aliases=shared)
        for each in pools:
            gateway.backends_up(each["name"], 1)
        for number, granted in enumerate(sets):
            now_rules(gateway, allow(f"set-{number}", granted or ["nothing-else"]))
            for asked in ("a", "all"):
                good.requests.clear()
                answer = gateway.ask("POST", PATH, body={"model": asked}, token=token("alice"))
                said = answer["x-gateway-model"]
                if not granted or (asked == "a" and "a" not in granted):
                    assert (answer.status, said, good.requests) == (403, None, [])
                    assert f"'{asked}'" in answer.json()["error"]["message"]
                    assert not any(f"'{name}'" in answer.body.decode() for name in {*models} - {asked})
                elif granted == ("a",):
                    assert (answer.status, good.requests) == (503, [])
                else:
                    assert (answer.status, said in granted) == (200, True)
                    assert [json.loads(request.body)["model"] for request in good.requests] == [said]


def test_an_alias_of_one_model_is_granted_with_that_model_and_with_nothing_else(
    start_gateway: StartGateway, token: Token
) -> None:
    with Stub() as stub:
        rules = [allow("real", ["real"]), allow("alias-name", ["other-alias"])]
        models = [{"name": "real", "aliases": ["nick"]}, {"name": "other", "aliases": ["other-alias"]}]
        gateway = start_gateway([pool("nim", models, stub.url)], rules)
        gateway.backends_up("nim", 1)
        statuses = {
            name: gateway.ask("POST", PATH, body={"model": name}, token=token("alice")).status
            for name in ("real", "nick", "other", "other-alias")
        }
    assert statuses == {"real": 200, "nick": 200, "other": 403, "other-alias": 403}


def test_a_name_that_models_share_is_listed_for_who_may_use_one_of_them_and_sticks(
    start_gateway: StartGateway, token: Token, capsys: pytest.CaptureFixture[str]
) -> None:
    with Stub() as stub:
        targets = [{"model": name, "weight": weight} for name, weight in (("a", 50), ("b", 50), ("none", 0))]
        aliases = [{"name": "all", "targets": targets}, {"name": "kept", "targets": [{"model": "c", "weight": 1}]}]
        pools = [pool("nim", ["a", "b", "c", "none"], stub.url)]
        operations = ["infer", "list", "metadata"]
        rules = [allow("some", ["a", "b", "none"], operations=operations), allow("kept", ["c"], operations=["health"])]
        gateway = start_gateway(pools, rules, aliases=aliases)
        gateway.backends_up("nim", 1)
        alice = token("alice")
        listed = gateway.ask("GET", "/v1/models", token=alice).json()["data"]
        assert [model["id"] for model in listed] == ["a", "b", "none", "all"]
        assert gateway.ask("GET", "/v1/models/all", token=alice).json()["id"] == "all"
        assert gateway.ask("GET", "/v1/models/kept", token=alice).status == 404
        drawn = Counter(
            gateway.ask("POST", PATH, body={"model": "all"}, token=alice)["x-gateway-model"] for _ in range(10)
        )
        assert len(drawn) == 1
        gateway.stop()
        gateway.start()
        gateway.backends_up("nim", 1)
        again = gateway.ask("POST", PATH, body={"model": "all"}, token=token("alice"))
        assert {again["x-gateway-model"]} == set(drawn)
        line = gateway.audit_of(again["x-request-id"])
        assert (line["model"], line["asked_model"]) == (again["x-gateway-model"], "all")
        question = ["--user", line["subject"], "--groups", ",".join(line["groups"]), "--model", "all", "--json"]
        assert main(["policy", "explain", "--config", str(gateway.config_file), *question]) == 0
        assert json.loads(capsys.readouterr().out)["model"] == line["model"]


def test_the_audit_line_tells_a_drawn_model_also_where_another_answered_in_its_place(
    start_gateway: StartGateway, token: Token
) -> None:
    """Whoever judges a new model by calls that drew it must see those that it failed."""
    with Stub(scripts.sized(b"{}", 503)) as busy, Stub() as good:
        targets = [{"model": "new", "weight": 1}, {"model": "old", "weight": 0}]
        pools = [pool("new", [{"name": "new", "fallback": ["old"]}], busy.url), pool("old", ["old"], good.url)]
        gateway = start_gateway(pools, aliases=[{"name": "all", "targets": targets}])
        for name in ("new", "old"):
            gateway.backends_up(name, 1)

        def told(model: str) -> tuple[str, str | None, str | None]:
            answer = gateway.ask("POST", PATH, body={"model": model}, token=token("alice"))
            line = gateway.audit_of(answer["x-request-id"])
            return line["model"], line["asked_model"], line["drawn_model"]

        assert told("all") == ("old", "all", "new")
        assert told("old") == ("old", None, None)
        busy.answer = good.answer
        assert told("all") == ("new", "all", "new")
        assert told("all") == ("new", "all", "new")


def test_a_backend_cannot_say_which_model_answered(start_gateway: StartGateway, token: Token) -> None:
    with Stub(scripts.sized(b"{}", 200, "X-Gateway-Model: forged", "X_Gateway_Model: forged")) as stub:
        gateway = start_gateway([pool("nim", ["m"], stub.url)])
        gateway.backends_up("nim", 1)
        answer = gateway.ask("POST", PATH, body={"model": "m"}, token=token("alice"))
    assert answer.status == 200
    assert not [name for name, _ in answer.fields if "gateway" in name.lower()]
