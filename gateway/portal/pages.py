"""How the pages look and what every one of them says to the browser. The only importer of `jinja2`.

Knows: templates, the style sheet and script beside them, the fields that bind a browser. Must not know: who asks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

HERE: Final = Path(__file__).parent
#: The page that everything leads to.
HOME: Final = "/ui/"
#: Below `/ui/`, by name: the content type.
ASSETS: Final = {
    "style.css": "text/css; charset=utf-8",
    "copy.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

# Nothing from elsewhere, nothing inline, no frame around us, no form to elsewhere (Content Security Policy Level 3).
# `sandbox` is not there: it would take the cookies away.
_BINDING: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# The address of an asset holds a digest of it, so it never changes.
_FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Page:
    """What is to be shown: a template and what it speaks of."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    status: int = 200
    retry_after: int | None = None


class Pages:
    """Everything is read once, so that no page waits for a file. Raises `OSError` or `jinja2` errors at the start."""

    def __init__(self) -> None:
        self._assets = {name: (HERE / "assets" / name).read_bytes() for name in ASSETS}
        environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        environment.globals["assets"] = {name: f"/ui/{name}?v={_digest(raw)}" for name, raw in self._assets.items()}
        self._templates = {name: environment.get_template(name) for name in environment.list_templates()}

    def show(self, page: Page) -> web.Response:
        """The answer that shows `page`."""
        text = self._templates[page.template].render(page.values)
        response = web.Response(text=text, status=page.status, content_type="text/html", headers=_BINDING)
        if page.retry_after is not None:
            response.headers["Retry-After"] = str(page.retry_after)
        return response

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """The assets, for everybody."""

        async def asset(request: web.Request) -> web.Response:
            name = request.path.rsplit("/", 1)[1]
            headers = {**_BINDING, "Content-Type": ASSETS[name], "Cache-Control": _FOR_EVER}
            return web.Response(body=self._assets[name], headers=headers)

        return [web.get(f"/ui/{name}", asset) for name in ASSETS]


def go_on(url: str) -> web.Response:
    """Go on to a place that the request did not name. 303: whatever its method was, the next one is GET (RFC 9110)."""
    return web.Response(status=303, headers={**_BINDING, "Location": url})


async def go_home(_: web.Request) -> web.Response:
    """A route that leads to the first page."""
    return go_on(HOME)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]
