"""What a request says about its body: media type, parameters, content coding.

Knows: RFC 9110 sections 8.3 and 8.4, what the gateway can read. Must not know: models, rules, how bodies are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.call import Fields
from gateway.errors import BadRequest, UnsupportedMedia

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE = re.compile(rf"[ \t]*({_NAME}/{_NAME})[ \t]*")
_PARAMETER = re.compile(rf";[ \t]*(?:({_NAME})=(?:({_NAME})|\"([^\"\\]*)\")[ \t]*)?")
_JSON = re.compile(r"application/(?:json|[a-z0-9.!#$&^_+-]+\+json)")
_ONCE = (b"content-type", b"inference-header-content-length")
_UTF8 = frozenset({"utf-8", "utf8"})


@dataclass(frozen=True, slots=True)
class Media:
    """A media type and its parameters, names in lower case."""

    type: str
    parameters: Mapping[str, str]


def require_json(fields: Fields) -> None:
    """Refuse a body that is not announced as plain JSON in UTF-8. Raises `BadRequest` or `UnsupportedMedia`."""
    types = _plain(fields)
    if types == [b"application/json"]:
        return
    media = _media(types)
    if _JSON.fullmatch(media.type) is None:
        raise UnsupportedMedia("The body must be JSON: send 'Content-Type: application/json'.")
    _require_utf8(media)


def require_form(fields: Fields) -> Media:
    """The media type of a form in UTF-8. Raises `BadRequest` or `UnsupportedMedia`."""
    media = _media(_plain(fields))
    if media.type not in {"multipart/form-data", "application/x-www-form-urlencoded"}:
        raise UnsupportedMedia("The body must be a form: send 'Content-Type: multipart/form-data'.")
    _require_utf8(media)
    return media


def require_uncoded(fields: Fields) -> None:
    """Refuse a body that a content coding hides. Raises `UnsupportedMedia`."""
    _plain(fields)


def require_once(fields: Fields) -> None:
    """Refuse a body that two servers could read in two ways though nobody reads it here. Raises `BadRequest`."""
    names = [name for name, _ in fields]
    for name in _ONCE:
        if names.count(name) > 1:
            raise BadRequest(f"The request has more than one {name.decode().title()}.")


def _plain(fields: Fields) -> list[bytes]:
    """All values of `Content-Type`, when no content coding hides the body (RFC 9110 section 15.5.16)."""
    types = []
    for name, value in fields:
        if name == b"content-type":
            types.append(value)
        elif name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise UnsupportedMedia(
                "Compressed request bodies are not taken on this route.", headers=((b"accept-encoding", b"identity"),)
            )
    return types


def _media(values: list[bytes]) -> Media:
    if len(values) > 1:
        raise BadRequest("The request has more than one Content-Type.")
    text = values[0].decode("latin-1") if values else ""
    start = _TYPE.match(text)
    if start is None:
        raise UnsupportedMedia("The request has no Content-Type that can be read.")
    parameters: dict[str, str] = {}
    at = start.end()
    while at < len(text):
        found = _PARAMETER.match(text, at)
        if found is None:
            raise BadRequest("The Content-Type is malformed.")
        at = found.end()
        name, token, quoted = found.groups()
        if name is None:
            continue
        if name.lower() in parameters or "*" in name:  # RFC 2231 §3, §4: another value, or part of one, to some
            raise BadRequest("The Content-Type gives a parameter twice, or in parts.")
        parameters[name.lower()] = token if token is not None else quoted
    return Media(start.group(1).lower(), parameters)


def _require_utf8(media: Media) -> None:
    if media.parameters.get("charset", "utf-8").lower() not in _UTF8:
        raise UnsupportedMedia("The body must be in UTF-8.")
