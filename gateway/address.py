"""Where callers reach the gateway: what its tokens and pages say of it.

Knows: settings, names in a certificate. Must not know: files, sockets, what the URL is used for.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

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


def _bracketed(host: str) -> str:
    """RFC 3986 section 3.2.2."""
    try:
        return f"[{host}]" if ip_address(host).version == 6 else host
    except ValueError:
        return host
