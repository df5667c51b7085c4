"""The one HTTP client of the control plane: documents and endpoints of providers, health probes. The only importer of
`aiohttp` beside the gateway's own pages and the simulators.

Knows: how to ask one URL within a time and a size. Must not know: what is fetched, who retries, traffic of callers.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from gateway.call import Fields
from gateway.descriptors import ran_out

# Hosts of the control plane are the configured ones, so a few hundred; names are asked again after a short while,
# because a provider or backend that moved must be found without a restart.
DNS_ENTRIES = 512
DNS_SECONDS = 10

USER_AGENT = b"nim-gateway"

# The first class that fits says why. Never the library's own text: it may carry the URL or a field, hence secrets.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "no complete answer in time"),
    (aiohttp.ClientConnectorDNSError, "the host name cannot be resolved"),
    (aiohttp.ClientConnectorCertificateError, "the certificate of the server is not trusted"),
    (aiohttp.ClientSSLError, "the TLS handshake failed"),
    (ssl.SSLError, "the TLS handshake failed"),
    (aiohttp.ClientPayloadError, "the answer broke off"),
    (aiohttp.ClientResponseError, "the answer is not HTTP"),
    (aiohttp.ServerDisconnectedError, "the server closed the connection without an answer"),
)


class FetchFailed(Exception):  # noqa: N818  named for what happened, like the refusals
    """No usable answer. The text is one line that says why, and holds nothing of the URL, the fields or the answer.

    `ours`: nothing was left here to connect with, which says nothing of the other side.
    """

    def __init__(self, why: str, *, ours: bool = False) -> None:
        super().__init__(why)
        self.ours = ours


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer, whatever its status (redirects too). `body` is as sent, still encoded if the server encoded it."""

    status: int
    body: bytes = field(repr=False)
    fields: Fields = field(repr=False)


class Fetch:
    """Use as `async with Fetch() as fetch`. Keeps no cookies, follows no redirect, believes no proxy variable.

    Each call opens its own connection: calls are seconds apart, and a probe has to find out whether new ones are taken.
    """

    __slots__ = ("_session",)

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # limit=0: places shared by all would let a few hanging probes hold up the signing keys; each caller of `get`
        # has one call under way at a time, and that call has a time limit.
        connector = aiohttp.TCPConnector(
            limit=0, force_close=True, ttl_dns_cache=DNS_SECONDS, dns_cache_max_size=DNS_ENTRIES
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )
        # One call is one request. aiohttp sends a GET a second time when the first connection broke, which is meant for
        # kept connections; there is no public switch (aiohttp's own test client sets this one).
        self._session._retry_connection = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self,
        url: str,
        *,
        timeout: float,  # noqa: ASYNC109  it bounds each part of the call, and a caller cannot forget it
        limit: int,
        fields: Fields = (),
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> Fetched:
        """GET `url`, in `timeout` seconds all in all and with at most `limit` bytes of body.

        `tls` None checks certificates against the system's authorities. `server_name` is what the certificate has to
        name, and what the server is told (RFC 6066 section 3); None: the host of the URL. Raises `FetchFailed` for
        everything that goes wrong; a status is never a failure here.
        """
        return await self._ask("GET", url, None, timeout, limit, fields, tls, server_name)

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        timeout: float,  # noqa: ASYNC109  as in `get`
        limit: int,
        fields: Fields = (),
        tls: ssl.SSLContext | None = None,
    ) -> Fetched:
        """POST `body` to `url`; `fields` say what it is. The rest is as in `get`."""
        return await self._ask("POST", url, body, timeout, limit, fields, tls, None)

    async def _ask(  # noqa: PLR0913, PLR0917  what the two above were given
        self,
        method: str,
        url: str,
        body: bytes | None,
        timeout: float,  # noqa: ASYNC109  as in `get`
        limit: int,
        fields: Fields,
        tls: ssl.SSLContext | None,
        server_name: str | None,
    ) -> Fetched:
        if self._session is None:
            raise FetchFailed("the client is closed")
        target = _target(url)
        try:
            async with self._session.request(
                method,
                target,
                data=body,
                headers=_headers(fields),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout),
                ssl=True if tls is None else tls,
                server_hostname=server_name,
            ) as response:
                content = await _bounded(response, limit)
                answered = tuple((name.lower(), value) for name, value in response.raw_headers)
                return Fetched(response.status, content, answered)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchFailed(_reason(error), ours=ran_out(error)) from None


def _target(url: str) -> URL:
    """The URL exactly as given, so that a `%2F` of a model name survives. Raises `FetchFailed`."""
    if not url.startswith(("http://", "https://")) or not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise FetchFailed("not an http or https URL of printable ASCII")
    try:
        target = URL(url, encoded=True).with_fragment(None)
        if target.host and target.port:
            return target
    except ValueError:
        pass
    raise FetchFailed("not a URL with a host")


def _headers(fields: Fields) -> list[tuple[str, str]]:
    """The given fields after ours; ours is left out where the caller has one of that name."""
    given = {name for name, _ in fields}
    own = ((b"user-agent", USER_AGENT), (b"accept", b"*/*"), (b"accept-encoding", b"identity"))
    both = [*(pair for pair in own if pair[0] not in given), *fields]
    return [(name.decode("ascii"), value.decode("utf-8")) for name, value in both]


async def _bounded(response: aiohttp.ClientResponse, limit: int) -> bytes:
    announced = response.content_length
    if announced is not None and announced > limit:
        raise FetchFailed(f"the answer is larger than {limit} bytes")
    pieces = bytearray()
    async for piece in response.content.iter_any():
        pieces += piece
        if len(pieces) > limit:
            raise FetchFailed(f"the answer is larger than {limit} bytes")
    return bytes(pieces)


def _reason(error: Exception) -> str:
    for kind, text in _REASONS:
        if isinstance(error, kind):
            return text
    if isinstance(error, OSError):
        return f"cannot connect: {error.strerror or type(error).__name__}"
    return f"the request could not be made ({type(error).__name__})"
