"""Where the gateway says that callers reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.address import public_url
from gateway.devcerts import Paths
from gateway.settings import Listen, ServerTls
from gateway.tls import TlsError, host_names

TLS = ServerTls(Path("tls.crt"), Path("tls.key"))


def listen(**more: Any) -> Listen:
    return Listen(TLS, **more)


@pytest.mark.parametrize(("settings", "names", "url"), [
    (listen(), ("gw.example.com", "other.example.com"), "https://gw.example.com:8443"),
    (listen(port=443), ("gw.example.com",), "https://gw.example.com"),
    (listen(), ("*.example.com", "gw.example.com"), "https://gw.example.com:8443"),
    (listen(), ("GW.example.com",), "https://gw.example.com:8443"),
    (listen(port=443), ("10.0.0.5",), "https://10.0.0.5"),
    (listen(), ("fd00::5",), "https://[fd00::5]:8443"),
    (listen(public_url="https://models.example.com"), (), "https://models.example.com"),
    (listen(public_url="https://models.example.com/"), ("gw.example.com",), "https://models.example.com"),
])  # fmt: skip
def test_callers_are_told_the_url_of_the_settings_or_else_that_of_the_certificate(
    settings: Listen, names: tuple[str, ...], url: str
) -> None:
    assert public_url(settings, names) == url


@pytest.mark.parametrize("names", [(), ("*.example.com",)])
def test_where_the_certificate_names_no_host_the_setting_is_asked_for(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"listen\.public_url is needed"):
        public_url(listen(), names)


def test_the_names_of_a_certificate_are_read_from_its_file(certificates: Paths, tmp_path: Path) -> None:
    assert host_names(certificates.certificate) == ("localhost", "127.0.0.1", "::1")
    assert host_names(certificates.ca) == ()
    with pytest.raises(TlsError):
        host_names(tmp_path / "gone.crt")
