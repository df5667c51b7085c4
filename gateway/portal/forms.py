"""What a form of ours sends: read within bounds, and taken only from a page of ours.

Knows: forms (`application/x-www-form-urlencoded`), where browsers say a request comes from. Must not know: which forms
there are, sessions, how a refusal looks.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from gateway.errors import BadRequest, RequestTimeout, RouteForbidden, TooLarge, UnsupportedMedia

FORM_LIMIT: Final = 16 * 1024  # bytes; a name, a password and two short words
FIELDS_LIMIT: Final = 8
READ_SECONDS: Final = 10.0

#: The field of every form of ours that carries its guard.
GUARD: Final = "guard"


class NotFromHere(RouteForbidden):
    """A form that no page of ours sent, or one that is too old."""

    default = "This form was not sent from a page of the gateway, or the page was too old. Go back, and send it again."


async def form_of(request: web.Request) -> Mapping[str, str]:
    """The fields of the form. Raises `BadRequest`, `TooLarge`, `UnsupportedMedia`, `RequestTimeout`."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise UnsupportedMedia
    try:
        async with asyncio.timeout(READ_SECONDS):
            raw = await request.content.read(FORM_LIMIT + 1)
            while len(raw) <= FORM_LIMIT and not request.content.at_eof():
                raw += await request.content.read(FORM_LIMIT + 1 - len(raw))
    except TimeoutError:
        raise RequestTimeout from None
    if len(raw) > FORM_LIMIT:
        raise TooLarge.beyond(FORM_LIMIT)
    return read_form(raw)


def read_form(raw: bytes) -> Mapping[str, str]:
    """The fields in `raw`. Raises `BadRequest` for what is not UTF-8, has many fields, or one of them twice."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=FIELDS_LIMIT
        )
    except ValueError:
        raise BadRequest from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise BadRequest
    return form


def check_source(request: web.Request, public_url: str) -> None:
    """Raises `NotFromHere` unless the browser says that a page of this gateway sent the request.

    Sec-Fetch-Site says so whatever the gateway's name is (W3C Fetch Metadata). A browser that is too old for it has to
    name our origin.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if not (site == "same-origin" if site is not None else _same_origin(request.headers.get("Origin"), public_url)):
        raise NotFromHere(detail="another site")


def check_guard(form: Mapping[str, str], guard: str | None) -> None:
    """Raises `NotFromHere` unless the form carries this guard. None: the browser brought none along."""
    if guard is None or not hmac.compare_digest(form.get(GUARD, "").encode(), guard.encode()):
        raise NotFromHere(detail="no guard")


def _same_origin(origin: str | None, public_url: str) -> bool:
    """Compared as text: browsers write an origin in one way (RFC 6454 section 6.2)."""
    ours = urlsplit(public_url)
    return origin is not None and origin == f"{ours.scheme}://{ours.netloc}"
