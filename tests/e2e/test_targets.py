"""The path that was authorized is the path that is sent on, byte for byte; what could be read in two ways is refused.

B029, B030, B031, B052, B054, B059.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, unquote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.recorded import GRANTED, Site

INFER = "/v2/models/small/infer"
READY = "/v2/models/small/ready"

GETS = [
    # goes on, as it came
    *(
        (READY + query, 200)
        for query in ("", "?", "?model=small", "?x=/../..", "?a=%zz&%2e%2e", "?a;b", "?mod%65l=small")
    ),
    ("/v2/models/small/versions/1/ready", 200),
    ("/v2/models/small", 200),
    # the gateway's own
    *((f"/v1/models/{name}", 200) for name in ("small", "nv/embed", "nv%2Fembed", "nv%2fembed", "pub/small")),
    *(
        (f"/v1/models/{name}", 404)
        for name in ("big", "nobody", "nv%252Fembed", "it's", "a+b", "a%20b", "%ff", "SMALL")
    ),
    # dots
    ("/v1/models/../../v2/repository/index", 400),
    ("/v1/models/%2e%2e/%2e%2e/v2/repository/index", 400),
    ("/v1/models/.%2E/%2e./v2/repository/index", 400),
    ("/v1/models/..", 400),
    ("/v1/models/.", 400),
    ("/v1/./models", 400),
    ("/v1/%2e/models", 400),
    ("/../v1/models", 400),
    ("/v2/models/small/../big/ready", 400),
    ("/v2/models/small/versions/../../big/ready", 400),
    ("/v2/models/small%2f..%2fbig/ready", 400),
    ("/v1/models/nv%2F..%2Fbig", 400),
    ("/v1/models/nv%2F%2Fembed", 400),
    ("/v1/models/...", 404),
    # slashes
    ("/v1//models", 400),
    ("//v1/models", 400),
    ("/v1/models//", 400),
    ("/v2/models//ready", 400),
    ("/v1/models/", 404),
    (READY + "/", 404),
    ("/v1/models%2F..%2F..%2Fv2%2Frepository%2Findex", 400),
    ("/v1%2fmodels", 400),
    ("/v2/models/nv%2Fembed/ready", 400),
    ("/v1/models\\..\\..\\v2", 400),
    ("/v1/models%5c..%5c..%5cv2", 400),
    ("/v1/models%255c..%255cv2", 404),
    # encoded once more than needed
    ("/%76%31/models", 404),
    ("/v1/model%73", 404),
    ("/v1/health/%6cive", 404),
    ("/v2/models/%73mall/ready", 404),
    ("/v2/models/small/read%79", 404),
    ("/v1/models%252F..", 404),
    ("/v1/models/%252e%252e/x", 404),
    ("/v2/models/%2573mall/ready", 404),
    # half encoded
    ("/v1/models/a%zzb", 400),
    ("/v1/models/a%2", 400),
    ("/v1/models/a%", 400),
    ("/v1/models/%u002e%u002e/x", 400),
    # control bytes
    ("/v1/models%00", 400),
    ("/v1/models/small%00", 400),
    (READY + "%00", 400),
    ("/v1/models%0d%0aX:%20y", 400),
    ("/v1/models/%0A", 400),
    ("/v1/models/a%09", 400),
    ("/v1/models/a%7f", 400),
    # bytes beyond ASCII, and what UTF-8 must not be
    ("/v1/models/\xc3\xa9", 400),
    (READY + "\xff", 400),
    ("/v1/models/%c3%a9", 404),
    ("/v1/models/%c0%ae%c0%ae/x", 404),
    ("/v1/models%c0%afsmall", 404),
    ("/v1/models/%e0%80%ae%e0%80%ae", 404),
    ("/v1/models/%ED%A0%80", 404),
    ("/v2/models/small%c0%afready", 404),
    ("/v2/models/%ef%bd%93mall/ready", 404),
    # parameters, fragments, marks
    ("/v1/models;x=1", 400),
    ("/v1/models;x=/../../v2/repository/index", 400),
    ("/v2/models/small;/ready", 400),
    (READY + ";x=big", 400),
    (READY + "%3bx", 404),
    ("/v1/models#/../../v2/repository/index", 400),
    (READY + "#", 400),
    (READY + "?a#b", 400),
    (READY + "%23", 404),
    (READY + "%3f", 404),
    (READY + "?\xe9", 400),
    (READY + "?a=\\", 200),
    # other names
    ("/V1/models", 404),
    ("/v1/Models", 404),
    ("/v2/models/small/READY", 404),
    ("/v2/models/SMALL/ready", 404),
    ("/v2/models/small%20/ready", 404),
    ("/v2/models/small:latest/ready", 404),
    ("/v2/models/@small/ready", 404),
    ("/v2/models/big@small/ready", 404),
    ("/v2/models/nobody/ready", 404),
    ("/v2/models/big/ready", 403),
    ("/v2/models/big/versions/1/ready", 403),
    ("/v2/models/small/versions/x/ready", 404),
    ("/v2/models/small/versions/1%2e/ready", 400),
    ("/v2/models/small/versions/1/versions/2/ready", 404),
    # the query names another model (B052)
    *(
        (READY + query, 400)
        for query in ("?model=big", "?mod%65l=big", "?a;model=big", "?model=small&model=big", "?MODEL=big")
    ),
    *((READY + query, 400) for query in ("?model", "?model=", "?model=small%00", "?model=+small", "?lora_path=x")),
    # what nobody has open
    ("/", 404),
    ("/metrics", 404),
    ("/v1/metrics", 404),
    ("/v2/repository/index", 404),
    ("/v1/responses/resp_of_bob", 404),
]

POSTS = [
    ("/v1/chat/completions", 200),
    ("/v1/chat/completions?x=1", 200),
    (INFER, 200),
    ("/v2/models/small/versions/2/infer", 200),
    ("/v1/genai/pub/small", 200),
    ("/v1/genai/pub/big", 403),
    ("/v1/genai/pub%2Fsmall", 400),
    ("/v1/genai/pub/small/../big", 400),
    ("/v1/genai/pub/small/pub/big", 200),
    ("/v2/models/big/infer", 403),
    ("/v1/chat/completions?model=big", 400),
    ("/v1/chat/completions/", 404),
    ("/v1/chat/completions%3f", 404),
    ("/V1/chat/completions", 404),
    ("/v1/chat%2fcompletions", 400),
    ("/openai/deployments/small/chat/completions", 404),
    ("/v1/models/big:predict", 404),
    ("/v1/models/small:predict", 404),
    ("/v1/models/small/load", 404),
    ("/v2/repository/models/big/load", 404),
    ("/v2/repository/index", 404),
    ("/predict", 404),
    ("/invocations", 404),
    ("/v1/responses/resp_of_bob/cancel", 404),
    ("/v1/load_lora_adapter", 404),
]


@pytest.mark.parametrize(
    ("method", "target", "status"), [*(("GET", *row) for row in GETS), *(("POST", *row) for row in POSTS)]
)
def test_a_target_is_sent_on_as_it_came_or_not_at_all(site: Site, method: str, target: str, status: int) -> None:
    body = b'{"model":"small","messages":[]}' if method == "POST" else b""
    answer, got = site.ask(site.request(f"{method} {target} HTTP/1.1", body=body))
    assert answer.status == status
    relayed = status == 200 and not target.startswith("/v1/models")
    assert [(request.method, request.target, request.body) for request in got] == [(method, target, body)] * relayed


NOT_OPEN = [
    "/v2/repository/index?x=/v1/health/live",
    "/v1/chat/completions?/healthz",
    "/v1/health/live/../../chat/completions",
    "/v1/health/liveX",
    "/xx/v1/health/live",
    "/v1/health/live/",
    "/v1/health/live;",
    "/v1/health/%6cive",
    "/v1/health/live%00",
    "//v1/health/live",
    "/V1/health/live",
    "/v1/models",
    "/metrics",
]


@pytest.mark.parametrize("target", NOT_OPEN)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_a_token_only_the_exact_health_pages_answer(site: Site, method: str, target: str) -> None:
    """B031."""
    answer, got = site.ask(f"{method} {target} HTTP/1.1\r\nHost: gw.test\r\nContent-Length: 0\r\n\r\n".encode())
    assert (answer.status, got) == (401, [])
    assert site.ask(b"GET /v1/health/live HTTP/1.1\r\nHost: gw.test\r\n\r\n")[0].status == 200


# -- whatever is generated

VALID = [
    ("POST", INFER),
    ("POST", "/v2/models/small/versions/1/infer"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/genai/pub/small/sub"),
    ("GET", READY),
    ("GET", "/v2/models/small"),
    ("GET", "/v1/models/nv/embed"),
]
PIECES = [
    *"/.;#?&=%\\:@-~\x01\x7f\xff",
    *("..", "/..", "/../", "./", "//", "%2e", "%2E%2e", "%2F", "%2f", "%5c", "%00", "%0d%0a", "%25", "%252f", "%c0%af"),
    *("/big", "big", "small", "/small", "SMALL", "%73", "/v2", "/models", "/infer", "/versions/1", "pub/big", "/load"),
    *("?model=big", "?model=small", "&model=big", "?a=b", "&mod%65l=big", ";model=big", "?x=/../", "?lora_name=big"),
]
MODEL = re.compile(r"/v2/models/([^/]+)(?:/.*)?|/v1/genai/([^/]+/[^/]+)(?:/.*)?|/v1/chat/completions()")


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str]:
    """A method and a target: one that is right, with some pieces put in or in place of its own."""
    method, target = draw(st.sampled_from(VALID))
    for piece in draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3)):
        edges = [len(target), *(at for at, letter in enumerate(target) if at and letter in "/?&=")]
        start = draw(st.one_of(st.just(len(target)), st.sampled_from(edges), st.integers(1, len(target))))
        target = target[:start] + piece + target[start + draw(st.sampled_from([0, 0, 0, 1, len(piece)])) :]
    return method, target


def lenient(path: str) -> str:
    """What the most obliging of servers would make of a path."""
    while (decoded := unquote(path, "latin-1")) != path:
        path = decoded
    path = "/".join(segment.partition(";")[0] for segment in path.replace("\\", "/").split("/"))
    path = re.split("[#?\0]", path)[0]
    return re.sub("//+", "/", posixpath.normpath(path) + "/" * path.endswith("/"))


def named(target: str) -> set[str]:
    """The models that a target names, in its path or in its query."""
    path, _, query = target.partition("?")
    pairs = (pair.partition("=") for pair in re.split("[&;]", query))
    found = MODEL.fullmatch(path)
    assert found is not None, path
    queried = {unquote_plus(value) for key, _, value in pairs if unquote_plus(key) in {"model", "lora_name"}}
    return {name for name in found.groups() if name} | queried


@settings(max_examples=600)
@given(requests())
def test_whatever_a_backend_sees_has_one_reading_and_names_what_was_granted(
    site: Site, generated: tuple[str, str]
) -> None:
    """The backend's own view, by a reading that has nothing in common with the gateway's."""
    method, target = generated
    body = b'{"model":"small","messages":[]}' if method == "POST" else b""
    answer, got = site.ask(site.request(f"{method} {target} HTTP/1.1", body=body))
    assert answer.status in {200, 400, 403, 404, 405, 421, 431}
    for request in got:
        assert (answer.status, request.method, request.target, request.body) == (200, method, target, body)
        path, _, query = target.partition("?")
        assert lenient(path) == path
        assert re.fullmatch(r"[!-\"$-~]*", query)
        assert named(target) <= {*GRANTED}
