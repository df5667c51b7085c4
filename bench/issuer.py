"""The identity provider of a run: discovery document and key set on loopback, in a thread of the benchmark.

Knows: OpenID discovery, JWKS. Must not know: who asks.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from bench.material import Signer


class Issuer:
    """Serves a `Signer`'s public side until `close`."""

    __slots__ = ("_server", "signer")

    def __init__(self) -> None:
        pages: dict[str, dict[str, Any]] = {}

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path)
                body = json.dumps(page).encode()
                self.send_response(200 if page else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.signer = Signer(f"http://127.0.0.1:{self._server.server_address[1]}")
        pages["/.well-known/openid-configuration"] = {
            "issuer": self.signer.issuer,
            "jwks_uri": f"{self.signer.issuer}/jwks",
            "token_endpoint": f"{self.signer.issuer}/token",
            "authorization_endpoint": f"{self.signer.issuer}/authorize",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        pages["/jwks"] = self.signer.jwks()
        Thread(target=self._server.serve_forever, name="issuer", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
