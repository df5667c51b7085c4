"""Whatever a body or its announcement does to name a model in two ways, a backend only gets one that is granted.

B050, B051, B052, B053, B054, B055, B060, B063.
"""

from __future__ import annotations

import json
from itertools import product

import pytest

from tests.e2e.recorded import Site
from tests.parts.stub import Request

CHAT = "/v1/chat/completions"
JSON = "application/json"
BIG = b'{"model":"big","messages":[]}'
SMALL = b'{"model":"small","messages":[]}'


def ask(site: Site, body: bytes, path: str = CHAT, *kinds: str) -> tuple[int, dict[str, object], list[Request]]:
    """Status, error and what the backend got; `kinds` are the values of Content-Type."""
    fields = [f"Content-Type: {kind}" for kind in kinds or (JSON,)]
    answer, got = site.ask(site.request(f"POST {path} HTTP/1.1", *fields, body=body))
    return answer.status, answer.json().get("error", {}), got


def escapes(name: str) -> list[str]:
    """Ways to write a name in JSON: each letter escaped, in each case of hexadecimal digits, and all of them."""
    one = [f"{name[:at]}\\u{ord(name[at]):04{case}}{name[at + 1 :]}" for at in range(len(name)) for case in "xX"]
    return [name, *one, "".join(f"\\u{ord(letter):04x}" for letter in name)]


KEYS = list(dict.fromkeys(escapes("model")))


@pytest.mark.parametrize(("first", "second"), [*product(KEYS[:1], KEYS), *product(KEYS[1:], KEYS[:1])])
def test_a_model_that_stands_twice_reaches_nobody_however_its_name_is_escaped(
    site: Site, first: str, second: str
) -> None:
    """B051."""
    for one, other in (("small", "big"), ("big", "small"), ("small", "small")):
        for between in ("", '"messages":[],', '"x":{"model":"small"},', '"x":"\\\\\\",\\"model\\":",'):
            body = f'{{"{first}":"{one}",{between}"{second}":"{other}"}}'
            status, error, got = ask(site, body.encode())
            assert (status, error["code"], error["param"], got) == (400, "ambiguous_model", "model", [])


@pytest.mark.parametrize("key", KEYS)
def test_a_model_that_stands_once_is_one_however_its_name_is_escaped(site: Site, key: str) -> None:
    """B051."""
    for model, status in (("small", 200), ("big", 403), ("sm\\u0061ll", 200), ("b\\u0069g", 403)):
        body = f'{{"metadata":{{"model":"big","model":"small"}},"{key}":"{model}"}}'.encode()
        answered, _, got = ask(site, body)
        assert (answered, [request.body for request in got]) == (status, [body] * (status == 200))


MISREAD = [
    # named twice, in another way
    (b'{"model":"small","Model":"big"}', 400),
    (b'{"MODEL":"big","model":"small"}', 400),
    (b'{"model":"small","model_name":"big"}', 400),
    (b'{"model":"small","model_id":"big"}', 400),
    (b'{"model":"small","lora_name":"big"}', 400),
    (b'{"model":"small","lora_path":"/models/big"}', 400),
    (b'{"model":"small","a":1,"a":2}', 400),
    (b'{"model":"small","a":{"b":{"priority":1},"b":2}}', 400),  # a field of the engine, for who takes the first
    # no name at all (B053)
    (b'{"messages":[]}', 400),
    *((b'{"model":%b}' % value, 400) for value in (b'""', b"null", b"0", b"true", b'["small","big"]', b'{"id":"big"}')),
    *((body, 400) for body in (b"[]", b"null", b'"small"', b"1", b"model=small", b"{", b'{"model":"small"', b" ")),
    # look-alikes: the same answer for each, whatever exists (B054)
    *(
        (json.dumps({"model": name}).encode(), 404)
        for name in (
            *("small ", " small", "small\n", "small\t", "small\0", "SMALL", "Small", "\uff53mall", "sma\u200bll"),
            *("sm\u0430ll", "small/", "./small", "/small", "small:latest", "small@1", "small%20", "sm%61ll", "*"),
            *(
                "small,big",
                "small|big",
                "small;big",
                "nv\\embed",
                "nv%2Fembed",
                "nv//embed",
                "nv/../big",
                "e\u0301mbed",
            ),
            *(
                "small-query",
                "engine",
                "pub/small",
                "smal",
                "s",
                "." * 300,
                "x" * 100_000,
                "\u202esmall",
                "\ufeffsmall",
            ),
        )
    ),
    (b'{"model":"big\\ud800"}', 400),
    (b'{"model":"\\udc00small"}', 400),
    (b'{"model":"small\xff"}', 400),
    (b'{"model":"small\xed\xa0\x80"}', 400),
    (b'{"model":"sm\xc1\xa1ll"}', 400),
    # not JSON to everybody (B055)
    (b"\xef\xbb\xbf" + SMALL, 400),
    (SMALL.decode().encode("utf-16"), 400),
    (SMALL.decode().encode("utf-16-le"), 400),
    (SMALL.decode().encode("utf-16-be"), 400),
    (SMALL.decode().encode("utf-32"), 400),
    (b'{"model":"big","+AG0-odel":"small"}', 403),
    (SMALL + b"\0", 400),
    (SMALL + BIG, 400),
    (SMALL + b"\n" + BIG, 400),
    (b'{"model":"small",}', 400),
    (b'{"model":"small"/*","model":"big"*/}', 400),
    (b"{'model':'small'}", 400),
    (b'{model:"small"}', 400),
    (b'{"model":"small","x":NaN}', 400),
    (b'{"model":"small","x":-Infinity}', 400),
    (b'{"model":"small","x":01}', 400),
    (b'{"model":"small","x":"\x01"}', 400),
    (b'{"model":"small","x":"\\x41"}', 400),
    (b'{"model":"small\\\n"}', 400),
    # somebody's (B063)
    (b'{"model":"small","previous_response_id":"resp_of_bob"}', 404),
    (b'{"model":"small","stream":true,"previous_response_id":"resp_of_bob"}', 404),
    (b'{"model":"small","conversation":"conv_of_bob"}', 404),
    (b'{"model":"small","conversation":{"id":"conv_of_bob"}}', 404),
    (b'{"model":"small","Previous_Response_Id":"resp_of_bob"}', 400),
    # whether it streams is a question of rights too
    *((b'{"model":"small","stream":%b}' % value, 400) for value in (b"1", b'"true"', b"[]", b"{}")),
    (b'{"model":"small","stream":false,"stream":true}', 400),
    (b'{"model":"small","Stream":true}', 400),
]


@pytest.mark.parametrize(("body", "status"), MISREAD)
@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
def test_a_body_that_names_no_granted_model_in_one_way_reaches_nobody(
    site: Site, body: bytes, status: int, path: str
) -> None:
    answered, error, got = ask(site, body, path)
    assert (answered, got) == (status, [])
    if status == 404 and "of_bob" not in body.decode("latin-1"):
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert ask(site, b'{"model":"nobody"}', path)[1]["message"] == error["message"]


@pytest.mark.parametrize(
    "extra", [b"", b',"previous_response_id":null', b',"conversation":null', b',"model_name":"small"']
)
def test_a_body_that_names_one_granted_model_goes_on_as_it_came(site: Site, extra: bytes) -> None:
    body = b' { "messages":[{"role":"a","role":"b"}] ,"model" : "small"%b}\n' % extra
    status, _, got = ask(site, body)
    assert (status, [request.body for request in got]) == (200, [body])


KINDS = [
    (("application/json", "multipart/form-data; boundary=x"), 400),
    (("multipart/form-data; boundary=x", "application/json"), 400),
    (("application/json", "application/json"), 400),
    (("text/plain",), 415),
    (("application/x-www-form-urlencoded",), 415),
    (("",), 415),
    *(
        ((f"application/json; charset={charset}",), 415)
        for charset in ("utf-7", "utf-16", "utf-16le", "utf-8-sig", "x")
    ),
    *(((f"application/json; charset={charset}",), 415) for charset in ("iso-8859-1", '"utf-16"', "us-ascii")),
    (("application/json; charset=utf-8; charset=utf-16",), 400),
    (("application/json; charset*=utf-8''utf-16",), 400),
    (("application/json, text/plain",), 400),
    *(((kind,), 200) for kind in ("application/json;charset=UTF-8", "Application/JSON", "application/vnd.x+json")),
]


@pytest.mark.parametrize(("kinds", "status"), KINDS)
def test_a_body_is_read_as_what_it_says_it_is_or_not_at_all(site: Site, kinds: tuple[str, ...], status: int) -> None:
    """B050, B055."""
    answered, _, got = ask(site, SMALL, CHAT, *kinds)
    assert (answered, len(got)) == (status, int(status == 200))
    assert ask(site, BIG, CHAT, *kinds)[0] == (403 if status == 200 else status)


def test_a_body_that_does_not_say_what_it_is_is_not_read(site: Site) -> None:
    """B050."""
    data = (
        site.request(f"POST {CHAT} HTTP/1.1", "X-Content-Type: content-type", f"Content-Length: {len(SMALL)}") + SMALL
    )
    answer, got = site.ask(data)
    assert (answer.status, got) == (415, [])


MULTIPART = "multipart/form-data; boundary=bo"
URLENCODED = "application/x-www-form-urlencoded"


def part(name: str, value: str, more: str = "") -> bytes:
    return f'--bo\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'.encode()


FORMS = [
    (MULTIPART, part("model", "small"), 200),
    (MULTIPART, part("model", "big"), 403),
    (MULTIPART, part("model", "small") + part("model", "big"), 400),
    (MULTIPART, part("model", "big") + part("model", "small"), 400),
    (MULTIPART, part("model", "small") + part("Model", "big"), 400),
    (MULTIPART, part("model", "small") + part("model_name", "big"), 400),
    (MULTIPART, part("model", "small", '; filename="a"'), 400),
    (MULTIPART, part("x", "small", "; name*=utf-8''model"), 400),
    (MULTIPART, part("model", "small") + b"--bo--\r\n" + part("model", "big"), 400),
    (MULTIPART, part("model", "small\r\n--bo \r\n"), 400),
    (MULTIPART, part("model", ""), 400),
    (MULTIPART, part("prompt", "x"), 400),
    (f"{MULTIPART}; boundary=other", part("model", "small"), 400),
    (f"{MULTIPART}; boundary*0=other", part("model", "small"), 400),
    (URLENCODED, b"model=small", 200),
    (URLENCODED, b"mod%65l=small", 200),
    (URLENCODED, b"model=small&mod%65l=big", 400),
    (URLENCODED, b"model=small&MODEL=big", 400),
    (URLENCODED, b"model=small;model=big", 400),
    (URLENCODED, b"model=small%20", 404),
    (URLENCODED, b"model=%ff", 400),
    ("application/json", SMALL, 415),
]


@pytest.mark.parametrize(("kind", "body", "status"), FORMS)
def test_a_form_names_its_model_in_one_way_or_reaches_nobody(site: Site, kind: str, body: bytes, status: int) -> None:
    """B051, B053."""
    whole = body + b"--bo--\r\n" if kind.startswith("multipart") else body
    answered, _, got = ask(site, whole, "/v1/images/edits", kind)
    assert (answered, [request.body for request in got]) == (status, [whole] * (status == 200))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_of_bob"),
        ("GET", "/v1/responses/resp_of_bob/input_items"),
        ("POST", "/v1/responses/resp_of_bob/cancel"),
        ("DELETE", "/v1/responses/resp_of_bob"),
        ("GET", "/v1/conversations/conv_of_bob"),
        ("GET", "/v1/files/file_of_bob"),
        ("GET", "/v1/files"),
        ("GET", "/v1/batches/batch_of_bob"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/chat/completions/chatcmpl_of_bob"),
        ("GET", "/v1/videos/video_of_bob/content"),
        ("GET", "/v2/nvcf/pexec/status/00000000-0000-4000-8000-000000000000"),
    ],
)
def test_what_is_kept_for_somebody_cannot_be_had_by_its_id(site: Site, method: str, path: str) -> None:
    """B063."""
    answer, got = site.ask(site.request(f"{method} {path} HTTP/1.1"))
    assert (answer.status, got) == (404, [])


def test_the_list_of_models_is_what_the_caller_may_use_and_asks_no_backend(site: Site) -> None:
    """B060."""
    site.stub.healthy = False
    try:
        answer, got = site.ask(site.request("GET /v1/models HTTP/1.1"))
    finally:
        site.stub.healthy = True
    entries = answer.json()["data"]
    assert [entry["id"] for entry in entries] == ["small", "nv/embed", "pub/small"]
    assert not {"root", "parent"} & {key for entry in entries for key in entry}
    assert (answer.status, answer["etag"], got) == (200, None, [])
