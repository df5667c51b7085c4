"""Forms are held to what they say in any of their fields, and what they are about is left alone."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from gateway.errors import BadRequest, CapExceeded, Refusal
from gateway.seams import Interface
from gateway.terms import Terms
from tests.caps.asked import meet

STRICT = Terms(max_tokens=10, n=1, prompts=1, remote_media=False)
Fields = list[tuple[str, str]]


def form(fields: Fields, terms: Terms = STRICT, *, multipart: bool) -> bytes | None:
    if not multipart:
        body, kind = urlencode(fields).encode(), b"application/x-www-form-urlencoded"
    else:
        part = '--X\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
        body = ("".join(part.format(*field) for field in fields) + "--X--\r\n").encode()
        kind = b"multipart/form-data; boundary=X"
    assert meet(body, Terms(), interface=Interface.FORM, fields=((b"content-type", kind),)).payload == body
    return meet(body, terms, interface=Interface.FORM, fields=((b"content-type", kind),)).payload


@pytest.mark.parametrize("multipart", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "url", "url[]", "URL[]", "image", "image[]", "image_url", "reference_url", "input_reference", "output_path",
        "file_id", "mask", "whatever",
    ],
)  # fmt: skip
def test_an_address_in_a_field_is_refused_where_media_come_within_the_call(name: str, multipart: bool) -> None:
    with pytest.raises(CapExceeded, match="outside of the call"):
        form([("model", "m"), (name, "http://10.0.0.1/")], multipart=multipart)
    with pytest.raises(CapExceeded, match="outside of the call"):
        form([(name, "x"), (name, "http://10.0.0.1/")], multipart=multipart)


@pytest.mark.parametrize("multipart", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        [("model", "m"), ("prompt", "http://x is an\r\naddress\r\n"), ("response_format", "verbose_json")],
        [("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment"), ("temperature", "0.2")],
        [("chunking_strategy", '{"type":"server_vad"}'), ("language", "en"), ("prompt", '{"n": 9}'), ("n", "1")],
        [("image", "data:image/png;base64,AA=="), ("size", "1024x1024"), ("user", "a:b"), ("x", "")],
    ],
)
def test_an_ordinary_form_passes(fields: Fields, multipart: bool) -> None:
    assert form(fields, multipart=multipart)


@pytest.mark.parametrize("multipart", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        [("n", "5")], [("n", " 1")], [("n", "1.0")], [("n[]", "1")], [("N", "1")], [("max_tokens[]", "500")],
        [("priority", "1")], [("vllm_xargs", "{}")], [("extra_body", '{"n":1}')], [("extra_params", ' {"x":1}')],
        [("max_new_tokens", "11")], [("num_outputs_per_prompt", "2")], [("tools", "a")],
    ],
)  # fmt: skip
def test_a_form_that_asks_for_more_is_refused(fields: Fields, multipart: bool) -> None:
    with pytest.raises(Refusal) as refused:
        form(fields, Terms(max_tokens=10, n=1, tools=0), multipart=multipart)
    assert refused.value.status == 400


@pytest.mark.parametrize("multipart", [False, True])
def test_a_limited_field_that_comes_twice_is_no_question_of_models(multipart: bool) -> None:
    with pytest.raises(BadRequest, match="'n' more than once") as refused:
        form([("n", "5"), ("n", "1")], multipart=multipart)
    assert (refused.value.code, refused.value.param) == ("invalid_request", "n")


def test_a_limited_field_that_is_a_file_is_refused() -> None:
    body = b'--X\r\nContent-Disposition: form-data; name="n"; filename="a"\r\n\r\n5\r\n--X--\r\n'
    kind = ((b"content-type", b"multipart/form-data; boundary=X"),)
    with pytest.raises(BadRequest, match="as a file"):
        meet(body, STRICT, interface=Interface.FORM, fields=kind)
