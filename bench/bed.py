"""The test bed of a run: folder, keys, issuer, backends, and servers started on it.

Knows: what belongs together and is stopped together. Must not know: what is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import servers
from bench.configs import Site
from bench.issuer import Issuer
from bench.material import write_certificate
from bench.process import Running, free_ports

BACKENDS = 2  # so that balancing has something to choose


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the server under test runs, and where load generator and backends do."""

    server: int
    load: int

    @classmethod
    def of_this_machine(cls) -> Cores:
        """The first and the last core this process may use; one and the same on a machine with one."""
        allowed = sorted(os.sched_getaffinity(0))
        return cls(allowed[0], allowed[-1])


@dataclass(frozen=True, slots=True)
class Target:
    """A server under test: `running` None stands for the backend asked directly, without TLS."""

    name: str
    port: int
    running: Running | None = None
    token: str = ""
    tls: bool = True


@dataclass(frozen=True, slots=True)
class Bed:
    """What stays up for the whole run."""

    folder: Path
    cores: Cores
    backends: tuple[int, ...]
    issuer: Issuer
    token: str

    @property
    def direct(self) -> Target:
        return Target("direct", self.backends[0])

    @contextlib.contextmanager
    def serving(self, names: Sequence[str]) -> Iterator[dict[str, Target]]:
        """Fresh servers, proven to do their job, stopped at the end."""
        with contextlib.ExitStack() as stack:
            started: dict[str, Target] = {}
            for name in names:
                site = self._site(name)
                running = servers.start(name, site, self.cores.server)
                stack.callback(running.stop)
                kind = servers.KINDS[name]
                started[name] = target = Target(name, site.port, running, kind.key or self.token, kind.tls)
                servers.prove(name, site.port, target.token)
            yield started

    def _site(self, name: str) -> Site:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        port, spare = free_ports(2)
        jwks = json.dumps(self.issuer.signer.jwks())
        return Site(folder, port, spare, self.backends, self.issuer.signer.issuer, jwks, self.folder)


@contextlib.contextmanager
def made_up() -> Iterator[Bed]:
    """A folder with keys, the issuer and the backends; this process goes to the load core."""
    cores = Cores.of_this_machine()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nim-gateway-bench-")))
        write_certificate(folder)
        issuer = Issuer()
        stack.callback(issuer.close)
        (folder / "issuer.pem").write_bytes(issuer.signer.public_pem())
        ports = free_ports(BACKENDS)
        for port in ports:
            command = [sys.executable, "-m", "bench.backend", str(port)]
            backend = Running(f"backend {port}", command, cores.load, folder / f"backend-{port}.log", servers.ROOT)
            stack.callback(backend.stop)
            backend.await_port(port)
        os.sched_setaffinity(0, {cores.load})
        yield Bed(folder, cores, tuple(ports), issuer, issuer.signer.token())
