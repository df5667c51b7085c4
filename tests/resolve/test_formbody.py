"""A form has one reading, and naming a model in it touches nothing else."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from email import message_from_bytes
from functools import partial
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.multipart import MultipartParser

from gateway.errors import AmbiguousModel, BadRequest, Refusal, TooLarge
from gateway.resolve.formbody import MAX_PARTS, MAX_VALUE, Form, read
from gateway.resolve.media import Media

URLENCODED = Media("application/x-www-form-urlencoded", {})
WANTED = frozenset({"model", "stream"})
FILE = b'Content-Disposition: form-data; name="file"; filename="a\\"b.wav"\r\nContent-Type: audio/wav'


MALFORMED = """
from gateway import logs
from gateway.errors import BadRequest
from gateway.resolve.formbody import read
from gateway.resolve.media import Media

logs.configure()
try:
    read(Media("multipart/form-data", {"boundary": "bo"}), b"--bo\\r\\nX=y\\r\\n\\r\\n\\r\\n--bo--\\r\\n", frozenset())
except BadRequest:
    print("refused", end="")
"""


def field(name: str) -> bytes:
    return b'Content-Disposition: form-data; name="%b"' % name.encode()


def parts(*pieces: tuple[bytes, bytes], end: bytes = b"--bo--\r\n") -> bytes:
    return b"".join(b"--bo\r\n" + head + b"\r\n\r\n" + value + b"\r\n" for head, value in pieces) + end


def form(body: bytes, boundary: str = "bo") -> Form:
    return read(Media("multipart/form-data", {"boundary": boundary}), body, WANTED)


def by_email(body: bytes) -> list[tuple[str | None, bytes]]:
    """The fields of a form by an independent parser."""
    message = message_from_bytes(b"Content-Type: multipart/form-data; boundary=bo\r\n\r\n" + body)
    found = []
    for part in message.walk():
        if not part.is_multipart():
            name = part.get_param("name", header="content-disposition")
            payload = part.get_payload(decode=True)
            found.append((name if isinstance(name, str) else None, payload if isinstance(payload, bytes) else b""))
    return found


names = st.sampled_from(["model", "stream", "file", "Model", "models", "model "])
contents = st.one_of(
    st.sampled_from([b"small", b"--bo", b"-", b"a\r\nb", b"\r\n--b", b'name="model"', b"\r", b"x\r\n\r\ny"]),
    st.binary(min_size=1, max_size=12),
)


@given(st.lists(st.tuples(names, contents), min_size=1, max_size=4))
def test_a_form_is_read_as_it_was_written(fields: list[tuple[str, bytes]]) -> None:
    body = parts(*((field(name), value) for name, value in fields))
    given_models = [value for name, value in fields if name == "model"]
    try:
        seen = form(body).values
    except AmbiguousModel:
        assert any([name for name, _ in fields].count(each) > 1 for each in WANTED)
        return
    except BadRequest:
        return  # strictness is shown below; here only that what passes is right
    assert [seen["model"].encode()] == given_models if given_models else "model" not in seen


@given(st.text(max_size=10).filter(bool), st.binary(max_size=40))
def test_other_parsers_find_the_model_that_was_written_in(model: str, audio: bytes) -> None:
    if "--bo" in model or any(c in model for c in "\r\n"):
        return
    audio = audio.replace(b"--bo", b"")
    for body in (parts((FILE, audio)), parts((FILE, audio), (field("model"), b"old"))):
        after = form(body).rewritten("model", model)
        assert form(after).values["model"] == model
        assert [value for name, value in by_email(after) if name == "model"] == [model.encode()]
        assert audio in after


def test_only_the_value_changes() -> None:
    body = parts((FILE, b"\x00\xff--b\r\n-"), (field("model"), b"tiny"), (field("stream"), b"true"))
    seen = form(body)
    assert seen.values == {"model": "tiny", "stream": "true"}
    assert seen.rewritten("model", "small") == body.replace(b"tiny", b"small")


@pytest.mark.parametrize(
    "body",
    [
        parts((field("model"), b"small"), (field("model"), b"big")),
        parts((field("model"), b"small"), (b"content-disposition: FORM-DATA; NAME=model", b"big")),
    ],
)
def test_a_model_given_twice_is_ambiguous(body: bytes) -> None:
    with pytest.raises(AmbiguousModel):
        form(body)


BAD_HEADS = [
    b'Content-Disposition: form-data; name="model"; filename="x"',
    b"Content-Disposition: form-data; name=\"x\"; name*=utf-8''model",
    b'Content-Disposition: form-data; name="x"; name="model"',
    b'Content-Disposition: form-data; name="mod\\el"',
    b'Content-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"',
    b'Content-Disposition: attachment; name="model"',
    b"Content-Disposition: form-data",
    b"X: y",
    field("model") + b"\r\nContent-Transfer-Encoding: base64",
    field("x") + b"\r\nContent-Transfer-Encoding: quoted-printable",
    field("model") + b"\r\nContent-Type: text/plain; charset=utf-16",
    field("model") + b"\r\nContent-Type: multipart/mixed; boundary=x",
    field("model") + b"\r\nContent-Type: text/plain\r\nContent-Type: message/rfc822",
    b'X: y\nContent-Disposition: form-data; name="model"\r\n' + field("x"),  # two fields where a line ends at LF
    b"X: \x00\r\n" + field("x"),
    b"Content-Disposition: form-data; name=mod(el",
    b'Content-Disposition: form-data; name="x;y"',
    b'Content-Disposition: form-data; name="x"; filename="a; NAME=model; b"',
    b'Content-Disposition: form-data; name="x"; filename="a\\"; name=model; y=\\"z"',
]


@pytest.mark.parametrize("head", BAD_HEADS)
def test_a_part_whose_name_or_value_servers_could_read_differently_is_refused(head: bytes) -> None:
    with pytest.raises(BadRequest):
        form(parts((head, b"big")))


@pytest.mark.parametrize("name", ["Model", "MODEL", "Stream"])
def test_a_field_that_servers_could_take_for_another_because_of_its_case_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match=name.lower()):
        form(parts((field("model"), b"small"), (field(name), b"big")))
    with pytest.raises(BadRequest, match=name.lower()):
        read(URLENCODED, urlencode({"model": "small", name: "big"}).encode(), WANTED)
    assert form(parts((field("x" + name), b"1"))).values == {}


def test_a_value_may_say_that_it_is_utf8() -> None:
    body = parts((field("model") + b"\r\nContent-Type: text/plain; charset=UTF-8", b"small"))
    assert form(body).values["model"] == "small"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"preamble\r\n" + parts((field("model"), b"big")),
        b"\r\n" + parts((field("model"), b"big")),
        parts((field("model"), b"big"), end=b""),
        parts((field("model"), b"big"), end=b"--bo\r\n"),
        parts((field("model"), b"small")) + parts((field("model"), b"big")),
        parts((field("model"), b"small")) + b"more",
        parts((field("x"), b"a\r\n--boX\r\n" + field("model") + b"\r\n\r\nbig")),
        parts((field("x"), b"a\r--bo\r" + field("model") + b"\r\rbig")),
        parts((field("x"), b"a\n--bo\n" + field("model") + b"\n\nbig")),
        parts((field("x"), b"a\r\n--bo \r\n" + field("model") + b"\r\n\r\nbig")),
        parts((field("model"), b"small")).replace(b"\r\n", b"\n"),
        parts((field("model"), b"")),
        parts((field("model"), b"\xff")),
        parts((field("model"), b"x" * (MAX_VALUE + 1))),
    ],
)
def test_a_form_that_is_not_whole_and_plain_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        form(body)


@pytest.mark.parametrize("boundary", ["", "x" * 71, "a\tb", "é", "end "])
def test_a_boundary_that_no_form_may_have_is_refused(boundary: str) -> None:
    with pytest.raises(BadRequest):
        form(b"--" + boundary.encode() + b"\r\n", boundary)


def test_the_number_of_parts_is_bounded() -> None:
    with pytest.raises(TooLarge):
        form(parts(*[(field("x"), b"1")] * (MAX_PARTS + 1)))
    with pytest.raises(TooLarge):
        read(URLENCODED, b"a=1&" * MAX_PARTS, WANTED)


@given(st.binary(max_size=80))
def test_no_bytes_raise_anything_but_a_refusal(noise: bytes) -> None:
    for body in (noise, b"--bo\r\n" + noise, b"--bo\r\n" + noise + b"\r\n--bo--\r\n"):
        try:
            form(body)
        except Refusal:
            continue


pairs = st.lists(st.tuples(st.sampled_from(["model", "a", "mod el", "é"]), st.text(max_size=6)), max_size=4)


@given(pairs, st.text(min_size=1, max_size=6))
def test_an_urlencoded_form_is_read_and_written_as_other_parsers_do(fields: list[tuple[str, str]], model: str) -> None:
    body = urlencode(fields).encode()
    models = [value for name, value in fields if name == "model"]
    if len(models) > 1:
        with pytest.raises(AmbiguousModel):
            read(URLENCODED, body, WANTED)
        return
    seen = read(URLENCODED, body, WANTED)
    wanted: Mapping[str, str] = {"model": models[0]} if models else {}
    assert seen.values == wanted
    after = parse_qsl(seen.rewritten("model", model).decode(), keep_blank_values=True)
    assert [value for name, value in after if name == "model"] == [model]
    assert [each for each in after if each[0] != "model"] == [each for each in fields if each[0] != "model"]


@pytest.mark.parametrize("body", [b"model=small&mod%65l=big", b"model=small&model=small"])
def test_a_repeated_urlencoded_model_is_ambiguous(body: bytes) -> None:
    with pytest.raises(AmbiguousModel):
        read(URLENCODED, body, WANTED)


def test_only_the_values_that_are_asked_for_are_decoded() -> None:
    """Decoding a crowd of escapes costs some 80 times their size in memory."""
    noise = b"%41" * 300_000
    for body in (
        b"model=small&a=" + noise,
        noise + b"=1&model=small",
        noise + b"&model=small",
        b"%6dodel=small&mode%6C" + noise + b"=1",
    ):
        assert memory(partial(read, URLENCODED, body, WANTED)) < 4 * len(body)
        assert read(URLENCODED, body, WANTED).values == {"model": "small"}
        after = read(URLENCODED, body, WANTED).rewritten("model", "big")
        assert read(URLENCODED, after, WANTED).values == {"model": "big"}
        assert after.count(noise) == 1


def test_a_value_that_is_too_long_is_refused_before_it_is_decoded() -> None:
    body = b"model=" + b"%41" * 300_000

    def refusal() -> None:
        with pytest.raises(BadRequest, match="too long"):
            read(URLENCODED, body, WANTED)

    assert memory(refusal) < 4 * len(body)
    longest = b"model=" + b"%41" * MAX_VALUE
    assert read(URLENCODED, longest, WANTED).values == {"model": "A" * MAX_VALUE}
    for more in (b"%41", b"A"):
        with pytest.raises(BadRequest, match="too long"):
            read(URLENCODED, b"model=" + b"A" * MAX_VALUE + more, WANTED)


def memory(step: Callable[[], object]) -> int:
    """The most bytes that a step holds at once."""
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(st.sampled_from(["model", "stream", "mod el", "mode", "modelmodel"]), st.integers(0, 2**16 - 1))
def test_a_wanted_name_is_found_however_it_is_escaped(name: str, escaped: int) -> None:
    key = "".join(f"%{ord(c):02x}" if escaped >> i & 1 or c == " " else c for i, c in enumerate(name))
    seen = read(URLENCODED, f"a=b&{key}=x%2By+z".encode(), WANTED).values
    assert seen == ({name: "x+y z"} if name in WANTED else {})


def test_lines_that_look_like_a_boundary_never_reach_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes through them byte by byte."""
    written: list[int] = []
    monkeypatch.setattr(MultipartParser, "write", lambda _, data: written.append(len(data)))
    for body in (
        parts((FILE, b"\r\n--boX" * 500), (field("model"), b"small")),
        parts((FILE, b"\r\n--bo " * 500), (field("model"), b"small")),
        parts((field("model"), b"small")) + b"x" * 10_000,
        parts(*[(field("x"), b"1")] * (MAX_PARTS + 1)),
    ):
        with pytest.raises((BadRequest, TooLarge)):
            form(body)
    assert written == []


def test_a_caller_who_sends_odd_forms_does_not_fill_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-c", MALFORMED], check=True)
    assert capfd.readouterr() == ("refused", "")


def test_a_semicolon_that_some_servers_split_at_is_refused() -> None:
    with pytest.raises(BadRequest):
        read(URLENCODED, b"a=1;model=big", WANTED)
