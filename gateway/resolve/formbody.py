"""What a form says about the model, and writing a model name into it without touching another byte.

Knows: multipart/form-data (RFC 7578) and its parser (the only importer of `python_multipart`), urlencoded forms.
Must not know: models, paths, what a voice is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote_plus, unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from gateway.errors import AmbiguousModel, BadRequest, TooLarge
from gateway.resolve.media import Media

#: Parts of a form; servers built on Starlette take no more.
MAX_PARTS = 1000

#: Bytes of a value that is looked at; the longest model name has 256.
MAX_VALUE = 4096

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")  # RFC 2046 section 5.1.1
_PARAMETER = rb';[ \t]*(name|filename\*?)=(?:"((?:[^"\\\r\n]|\\")*)"|([^\s;"]+))[ \t]*'
_DISPOSITION = re.compile(rb"form-data[ \t]*(?:" + _PARAMETER + rb")+", re.IGNORECASE)
_NAME = re.compile(_PARAMETER, re.IGNORECASE)
_CHARSET = re.compile(rb"charset(?![ \t]*=[ \t]*\"?utf-?8\b)", re.IGNORECASE)
_ENCODINGS = frozenset({b"7bit", b"8bit", b"binary"})


class Form(Protocol):
    """A form that was read. `values` holds what it says in the fields that were asked for."""

    @property
    def values(self) -> Mapping[str, str]: ...

    def rewritten(self, name: str, value: str) -> bytes:
        """The body with this value: in place of the one it has, or added where it has none. Raises `BadRequest`."""
        ...


def read(media: Media, body: bytes, wanted: frozenset[str]) -> Form:
    """Read a form. Raises `AmbiguousModel` for a wanted field that comes twice, `BadRequest` where servers disagree."""
    if media.type == "multipart/form-data":
        return _multipart(media.parameters.get("boundary", ""), body, wanted)
    return _urlencoded(body, wanted)


@dataclass(frozen=True, slots=True)
class _Urlencoded:
    body: bytes = field(repr=False)
    values: Mapping[str, str]

    def rewritten(self, name: str, value: str) -> bytes:
        pair = f"{quote_plus(name)}={quote_plus(value)}".encode()
        if name not in self.values:
            return pair + b"&" + self.body if self.body else pair
        return b"&".join(pair if _pair(old)[0] == name.encode() else old for old in self.body.split(b"&"))


def _urlencoded(body: bytes, wanted: frozenset[str]) -> _Urlencoded:
    if b";" in body:  # some servers split at it
        raise BadRequest("A ';' in a form must be percent-encoded.")
    if body.count(b"&") >= MAX_PARTS:
        raise TooLarge(f"A form has {MAX_PARTS} fields at most.")
    values: dict[str, str] = {}
    for key, value in map(_pair, body.split(b"&")):
        name = key.decode("latin-1")
        if name in wanted:
            _add(values, name, value)
    return _Urlencoded(body, values)


def _pair(text: bytes) -> tuple[bytes, bytes]:
    key, _, value = text.replace(b"+", b" ").partition(b"=")
    return unquote_to_bytes(key), unquote_to_bytes(value)


def _add(values: dict[str, str], name: str, value: bytes) -> None:
    if name in values:
        raise AmbiguousModel(f"The form gives '{name}' more than once.", param=name)
    if len(value) > MAX_VALUE:
        raise BadRequest(f"The value of '{name}' is too long.", param=name)
    try:
        values[name] = value.decode()
    except UnicodeDecodeError as fault:
        raise BadRequest(f"The value of '{name}' is not UTF-8.", param=name) from fault


@dataclass(frozen=True, slots=True)
class _Multipart:
    """`spans`: where in the body each value stands."""

    body: bytes = field(repr=False)
    boundary: bytes
    values: Mapping[str, str]
    spans: Mapping[str, tuple[int, int]]

    def rewritten(self, name: str, value: str) -> bytes:
        text = value.encode()
        if b"--" + self.boundary in text:
            raise BadRequest("The boundary of the form must not look like a model name.")
        if name in self.spans:
            start, end = self.spans[name]
            return self.body[:start] + text + self.body[end:]
        head = b'--%b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n' % (self.boundary, name.encode())
        return head + text + b"\r\n" + self.body


def _multipart(boundary: str, body: bytes, wanted: frozenset[str]) -> _Multipart:
    if _BOUNDARY.fullmatch(boundary) is None:
        raise BadRequest("The Content-Type of the form has no usable boundary.")
    mark = b"--" + boundary.encode()
    if not body.startswith(mark + b"\r\n"):
        raise BadRequest("The form does not begin with its boundary.")
    parts = _Parts(body, wanted)
    try:
        MultipartParser(boundary, parts.callbacks()).write(body)  # type: ignore[arg-type]
    except FormParserError as fault:
        raise BadRequest("The form is malformed.", detail=str(fault)) from fault
    # Every server has to see the same parts: no line looks like a boundary without being one, nothing follows the last.
    end = body.find(b"\r\n" + mark + b"--") + len(mark) + 4
    lines, plain = body.count(b"\n" + mark), body.count(b"\r\n" + mark + b"\r\n") + 1
    if not parts.complete or not lines == plain == parts.count or body[end:] not in {b"", b"\r\n"}:
        raise BadRequest("The form does not end with its boundary, or holds something that looks like one.")
    return _Multipart(body, boundary.encode(), parts.values, parts.spans)


class _Parts:
    """Takes the parser's news about one body that is written to it in one piece, so that its offsets are the body's."""

    def __init__(self, body: bytes, wanted: frozenset[str]) -> None:
        self._body = body
        self._wanted = wanted
        self.count = 0
        self._field = b""
        self._value = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._name: str | None = None
        self._start = self._end = 0
        self.values: dict[str, str] = {}
        self.spans: dict[str, tuple[int, int]] = {}
        self.complete = False

    def callbacks(self) -> dict[str, object]:
        """For the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._part_end,
            "on_end": self._finish,
        }

    def _begin(self) -> None:
        self.count += 1
        if self.count > MAX_PARTS:
            raise TooLarge(f"A form has {MAX_PARTS} parts at most.")
        self._headers = []
        self._name = None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers.append((self._field.lower(), self._value.strip(b" \t")))
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        name, is_file = _part_name(self._headers)
        self._name = name if name in self._wanted else None
        self._start = self._end = -1
        foreign = any(_CHARSET.search(value) for key, value in self._headers if key == b"content-type")
        if self._name is not None and (is_file or foreign):
            raise BadRequest(f"'{name}' must be a plain UTF-8 value, not a file.", param=name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name is None:
            return
        if data is not self._body or (self._start >= 0 and start != self._end):
            raise BadRequest(f"The value of '{self._name}' holds a line break.", param=self._name)
        self._start = start if self._start < 0 else self._start
        self._end = end

    def _part_end(self) -> None:
        if self._name is None:
            return
        if self._start < 0:
            raise BadRequest(f"'{self._name}' must not be empty.", param=self._name)
        _add(self.values, self._name, self._body[self._start : self._end])
        self.spans[self._name] = (self._start, self._end)

    def _finish(self) -> None:
        self.complete = True


def _part_name(headers: list[tuple[bytes, bytes]]) -> tuple[str, bool]:
    """The field a part is for, and whether it is a file. Raises `BadRequest` where servers might read another name."""
    named = [value for key, value in headers if key == b"content-disposition"]
    parameters = _NAME.findall(named[0]) if len(named) == 1 and _DISPOSITION.fullmatch(named[0]) else []
    names = {key.lower(): quoted or token for key, quoted, token in parameters}
    name = names.get(b"name", b"\\")
    if len(names) != len(parameters) or b"\\" in name:
        raise BadRequest("A part of the form needs one Content-Disposition with a plain name.")
    for key, value in headers:
        if key == b"content-transfer-encoding" and value.lower() not in _ENCODINGS:
            raise BadRequest("A part of the form has an encoding that is not taken here.")
    return name.decode("latin-1"), len(names) > 1
