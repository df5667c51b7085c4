"""Where callers reach the gateway: what its tokens and pages say of it, and which names it goes by.

Knows: settings, names in a certificate. Must not know: files, sockets, what the URL is used for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from ipaddress import ip_address
from urllib.parse import urlsplit

from gateway.settings import Listen

_HTTPS = 443


def public_url(listen: Listen, names: Sequence[str]) -> str:
    """`listen.public_url`, else https:// with the first of `names` that is one host (of the certificate, see
    `tls.host_names`) and the port. Without a final slash. Raises `ValueError` when there is no such name."""
    if listen.public_url is not None:
        return listen.public_url.rstrip("/")
    host = next((name for name in names if "*" not in name), None)
    if host is None:
        raise ValueError("listen.public_url is needed: the certificate is not for one host by name")
    port = "" if listen.port == _HTTPS else f":{listen.port}"
    return f"https://{_bracketed(host.lower())}{port}"


def own_urls(listen: Listen, names: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """From the `Host` of a call to the URLs of the gateway that it may have been sent to, without a final slash:
    `listen.public_url` where that is set, and the `Host`, on whatever port, if it is one of `names`. None for others.
    """
    configured = () if listen.public_url is None else (listen.public_url.rstrip("/"),)
    known = {_alike(name) for name in names}

    def reached(host: str) -> tuple[str, ...]:
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return configured
        if not _is_named(_alike(name), known):
            return configured
        return (*configured, f"https://{_bracketed(name)}" + ("" if port is None else f":{port}"))

    return reached


def _is_named(name: str, known: Set[str]) -> bool:
    """RFC 9525 section 6.3: the wildcard is for one whole label, the first."""
    label, dot, rest = name.partition(".")
    return "*" not in name and (name in known or (label != "" and dot != "" and f"*.{rest}" in known))


def _alike(name: str) -> str:
    """A name or an address in the one spelling in which two are compared."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()


def _bracketed(host: str) -> str:
    """RFC 3986 section 3.2.2."""
    try:
        return f"[{host}]" if ip_address(host).version == 6 else host
    except ValueError:
        return host
