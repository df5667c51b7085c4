"""What every test may ask for: the real servers, certificates, tokens, a running gateway. See tests/README.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from gateway import devcerts
from gateway.devcerts import Paths
from tests.parts.browser import Browser, StartBrowser
from tests.parts.gateway import Config, Gateway, Rules, allow, oidc
from tests.parts.llama import Llama
from tests.parts.openid import OpenIdProvider
from tests.parts.people import Authority
from tests.parts.samba import Samba
from tests.parts.slapd import Slapd
from tests.parts.triton import Triton

HERE = Path(__file__).parent
#: A test that asks for one of these needs `make parts`.
REAL = {"openid", "openid_tls", "llama", "triton", "slapd", "samba", "start_browser"}

# What else the machine does is not what is tested.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

StartGateway = Callable[..., Gateway]
Token = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "parts: needs the real servers that `make parts` installs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the real servers, so that `make test-quick` can leave it out."""
    for item in items:
        if REAL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.parts)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """A development authority and a certificate for localhost and 127.0.0.1."""
    return devcerts.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def openid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIdProvider]:
    """The OpenID provider. Who rotates its keys or stops it starts one of his own."""
    provider = OpenIdProvider(tmp_path_factory.mktemp("openid"))
    yield provider
    provider.stop()


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who vouches for callers' certificates."""
    return Authority(tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="session")
def openid_tls(tmp_path_factory: pytest.TempPathFactory, certificates: Paths) -> Iterator[OpenIdProvider]:
    """The OpenID provider over TLS, to which clients may show certificates."""
    provider = OpenIdProvider(tmp_path_factory.mktemp("openid-tls"), certificates=certificates)
    yield provider
    provider.stop()


@pytest.fixture(scope="session")
def token(openid: OpenIdProvider) -> Token:
    """`token("alice")`, `token("bob", "ES256")`: an access token, the same one each time."""
    return cache(openid.user_token)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """The OpenAI-compatible engine; it also embeds."""
    engine = Llama(tmp_path_factory.mktemp("llama"))
    yield engine
    engine.stop()


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """Triton with the models addsub, echo, repeat and slow."""
    server = Triton(tmp_path_factory.mktemp("triton"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory, certificates: Paths) -> Iterator[Slapd]:
    """The OpenLDAP directory. Who stops it, pauses it or locks its accounts starts one of his own."""
    server = Slapd(tmp_path_factory.mktemp("slapd"), certificates)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Samba]:
    """The Active Directory domain. Who stops it, or changes its accounts, starts one of his own."""
    controller = Samba(tmp_path_factory.mktemp("samba"))
    yield controller
    controller.stop()


@pytest.fixture(scope="module")
def start_browser(tmp_path_factory: pytest.TempPathFactory, certificates: Paths) -> Iterator[StartBrowser]:
    """`start_browser(javascript=False, dark=True)`: Chromium with its own profile, one of each kind for a module."""
    with ExitStack() as stack:

        @cache
        def start(**more: bool) -> Browser:
            profile = tmp_path_factory.mktemp("browser")
            return stack.enter_context(Browser(profile, certificates.certificate, **more))

        yield start


def _starter(folders: Callable[[], Path], certificates: Paths, issuer: str) -> Iterator[StartGateway]:
    running: list[Gateway] = []

    def start(pools: Sequence[Config], rules: Rules | None = None, **more: Any) -> Gateway:
        issuers = more.pop("issuers", [oidc(issuer)])
        chosen = [allow("everything", ["**"])] if rules is None else rules
        gateway = Gateway(folders(), certificates, issuers, pools, chosen, **more)
        running.append(gateway)
        return gateway

    yield start
    for gateway in running:
        gateway.end()


@pytest.fixture
def start_gateway(
    tmp_path_factory: pytest.TempPathFactory, certificates: Paths, openid: OpenIdProvider
) -> Iterator[StartGateway]:
    """`start_gateway([pool(...)], [allow(...)], **overrides)`: a running gateway, ended with the test."""
    yield from _starter(lambda: tmp_path_factory.mktemp("gateway"), certificates, openid.issuer)


@pytest.fixture(scope="module")
def start_shared_gateway(
    tmp_path_factory: pytest.TempPathFactory, certificates: Paths, openid: OpenIdProvider
) -> Iterator[StartGateway]:
    """The same for a gateway that the tests of a module share."""
    yield from _starter(lambda: tmp_path_factory.mktemp("gateway"), certificates, openid.issuer)
