"""Which addresses of clients can networks tell apart?

Knows: networks and addresses. Must not know: rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from gateway.policy.conditions import Network

#: Of networks for examples (RFC 5737, RFC 3849): said first where they are as good as any.
EXAMPLES: Final = ("192.0.2.1", "2001:db8::1")

_KINDS: Final = {4: IPv4Address, 6: IPv6Address}


def addresses(networks: Collection[Network]) -> Iterator[str | None]:
    """At least one address for each set of `networks` that share one, one outside of all, and None (unknown)."""
    yield from EXAMPLES
    bounds: set[tuple[int, int]] = set()
    for network in networks:
        bounds.add((network.version, int(network.network_address)))
        bounds.add((network.version, int(network.broadcast_address) + 1))
    bounds |= {(4, 0), (6, 0)}
    for version, first in sorted(bounds):
        # People would rather read the first host than the network; both, since that may already lie in another.
        for number in (first + 1, first):
            if number < 1 << (32 if version == 4 else 128):
                yield str(_KINDS[version](number))
    yield None
