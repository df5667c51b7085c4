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

_ESCAPED = 3  # bytes that stand for one in an urlencoded form, at most

_BOUNDARY = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")  # RFC 2046 section 5.1.1
# Some servers take a quote for the end of a value although it is escaped, so no ';' may follow one.
_QUOTED = rb'[^"\\\r\n]*(?:\\"[^"\\;\r\n]*)*'
_PARAMETER = rb';[ \t]*(name|filename\*?)=(?:"(' + _QUOTED + rb""")"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))[ \t]*"""
_DISPOSITION = re.compile(rb"form-data[ \t]*(?:" + _PARAMETER + rb")+", re.IGNORECASE)
_NAME = re.compile(_PARAMETER, re.IGNORECASE)
_INNER = re.compile(rb";[ \t]*(?:file)?name\*?[ \t]*=", re.IGNORECASE)  # to a server that splits at each ';'
_CHARSET = re.compile(rb"charset(?![ \t]*=[ \t]*\"?utf-?8\b)", re.IGNORECASE)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # some servers end a line at a bare LF, so two fields stand in one
_CONTAINER = re.compile(rb"(?:multipart|message)/", re.IGNORECASE)
_NOT_WHOLE = "The form does not end with its boundary, or holds something that looks like one."
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


def texts(media: Media, body: bytes) -> list[tuple[str, str | None]]:
    """All fields of a form in order, by name: the text of each, None for a file. Raises as `read` does."""
    if media.type == "multipart/form-data":
        parts = _parted(media.parameters.get("boundary", ""), body, frozenset(), every=True)
        return [(name, None if value is None else _text(value)) for name, value in parts.texts]
    _urlencoded(body, frozenset())
    pairs = [pair.replace(b"+", b" ").partition(b"=") for pair in body.split(b"&")]
    return [(_text(unquote_to_bytes(name)), _text(unquote_to_bytes(value))) for name, _, value in pairs]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Urlencoded:
    body: bytes = field(repr=False)
    values: Mapping[str, str]

    def rewritten(self, name: str, value: str) -> bytes:
        pair = f"{quote_plus(name)}={quote_plus(value)}".encode()
        if name not in self.values:
            return pair + b"&" + self.body if self.body else pair
        wanted = frozenset({name})
        return b"&".join(old if _wanted(old, wanted) is None else pair for old in self.body.split(b"&"))


def _urlencoded(body: bytes, wanted: frozenset[str]) -> _Urlencoded:
    if b";" in body:  # some servers split at it
        raise BadRequest("A ';' in a form must be percent-encoded.")
    if body.count(b"&") >= MAX_PARTS:
        raise TooLarge(f"A form has {MAX_PARTS} fields at most.")
    values: dict[str, str] = {}
    for pair in body.split(b"&"):
        name = _wanted(pair, wanted)
        if name is not None:
            text = pair.partition(b"=")[2]
            _require_short(name, len(text), _ESCAPED * MAX_VALUE)
            _add(values, name, unquote_to_bytes(text.replace(b"+", b" ")))
    return _Urlencoded(body, values)


def _wanted(pair: bytes, wanted: frozenset[str]) -> str | None:
    """The name of a pair if it is a wanted one. What is longer than any of them could be written is not decoded."""
    longest = _ESCAPED * max(map(len, wanted), default=0)
    end = pair.find(b"=", 0, longest + 1)
    key = pair if end < 0 else pair[:end]
    if len(key) > longest:
        return None
    return _known(unquote_to_bytes(key.replace(b"+", b" ")).decode("latin-1"), wanted)


def _known(name: str, wanted: frozenset[str]) -> str | None:
    """The name if it is a wanted one. Raises `BadRequest` for one that is, but for the case of its letters."""
    if name not in wanted and (plain := name.casefold()) in wanted:
        raise BadRequest(f"Write '{plain}' in lower case.", param=plain)
    return name if name in wanted else None


def _require_short(name: str, length: int, most: int = MAX_VALUE) -> None:
    if length > most:
        raise BadRequest(f"The value of '{name}' is too long.", param=name)


def _add(values: dict[str, str], name: str, value: bytes) -> None:
    if name in values:
        raise AmbiguousModel(f"The form gives '{name}' more than once.", param=name)
    _require_short(name, len(value))
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
    parts = _parted(boundary, body, wanted)
    return _Multipart(body, boundary.encode(), parts.values, parts.spans)


def _parted(boundary: str, body: bytes, wanted: frozenset[str], *, every: bool = False) -> _Parts:
    if _BOUNDARY.fullmatch(boundary) is None:
        raise BadRequest("The Content-Type of the form has no usable boundary.")
    mark = b"--" + boundary.encode()
    if not body.startswith(mark + b"\r\n"):
        raise BadRequest("The form does not begin with its boundary.")
    # Every server has to see the same parts: no line looks like a boundary without being one, nothing follows the last.
    # Looked at first, since the parser goes through what is only like a boundary byte by byte.
    end = body.find(b"\r\n" + mark + b"--") + len(mark) + 4
    lines, plain = body.count(b"\n" + mark), body.count(b"\r\n" + mark + b"\r\n") + 1
    if lines != plain or b"\r" + mark in body or body[end : end + 3] not in {b"", b"\r\n"}:
        raise BadRequest(_NOT_WHOLE)
    if lines > MAX_PARTS:
        raise TooLarge(f"A form has {MAX_PARTS} parts at most.")
    parts = _Parts(body, wanted, every=every)
    try:
        MultipartParser(boundary, parts.callbacks()).write(body)  # type: ignore[arg-type]
    except FormParserError as fault:
        raise BadRequest("The form is malformed.", detail=str(fault)) from fault
    if not parts.complete or parts.count != lines:
        raise BadRequest(_NOT_WHOLE)
    return parts


class _Parts:
    """Takes the parser's news about one body that is written to it in one piece, so that its offsets are the body's.

    `texts`: each value, None for a file; with `every` only.
    """

    def __init__(self, body: bytes, wanted: frozenset[str], *, every: bool) -> None:
        self._body = body
        self._every = every
        self._label: str | None = None
        self._pieces: list[bytes] = []
        self.texts: list[tuple[str, bytes | None]] = []
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
        self._headers = []
        self._name = None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if _CONTROL.search(self._value) is not None:
            raise BadRequest("A part of the form has a header with a control character.")
        self._headers.append((self._field.lower(), self._value.strip(b" \t")))
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        name, is_file = _part_name(self._headers)
        self._name = _known(name, self._wanted)
        self._label, self._pieces = (name if self._every and not is_file else None), []
        if self._every and is_file:
            self.texts.append((name, None))
        self._start = self._end = -1
        types = [value for key, value in self._headers if key == b"content-type"]
        foreign = len(types) > 1 or any(_CHARSET.search(value) or _CONTAINER.match(value) for value in types)
        if self._name is not None and (is_file or foreign):
            raise BadRequest(f"'{name}' must be a plain UTF-8 value, not a file.", param=name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._label is not None:
            self._pieces.append(data[start:end])
        if self._name is None:
            return
        if data is not self._body or (self._start >= 0 and start != self._end):
            raise BadRequest(f"The value of '{self._name}' holds a line break.", param=self._name)
        self._start = start if self._start < 0 else self._start
        self._end = end

    def _part_end(self) -> None:
        if self._label is not None:
            self.texts.append((self._label, b"".join(self._pieces)))
        if self._name is None:
            return
        if self._start < 0:
            raise BadRequest(f"'{self._name}' must not be empty.", param=self._name)
        _require_short(self._name, self._end - self._start)
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
    odd = b"\\" in name or b";" in name or any(map(_INNER.search, names.values()))
    if odd or len(names) != len(parameters):
        raise BadRequest("A part of the form needs one Content-Disposition with a plain name.")
    for key, value in headers:
        if key == b"content-transfer-encoding" and value.lower() not in _ENCODINGS:
            raise BadRequest("A part of the form has an encoding that is not taken here.")
    return name.decode("latin-1"), len(names) > 1
