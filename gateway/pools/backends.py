"""Backends and the pools they form: immutable snapshots over shared live state.

A reload builds new snapshots; a backend of the same pool name and URL keeps its `Vitals` (load, health, ejection),
whatever else changed. All shared mutable state sits behind `Backend` and `Pool`, so that a later version can back it
with memory that several workers share.
Knows: addresses, credentials, who is a candidate for a call. Must not know: how backends are probed or reached.
"""

from __future__ import annotations

import logging
import math
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gateway import settings
from gateway.pools.balance import BALANCERS, Balancer
from gateway.pools.budget import Budget
from gateway.pools.ejection import STRIKING, FailureReason, room_for_one_more
from gateway.pools.vitals import Health, Vitals

log = logging.getLogger(__name__)

_PORTS = {"http": 80, "https": 443}
#: The answer "nobody serves this now" asks the caller to come back after 1 to 60 whole seconds.
_SOONEST, _LATEST = 1, 60

_VISIBLE = re.compile(r"[!-~]+")
#: RFC 9110 section 5.6.2
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


#: Opens a connection to something that has no address. Raises `OSError`.
Dial = Callable[[], Awaitable[socket.socket]]


class Lease:
    """A call on a backend: counted from `with` to its end.

    Keeps nothing of its own, so one serves all calls at once.
    """

    __slots__ = ("_vitals",)

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def __enter__(self) -> None:
        self._vitals.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self._vitals.in_flight -= 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Backend:
    """One server of a pool. `name` is the metric label; `authority` the `Host` to send (RFC 9112 section 3.2).

    `checked` holds the models whose readiness is probed one by one; `credential` is (lower-case name, value).
    `server_name` is what its certificate has to name. `dial`: opens a connection, in place of
    host and port.
    """

    pool: str
    name: str
    url: str
    scheme: str
    host: str
    port: int
    base_path: bytes
    authority: bytes
    weight: int = 1
    tls: ssl.SSLContext | None = None
    credential: tuple[bytes, bytes] | None = field(default=None, repr=False)
    checked: frozenset[str] = frozenset()
    server_name: str = ""
    dial: Dial | None = None
    vitals: Vitals = field(default_factory=Vitals)
    _lease: Lease = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_lease", Lease(self.vitals))

    @property
    def in_flight(self) -> int:
        """Calls on it now."""
        return self.vitals.in_flight

    @property
    def health(self) -> Health:
        """What the probes say."""
        return self.vitals.standing.health

    @property
    def failures(self) -> dict[FailureReason, int]:
        """Failures of calls since the start, by reason; counters for the metrics page."""
        return self.vitals.failures

    @property
    def ejections(self) -> int:
        """Ejections since the start."""
        return self.vitals.strikes.ejections

    def hold(self) -> Lease:
        """Count a call: `with backend.hold(): ...`."""
        return self._lease

    def serves(self, model: str) -> bool:
        """True while the probes say that the backend, and this model where models are probed, is ready."""
        vitals = self.vitals
        return vitals.standing.health is Health.UP and (model not in self.checked or model in vitals.ready)

    def usable(self, model: str, now: float) -> bool:
        """True when a call for this model may go here: it serves, is not ejected and does not rest."""
        vitals = self.vitals
        return vitals.usable_from <= now and (model not in self.checked or model in vitals.ready)

    def rest_until(self, until: float, now: float) -> None:
        """Honour the backend's own `Retry-After`: no calls until then, 60 s at most."""
        self.vitals.rest_until(until, now)

    def __repr__(self) -> str:
        return f"<Backend {self.name} {self.health.value} {self.in_flight} in flight>"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Backends that serve the same models, and how calls are spread over them."""

    name: str
    settings: settings.Pool
    backends: tuple[Backend, ...]
    balancer: Balancer = field(repr=False)
    budget: Budget = field(repr=False)

    def first(self, model: str, now: float) -> Backend | None:
        """Who should take a call for `model`; None when nobody may.

        One that refused a connection a moment ago, or is ejected, comes only where nobody else is left: an ejection
        never empties a pool.
        """
        trusted = [
            backend
            for backend in self.backends
            if backend.vitals.trusted_from <= now and (model not in backend.checked or model in backend.vitals.ready)
        ]
        return self.balancer.first(trusted) if trusted else next(self.rest(model, now, None), None)

    def rest(self, model: str, now: float, tried: Backend | None) -> Iterator[Backend]:
        """Who else may take it after `tried`, best first, each at most once."""
        left = [backend for backend in self.backends if backend is not tried]
        trusted = [each for each in left if each.vitals.trusted_from <= now and each.usable(model, now)]
        yield from self.balancer.rest(trusted)
        doubted = [each for each in left if each not in trusted and each.usable(model, now)]
        yield from self.balancer.rest(doubted)
        if not any(each.usable(model, now) for each in self.backends):
            yield from self.balancer.rest([each for each in left if _last_resort(each, model, now)])

    def retry_after(self, now: float) -> int:
        """Whole seconds, 1 to 60, after which asking again may help: what `NoBackend` tells the caller."""
        soonest = min((backend.vitals.usable_from for backend in self.backends), default=math.inf) - now
        wait = soonest if 0 < soonest < math.inf else self.settings.health.interval
        return min(max(math.ceil(wait), _SOONEST), _LATEST)

    def succeeded(self, backend: Backend, now: float) -> None:
        """A call got an answer that is not 502, 503 or 504; may be called at its head and again at its end."""
        backend.vitals.succeeded(now)

    def failed(self, backend: Backend, reason: FailureReason, now: float) -> bool:
        """A call failed through the backend's fault; True when that ejects it.

        Never for what the caller did: 4xx, an abort, a deadline of its own.
        """
        vitals = backend.vitals
        vitals.failures[reason] += 1
        if reason is FailureReason.CONNECT:
            vitals.doubt(now)
        if reason not in STRIKING or not vitals.strikes.strike(now) or not self._may_eject(backend, now):
            return False
        span = vitals.strikes.eject(now)
        vitals.settle()
        facts = (self.name, backend.name, reason.value, span)
        log.warning("backend_ejected pool=%s backend=%s reason=%s seconds=%.0f", *facts)
        return True

    def _may_eject(self, backend: Backend, now: float) -> bool:
        """Half of the pool at most, and nobody who is the last one usable for anything."""
        ejected = sum(each.vitals.strikes.ejected(now) for each in self.backends)
        if not room_for_one_more(len(self.backends), ejected):
            return False
        others = [each for each in self.backends if each is not backend]
        served = backend.vitals.ready & backend.checked or frozenset({""})
        return all(any(each.usable(model, now) for each in others) for model in served)


def _last_resort(backend: Backend, model: str, now: float) -> bool:
    return backend.serves(model) and backend.vitals.resting_until <= now


ClientContext = Callable[[settings.ClientTls | None], ssl.SSLContext]


def build_pools(
    wanted: Sequence[settings.Pool],
    previous: tuple[Pool, ...] | None,
    client_context: ClientContext,
    seed: int = 0,
) -> tuple[Pool, ...]:
    """Pools as configured; backends that were there before keep their live state. `seed`: the number of the worker.

    `previous` stays as it was, so a reload may still be called off. Raises ValueError for an address, a header or a
    balancer that cannot be, and for a backend named twice in a pool.
    """
    before = {pool.name: pool for pool in previous or ()}
    return tuple(_pool(pool, before.get(pool.name), client_context, seed) for pool in wanted)


def _pool(wanted: settings.Pool, previous: Pool | None, client_context: ClientContext, seed: int) -> Pool:
    if wanted.balance not in BALANCERS:
        raise ValueError(f"pool {wanted.name}: balance is one of {', '.join(BALANCERS)}, not {wanted.balance!r}")
    known = {backend.url: backend.vitals for backend in previous.backends} if previous else {}
    backends = tuple(_backend(wanted, address, known, client_context) for address in wanted.backends)
    if len({backend.name for backend in backends}) < len(backends):
        raise ValueError(f"pool {wanted.name}: a backend is named twice")

    def active() -> int:
        return sum(backend.vitals.in_flight for backend in backends)

    budget = Budget(active, previous.budget if previous else None)
    return Pool(wanted.name, wanted, backends, BALANCERS[wanted.balance](seed), budget)


def _backend(
    pool: settings.Pool,
    address: settings.BackendAddress,
    known: Mapping[str, Vitals],
    client_context: ClientContext,
) -> Backend:
    scheme, host, port, path = _parsed(address.url)
    bracketed = f"[{host}]" if ":" in host else host
    authority = bracketed if port == _PORTS[scheme] else f"{bracketed}:{port}"
    return Backend(
        pool=pool.name,
        name=f"{bracketed}:{port}{path}",
        url=address.url,
        scheme=scheme,
        host=host,
        port=port,
        base_path=path.encode(),
        authority=authority.encode(),
        weight=address.weight,
        tls=client_context(address.tls) if scheme == "https" else None,
        credential=_credential(pool.credential),
        checked=frozenset(model.name for model in pool.models if "kserve" in pool.protocols),
        server_name=((address.tls.server_name if address.tls else None) or host).rstrip("."),  # RFC 6066 section 3
        vitals=known.get(address.url) or Vitals(),
    )


def _parsed(url: str) -> tuple[str, str, int, str]:
    """Scheme, host without brackets, port, path without its last slash."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or not _VISIBLE.fullmatch(url):
        raise ValueError(f"backend {url!r}: an address looks like http://host:8000 or https://host:8000/path")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"backend {parts.hostname!r}: an address has no user, query or fragment")
    port = parts.port if parts.port is not None else _PORTS[parts.scheme]
    return parts.scheme, parts.hostname, port, parts.path.rstrip("/")


def _credential(credential: settings.Credential | None) -> tuple[bytes, bytes] | None:
    if credential is None:
        return None
    value = credential.value.encode()
    if not _TOKEN.fullmatch(credential.header) or any(byte in value for byte in b"\r\n\0"):
        raise ValueError("credential: the header is not a field name, or its value holds a line break")
    return credential.header.lower().encode(), value
