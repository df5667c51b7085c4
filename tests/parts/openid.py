"""The real OpenID provider (npm `oidc-provider`), and tokens from it as an application would get them.

Knows: its address, its users and resources (`oidc/idp.mjs`). Must not know: the gateway.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from email.message import Message
from http.cookiejar import CookieJar
from pathlib import Path
from typing import IO, Any

from gateway.devcerts import Paths
from tests.parts.client import trusting
from tests.parts.people import Certificate
from tests.parts.process import PARTS, ServerProcess, free_port, node_folder

AUDIENCE = "nim-gateway"
#: Resource indicator (RFC 8707) by what the access token is to be.
RESOURCES = {
    "RS256": "urn:tests:rs256",
    "ES256": "urn:tests:es256",
    "elsewhere": "urn:tests:elsewhere",
    "opaque": "urn:tests:opaque",
}
USERS = {"alice": ["data-science", "llm-users"], "bob": ["guests"], "carol": []}
SCRIPT = Path(__file__).parent / "oidc" / "idp.mjs"
BACK = "http://127.0.0.1:9/back"
#: A login takes four redirects; more means a loop.
MOST_HOPS = 8


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by hand: the last one leads to a page that nobody serves."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class OpenIdProvider:
    """A provider that runs on loopback until `stop`; over TLS with `certificates`.

    `backs`: where browsers of the client `pages` may come back to. `client_key`: public key (JWK) of the client that
    asks about tokens with a key.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        backs: Sequence[str] = (),
        certificates: Paths | None = None,
        client_key: Mapping[str, Any] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.issuer = f"{'https' if certificates else 'http'}://127.0.0.1:{self.port}"
        self._secret = secrets.token_hex(16)
        self._ca = certificates.ca if certificates else None
        environment = {"PORT": str(self.port), "CLIENT_SECRET": self._secret, "NODE_NO_WARNINGS": "1"}
        if backs:
            environment["LOGIN_BACKS"] = " ".join(backs)
        if certificates is not None:
            environment |= {"TLS_CERT": str(certificates.certificate), "TLS_KEY": str(certificates.key)}
        if client_key is not None:
            environment["CLIENT_JWK"] = json.dumps(client_key)
        shutil.copy(SCRIPT, PARTS / "oidc" / SCRIPT.name)  # beside its packages: that is where node looks for them
        command: list[str | Path] = [node_folder() / "bin" / "node", PARTS / "oidc" / SCRIPT.name]
        self.process = ServerProcess(command, folder, name=f"openid-{self.port}", env=environment)
        self.process.wait_ready(self._answers)

    def __repr__(self) -> str:
        return f"<OpenIdProvider {self.issuer}>"

    @property
    def secret(self) -> str:
        """Of its clients."""
        return self._secret

    def service_token(
        self, kind: str = "RS256", client: str = "service", proof: str | None = None, shows: Certificate | None = None
    ) -> str:
        """An access token of the client `service`, group `services` (RFC 6749 §4.4). `client`: or of `certified`, who
        `shows` a certificate, or of `proving`, who sends a `proof` with a key; the token is bound to that."""
        form = {"grant_type": "client_credentials", "scope": "infer"}
        if kind in RESOURCES:
            form["resource"] = RESOURCES[kind]
        headers = self._basic(client) | ({} if proof is None else {"DPoP": proof})
        return str(self._token(form, headers, shows)["access_token"])

    def revoke(self, token: str) -> None:
        """RFC 7009."""
        self._json(f"{self.issuer}/token/revocation", {"token": token}, self._basic("service"))

    def _basic(self, client: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"{client}:{self._secret}".encode()).decode()}

    def user_token(self, user: str, kind: str = "RS256") -> str:
        """An access token of `alice`, `bob` or `carol` through a real login: code flow with PKCE (RFC 7636)."""
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        query = {
            "client_id": "app",
            "response_type": "code",
            "redirect_uri": BACK,
            "scope": "openid infer",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": RESOURCES[kind],
            "login_hint": user,
        }
        code = self._login(f"{self.issuer}/auth?{urllib.parse.urlencode(query)}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": BACK,
            "client_id": "app",
            "code_verifier": verifier,
        }
        return str(self._token(form, {})["access_token"])

    def rotate(self, *, drop: bool = False) -> list[str]:
        """New signing keys; with `drop` the old ones are published no more. The key ids now published."""
        kids: list[str] = self._json(f"{self.issuer}/test/rotate{'?drop=1' if drop else ''}")
        return kids

    def set_lifetime(self, seconds: int) -> None:
        """Of the access tokens issued from now on."""
        self._json(f"{self.issuer}/test/ttl?s={seconds}")

    def set_device_lifetime(self, seconds: int) -> None:
        """Of the codes for devices that are given from now on."""
        self._json(f"{self.issuer}/test/device-ttl?s={seconds}")

    def type_code(self, user_code: str, user: str = "alice", *, abort: bool = False) -> None:
        """What somebody does in a browser who was shown this code: type it, then log in; or refuse."""
        opener = urllib.request.build_opener(_Stay(), urllib.request.HTTPCookieProcessor(CookieJar()))
        opener.addheaders = [("X-Test-User", user)]
        page = f"{self.issuer}/device"
        with opener.open(page, timeout=10) as answer:
            (xsrf,) = re.findall(r'name="xsrf" value="([^"]+)"', answer.read().decode())
        form = {"xsrf": xsrf, "user_code": user_code, "abort" if abort else "confirm": "yes"}
        try:
            opener.open(page, urllib.parse.urlencode(form).encode(), timeout=10).close()
        except urllib.error.HTTPError as redirect:
            url = urllib.parse.urljoin(page, redirect.headers["Location"])
            redirect.close()
            self._follow(opener, url)

    def fetches(self) -> dict[str, int]:
        """How often the documents `jwks` and `discovery` were asked for."""
        counts: dict[str, int] = self._json(f"{self.issuer}/test/stats")
        return counts

    def stop(self) -> None:
        self.process.stop()

    def _answers(self) -> bool:
        try:
            self._json(f"{self.issuer}/.well-known/openid-configuration")
        except OSError:
            return False
        return True

    def _json(
        self,
        url: str,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        shows: Certificate | None = None,
    ) -> Any:
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(url, data, headers or {})  # noqa: S310  always the address above
        context = None if self._ca is None else trusting(self._ca)
        if context is not None and shows is not None:
            shows.show(context)
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
            text = answer.read()
            return json.loads(text) if text else None

    def _token(self, form: dict[str, str], headers: dict[str, str], shows: Certificate | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = self._json(f"{self.issuer}/token", form, headers, shows)
        return answer

    def _login(self, url: str) -> str:
        """Walk from the authorization endpoint to the code, cookies kept on the way."""
        opener = urllib.request.build_opener(_Stay(), urllib.request.HTTPCookieProcessor(CookieJar()))
        last = self._follow(opener, url)
        return urllib.parse.parse_qs(urllib.parse.urlsplit(last).query)["code"][0]

    def _follow(self, opener: urllib.request.OpenerDirector, url: str) -> str:
        """Where redirects lead: a page, or back to the application."""
        for _ in range(MOST_HOPS):
            if url.startswith(BACK):
                return url
            try:
                opener.open(url, timeout=10).close()
            except urllib.error.HTTPError as redirect:
                url = urllib.parse.urljoin(url, redirect.headers["Location"])
                redirect.close()
            else:
                return url
        raise AssertionError(f"the login did not come to an end, last at {url}")
