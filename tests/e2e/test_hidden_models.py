"""What a caller may not use it learns nothing about: not its names, not its limits, not that it is there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.devcerts import Paths
from tests.identity.signers import Mint, ec_signer
from tests.parts.client import Answer
from tests.parts.gateway import Gateway, allow, oidc, pool
from tests.parts.issuers import Issuers
from tests.parts.stub import Stub

KEY = ec_signer("k")
CHAT, FORM = "/v1/chat/completions", "/v1/audio/transcriptions"
#: Names of models, aliases and backends that the caller has no rule for.
KEPT = ("secret", "other", "nick", "all", "engine/secret", "voiced", "tensors", "deep")
LARGE = "x" * 3000


@dataclass(frozen=True)
class Way:
    """To ask for a model; `{}` stands for its name."""

    path: str = CHAT
    fields: tuple[tuple[str, str], ...] = ()

    def ask(self, gateway: Gateway, token: str, name: str) -> Answer:
        path = self.path.replace("{}", name)
        named = {key: value.replace("{}", name) for key, value in self.fields}
        if not self.path.startswith(FORM):
            return gateway.ask("POST", path, token=token, body={"model": name, **named})
        parts = {"model": name, **named}
        body = "".join(f'--b\r\ncontent-disposition: form-data; name="{key}"\r\n\r\n{parts[key]}\r\n' for key in parts)
        form = {"content-type": "multipart/form-data; boundary=b"}
        return gateway.ask("POST", path, token=token, body=f"{body}--b--\r\n".encode(), headers=form)


WAYS = [
    Way(path + query, fields)
    for path in (CHAT, "/v1/embeddings", "/v1/messages", "/opened", FORM)
    for query in ("", "?model={}", "?model_name=engine/secret", "?lora_name=nosuch")
    for fields in ((), (("model_name", "{}"),), (("model_id", "engine/secret"),), (("pad", LARGE),))
] + [
    Way(f"/v2/models/{{}}{rest}{query}", fields)
    for rest in ("/infer", "/versions/1/infer", "/config", "")
    for query in ("", "?model={}", "?model_name=engine/secret")
    for fields in ((), (("pad", LARGE),))
]


@pytest.fixture(scope="module")
def alice() -> Iterator[Mint]:
    with Issuers() as issuers:
        yield Mint(issuers.add("/corp", KEY.jwk()).iss, KEY, time.time())


@pytest.fixture(scope="module", params=[True, False], ids=["hidden", "told"])
def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Paths, alice: Mint
) -> Iterator[Gateway]:
    with Stub() as stub:
        models: list[str | Mapping[str, Any]] = [
            {"name": "secret", "backend_name": "engine/secret", "aliases": ["nick"]},
            "other",
        ]
        pools = [
            pool("nim", ["m"], stub.url, open=["/opened"]),
            pool("small", models, stub.url, max_body="1KiB", protocols=["openai", "anthropic"]),
            pool("speech", ["voiced"], stub.url, max_body="1KiB", protocols=["speech-http"]),
            pool("triton", ["tensors", {"name": "deep", "backend_name": "a/b"}], stub.url, protocols=["kserve"]),
        ]
        sharing = [{"model": "secret", "weight": 1}, {"model": "other", "weight": 1}]
        with Gateway(
            tmp_path_factory.mktemp("hidden"),
            certificates,
            [oidc(alice.iss, audience=["gw"])],
            pools,
            [
                allow("mine", ["m"], subjects={"groups": ["ds"]}),
                allow("theirs", ["*"], subjects={"groups": ["others"]}),
            ],
            hide_models=request.param,
            aliases=[{"name": "all", "targets": sharing}],
        ) as made:
            made.hidden = request.param  # type: ignore[attr-defined]
            made.backends_up("nim", 1)
            yield made


def told(answer: Answer) -> tuple[int, bytes]:
    own = answer["x-request-id"] or "none"
    return answer.status, answer.body.replace(own.encode(), b"ID")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.path} {dict(way.fields)}"[:70])
def test_a_model_that_a_caller_may_not_use_is_told_from_none_by_nothing(
    gateway: Gateway, alice: Mint, way: Way
) -> None:
    token = alice.token()
    nothing = {name: told(way.ask(gateway, token, name)) for name in ("nosuch", "no/such")}
    for name in KEPT:
        none, answer = nothing["no/such" if "/" in name else "nosuch"], told(way.ask(gateway, token, name))
        if gateway.hidden:  # type: ignore[attr-defined]
            assert answer == none, name
        else:
            assert answer[0] in {403, none[0]}, "neither a limit nor a name of the backend"


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (Way(CHAT + "?model={}"), (400, "ambiguous_model")),
        (Way(CHAT, (("model_name", "{}"),)), (400, "ambiguous_model")),
        (Way(CHAT, (("pad", LARGE),)), (413, "request_too_large")),
    ],
)
@pytest.mark.parametrize("name", ["secret", "all"])
def test_whoever_may_use_it_is_told_what_is_wrong(
    gateway: Gateway, alice: Mint, way: Way, said: tuple[int, str], name: str
) -> None:
    answer = way.ask(gateway, alice.token(groups=["others"]), name)
    assert (answer.status, answer.json()["error"]["code"]) == said
