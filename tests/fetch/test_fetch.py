"""The control plane's HTTP client: bounded in time and size, follows nothing, keeps nothing, fails in one way."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.fetch import Fetch, FetchFailed

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers each request with fixed bytes; `requests` is what arrived, byte for byte."""

    def __init__(self, answer: bytes, *, then: str = "close") -> None:
        self.answer = answer
        self.then = then
        self.requests: list[bytes] = []
        self.port = 0
        self.released = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.then != "greet":
                self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            if self.then == "hang":
                await self.released.wait()
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@asynccontextmanager
async def serving(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    listener = await asyncio.start_server(server, "127.0.0.1", 0, ssl=tls, backlog=512)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.released.set()
        listener.close()


def ok(body: bytes, *fields: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body)
    return head + b"".join(field + b"\r\n" for field in fields) + b"\r\n" + body


@pytest.fixture
async def fetch() -> AsyncIterator[Fetch]:
    async with Fetch() as fetch:
        yield fetch


async def failure(fetch: Fetch, url: str, within: float = 2.0, limit: int = 1000, **more: object) -> str:
    with pytest.raises(FetchFailed) as caught:
        await fetch.get(url, timeout=within, limit=limit, **more)  # type: ignore[arg-type]
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


async def test_an_answer_comes_as_it_was_sent(fetch: Fetch) -> None:
    async with serving(Server(ok(b"hello", b"X-Two: a", b"X-TWO: b"))) as server:
        answer = await fetch.get(server.url(), timeout=2, limit=5)
    assert (answer.status, answer.body) == (200, b"hello")
    assert [value for name, value in answer.fields if name == b"x-two"] == [b"a", b"b"]


async def test_the_target_and_the_fields_arrive_as_given(fetch: Fetch) -> None:
    """A percent-encoded slash in a model name is not decoded, and a credential is passed on untouched."""
    async with serving(Server(ok(b""))) as server:
        path = "/v2/models/a%2Fb%20c/ready?x=%41&y=a+b"
        await fetch.get(
            server.url(path + "#no"), timeout=2, limit=5, fields=((b"authorization", b"Bearer k\xc3\xa9y"),)
        )
    head = server.requests[0]
    assert head.startswith(f"GET {path} HTTP/1.1\r\n".encode())
    assert b"authorization: Bearer k\xc3\xa9y\r\n" in head
    assert b"accept-encoding: identity\r\n" in head
    assert b"user-agent: nim-gateway\r\n" in head


async def test_a_field_of_the_caller_replaces_ours(fetch: Fetch) -> None:
    async with serving(Server(ok(b""))) as server:
        await fetch.get(server.url(), timeout=2, limit=5, fields=((b"accept", b"application/json"),))
    assert server.requests[0].lower().count(b"accept:") == 1


@pytest.mark.parametrize("status", [204, 301, 302, 307, 401, 404, 500, 503])
async def test_every_status_is_an_answer_and_no_redirect_is_followed(fetch: Fetch, status: int) -> None:
    """B047."""
    head = f"HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with serving(Server(head.encode())) as server:
        answer = await fetch.get(server.url(), timeout=2, limit=0)
    assert answer.status == status
    assert len(server.requests) == 1


async def test_no_cookie_is_kept(fetch: Fetch) -> None:
    async with serving(Server(ok(b"", b"Set-Cookie: session=1; Path=/"))) as server:
        for _ in range(2):  # by name: cookies of bare addresses are kept by nobody
            await fetch.get(f"http://localhost:{server.port}/", timeout=2, limit=5)
    assert b"cookie" not in server.requests[1].lower()


async def test_no_proxy_variable_is_believed(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with serving(Server(ok(b"direct"))) as server:
        assert (await fetch.get(server.url(), timeout=2, limit=50)).body == b"direct"


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("size", "fits"), [(1000, True), (1001, False)])
async def test_the_limit_is_exact_whether_the_length_is_announced_or_not(
    fetch: Fetch, announced: bool, size: int, fits: bool
) -> None:
    body = b"x" * size
    answer = ok(body) if announced else b"HTTP/1.1 200 OK\r\n\r\n" + body
    async with serving(Server(answer)) as server:
        if fits:
            assert (await fetch.get(server.url(), timeout=2, limit=1000)).body == body
        else:
            assert "larger than 1000 bytes" in await failure(fetch, server.url())


async def test_a_limit_holds_for_an_announcement_before_anything_came(fetch: Fetch) -> None:
    async with serving(Server(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", then="hang")) as server:
        assert "larger" in await failure(fetch, server.url())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nsome"])
async def test_the_time_covers_the_whole_answer(fetch: Fetch, answer: bytes) -> None:
    async with serving(Server(answer, then="hang")) as server, asyncio.timeout(2):
        assert "in time" in await failure(fetch, server.url(), within=0.1)


async def test_a_connection_that_is_never_accepted_ends_in_time(fetch: Fetch) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        async with asyncio.timeout(2):
            assert await failure(fetch, f"http://127.0.0.1:{port}/", within=0.1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/1.1 abc\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nsome", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
    ],
)
async def test_nonsense_and_cut_answers_fail_with_their_reason(fetch: Fetch, answer: bytes, reason: str) -> None:
    async with serving(Server(answer)) as server:
        assert reason in await failure(fetch, server.url())
    assert len(server.requests) == 1


async def test_a_closed_port_fails_with_its_reason(fetch: Fetch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert "cannot connect" in await failure(fetch, f"http://127.0.0.1:{port}/")


async def test_a_name_that_does_not_exist_fails_with_its_reason(fetch: Fetch) -> None:
    assert "resolved" in await failure(fetch, "http://no-such-host.invalid/", within=5)


@pytest.mark.parametrize(
    "url",
    ["", "/path", "file:///etc/passwd", "http://", "http:///x", "http://[::1", "http://a b/", "http://x/\r\nX: y",
     "http://h\u00f6st/", "http://x:99999/", "http://x/\x7f"],
)  # fmt: skip
async def test_what_is_no_url_is_refused_before_anything_is_sent(fetch: Fetch, url: str) -> None:
    await failure(fetch, url)


@pytest.mark.parametrize("field", [(b"x", b"a\r\nb: c"), (b"x\r\ny", b"a"), (b"x", b"\xff"), (b"\xff", b"a")])
async def test_a_field_that_would_break_the_request_is_refused(fetch: Fetch, field: tuple[bytes, bytes]) -> None:
    async with serving(Server(ok(b""))) as server:
        await failure(fetch, server.url(), fields=(field,))
    assert not server.requests


async def test_no_reason_carries_a_secret(fetch: Fetch) -> None:
    """Neither what stands in the URL nor what stands in the fields."""
    secret = "hunter2"
    fields = ((b"authorization", secret.encode()),)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for url in (
        f"http://user:{secret}@127.0.0.1:{port}/?key={secret}",
        f"http://{secret}.invalid/",
        f"http://127.0.0.1:{port}/{secret} x",
        f"http://[{secret}/",
    ):
        assert secret not in await failure(fetch, url, fields=fields)


async def test_a_client_that_is_closed_says_so() -> None:
    assert "closed" in await failure(Fetch(), "http://127.0.0.1/")


async def test_many_calls_that_hang_hold_up_no_other(fetch: Fetch) -> None:
    """No shared number of places: the signing keys are fetched while 150 probes hang."""
    async with (
        serving(Server(b"", then="hang")) as slow,
        serving(Server(ok(b"quick"))) as quick,
        asyncio.TaskGroup() as group,
    ):
        hanging = [group.create_task(failure(fetch, slow.url(), within=1.0)) for _ in range(150)]
        await asyncio.sleep(0)
        assert (await fetch.get(quick.url(), timeout=0.9, limit=50)).body == b"quick"
        assert not any(task.done() for task in hanging)
        slow.released.set()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    certificate, private = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


async def test_a_certificate_is_checked_against_the_authorities_that_were_given(fetch: Fetch, tmp_path: Path) -> None:
    certificate, private = _certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, private)
    ours = ssl.create_default_context(cafile=str(certificate))
    async with serving(Server(ok(b"secure")), context) as server:
        url = f"https://127.0.0.1:{server.port}/"
        assert (await fetch.get(url, timeout=2, limit=50, tls=ours)).body == b"secure"
        assert "certificate" in await failure(fetch, url)
        local = f"https://localhost:{server.port}/"
        assert await failure(fetch, local, tls=ours)
        assert (await fetch.get(local, timeout=2, limit=50, tls=ours, server_name="127.0.0.1")).body == b"secure"
        assert await failure(fetch, url, tls=ours, server_name="localhost")
    async with serving(Server(b"220 plain text\r\n", then="greet")) as plain:
        assert "TLS" in await failure(fetch, f"https://127.0.0.1:{plain.port}/", tls=ours)


async def test_a_form_is_posted_as_given_and_redirected_nowhere(fetch: Fetch) -> None:
    """What is posted may be a token: it goes to the one place it is for."""
    moved = b"HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\nno"
    async with serving(Server(moved)) as server:
        kind = (b"content-type", b"application/x-www-form-urlencoded")
        answer = await fetch.post(server.url("/ask?a=%2F"), b"token=abc", timeout=2, limit=100, fields=(kind,))
    assert (answer.status, answer.body) == (307, b"no")
    assert len(server.requests) == 1
    head = server.requests[0].lower()
    assert head.startswith(b"post /ask?a=%2f http/1.1\r\n")
    assert head.count(b"content-type") == 1
    assert b"content-length: 9\r\n" in head


async def test_a_post_is_bounded_like_the_rest(fetch: Fetch) -> None:
    async with serving(Server(ok(b"x" * 101))) as server, serving(Server(b"", then="hang")) as silent:
        with pytest.raises(FetchFailed, match="larger than 100 bytes"):
            await fetch.post(server.url(), b"", timeout=2, limit=100)
        with pytest.raises(FetchFailed, match="no complete answer in time"):
            await fetch.post(silent.url(), b"", timeout=0.05, limit=100)
