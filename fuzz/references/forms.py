"""Forms as other servers read them: the fields in order, files left out, or a reason.

Knows: `email`, the reader of aiohttp, and python_multipart the way servers on Starlette use it.
Must not know: the gateway.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from email import message_from_bytes
from email.message import Message
from urllib.parse import parse_qsl, unquote_to_bytes

from aiohttp import BodyPartReader, MultipartReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field as FormField
from python_multipart.multipart import File, FormParser

from fuzz.material import finished
from fuzz.references.messages import LARGE, LOOP, Refused

BOUNDARY = "bo"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"
URLENCODED = "application/x-www-form-urlencoded"

logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # a line for each form that it does not take

Found = list[tuple[bytes, bytes]]


def by_email(body: bytes) -> Found:
    """As a message of mail, whose parser takes almost everything."""
    parts = message_from_bytes(f"Content-Type: {MULTIPART}\r\n\r\n".encode() + body).get_payload()
    return [field for part in parts if isinstance(part, Message) for field in _of_mail(part)] if parts else []


def _of_mail(part: Message) -> Found:
    name = part.get_param("name", header="content-disposition")
    if not isinstance(name, str) or part.get_param("filename", header="content-disposition") is not None:
        return []
    content = part.get_payload(decode=True)
    return [(name.encode("utf-8", "surrogateescape"), content if isinstance(content, bytes) else b"")]


def by_aiohttp(body: bytes) -> Found:
    """Raises `Refused`, also where it merely warns and goes on without a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return finished(_by_aiohttp(body))


async def _by_aiohttp(body: bytes) -> Found:
    content = StreamReader(BaseProtocol(LOOP), limit=LARGE, loop=LOOP)
    content.feed_data(body)
    content.feed_eof()
    reader = MultipartReader(CIMultiDictProxy(CIMultiDict({"Content-Type": MULTIPART})), content)
    found = []
    try:
        while (part := await reader.next()) is not None:
            if isinstance(part, BodyPartReader):
                value = bytes(await part.read())
                if part.name is not None and part.filename is None:
                    found.append((part.name.encode("utf-8", "surrogateescape"), value))
    except (HttpProcessingError, ValueError, RuntimeError, LookupError, AssertionError, Warning) as refused:
        raise Refused(f"{type(refused).__name__}: {refused}") from refused
    return found


def _as_it_is(text: bytes) -> bytes:
    return text


def _unquoted(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))


def _by_python_multipart(kind: str) -> Callable[[bytes], Found]:
    def read(body: bytes) -> Found:
        found: Found = []
        decode = _unquoted if kind == URLENCODED else _as_it_is

        def on_field(field: FormField) -> None:
            found.append((decode(field.field_name or b""), decode(field.value or b"")))

        def on_file(file: File) -> None:
            file.close()

        boundary = BOUNDARY if kind == MULTIPART else None
        parser = FormParser(kind.partition(";")[0], on_field, on_file, boundary=boundary)
        try:
            parser.write(body)
            parser.finalize()
        except FormParserError as refused:
            raise Refused(str(refused)) from refused
        return found

    return read


def by_urllib(body: bytes) -> Found:
    """Pairs of an urlencoded form by the standard library."""
    pairs = parse_qsl(body.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def by_both_separators(body: bytes) -> Found:
    """As servers read it that split at `;` too, as HTML 4.01 section B.2.2 wanted."""
    return by_urllib(body.replace(b";", b"&"))


#: By kind of form, and by the names that tables of differences use.
FORMS: dict[str, dict[str, Callable[[bytes], Found]]] = {
    MULTIPART: {"email": by_email, "aiohttp": by_aiohttp, "python-multipart": _by_python_multipart(MULTIPART)},
    URLENCODED: {"urllib": by_urllib, "both": by_both_separators, "python-multipart": _by_python_multipart(URLENCODED)},
}
