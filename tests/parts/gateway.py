"""The gateway as an operator runs it: `python -m gateway serve` as a subprocess, with files of its own.

Knows: the configuration file, the management port, the audit lines. Must not know: anything inside `gateway`.
"""

from __future__ import annotations

import json
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.devcerts import Paths
from tests.parts.client import Answer, ask, trusting
from tests.parts.process import ServerProcess, free_port, wait_until

Config = dict[str, Any]
Rules = Sequence[Mapping[str, Any]]

#: All are said, but for the one that compiled code cannot help (docs/decisions/0005).
WARNINGS = "default,ignore:the (type:DeprecationWarning"
#: Short, so that tests of health and draining end soon.
QUICK_HEALTH = {"interval": "300ms", "timeout": "2s", "fall": 2, "rise": 1}


def pool(name: str, models: Sequence[str | Mapping[str, Any]], *urls: str, **more: Any) -> Config:
    """A pool of OpenAI backends; `protocols` and all else in `more` replaces what stands here, `health` key by key."""
    return {
        "name": name,
        "protocols": ["openai", "nim-mgmt"],
        "models": [{"name": model} if isinstance(model, str) else dict(model) for model in models],
        "balance": "round_robin",
        "backends": [{"url": url} for url in urls],
        **more,
        "health": {"path": "/v1/health/ready", **QUICK_HEALTH, **more.get("health", {})},
    }


def allow(identity: str, models: Sequence[str], **more: Any) -> Config:
    """A rule that lets a group use models; `more` replaces what stands here."""
    return {"id": identity, "effect": "allow", "subjects": {"groups": ["data-science"]}, "models": [*models], **more}


def oidc(issuer: str, **more: Any) -> Config:
    """An entry of `identity.oidc` for the tests' provider."""
    return {"name": "corp", "issuer": issuer, "audience": ["nim-gateway"], "algorithms": ["RS256", "ES256"], **more}


class Gateway:
    """A gateway with its own folder. `config` may be changed and written again while it runs.

    `directories`: entries of `identity.ldap`. `overrides` replaces top-level keys of the configuration. With
    `start=False` nothing runs until `start()`.
    `under` is a command that runs it, such as `prlimit`.
    """

    def __init__(
        self,
        folder: Path,
        certificates: Paths,
        issuers: Sequence[Config],
        pools: Sequence[Config],
        rules: Rules,
        *,
        directories: Sequence[Config] = (),
        start: bool = True,
        under: Sequence[str] = (),
        **overrides: Any,
    ) -> None:
        self.folder = folder
        self._under = under
        self.ca = certificates.ca
        self.port, management = free_port(), free_port()
        self.url = f"https://localhost:{self.port}"
        self.management = f"http://127.0.0.1:{management}"
        self.config_file = folder / "gateway.yaml"
        self.policies = folder / "policies"
        self.policies.mkdir(parents=True, exist_ok=True)
        tls = {"certificate": str(certificates.certificate), "key": str(certificates.key)}
        self.config: Config = {
            "listen": {"address": "127.0.0.1", "port": self.port, "tls": tls},
            "management": {"address": "127.0.0.1", "port": management},
            "identity": {"oidc": [*issuers], **({"ldap": [*directories]} if directories else {})},
            "policies": str(self.policies),
            "pools": [*pools],
            "limits": {"timeouts": {"pre_stop": "200ms", "drain": "20s"}},
            "audit": {"file": "-"},
            **overrides,
        }
        self.write_config()
        self.write_rules(rules)
        self._processes: list[ServerProcess] = []
        if start:
            self.start()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"<Gateway {self.url} {self._processes[-1:]}>"

    @property
    def process(self) -> ServerProcess:
        """The one that runs, or ran last."""
        return self._processes[-1]

    @property
    def trust(self) -> ssl.SSLContext:
        """TLS settings for a client of this gateway."""
        return trusting(self.ca)

    def write_config(self) -> None:
        """Put `config` into the file, at once and whole, as an editor does."""
        _replace(self.config_file, yaml.safe_dump(self.config, sort_keys=False))

    def write_rules(self, rules: Rules) -> None:
        """Put these rules into the policy folder, at once and whole."""
        document = {"version": 1, "rules": [dict(rule) for rule in rules]}
        _replace(self.policies / "rules.yaml", yaml.safe_dump(document, sort_keys=False))

    def start(self) -> ServerProcess:
        """Run it and wait until its management port answers and calls can be made."""
        process = self.launch()
        process.wait_ready(self._serves)
        return process

    def launch(self) -> ServerProcess:
        """Run it without waiting."""
        command: list[str | Path] = [
            *self._under,
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "--config",
            self.config_file,
        ]
        process = ServerProcess(command, self.folder, name="gateway", env={"PYTHONWARNINGS": WARNINGS})
        self._processes.append(process)
        return process

    def stop(self) -> int:
        """Drain and end; the exit code."""
        return self.process.stop()

    def end(self) -> None:
        """Drain and end whatever still runs, and look for what no gateway may ever write."""
        for process in self._processes:
            process.stop()
            errors = process.stderr.read_text()
            assert "Traceback" not in errors, errors[-8000:]
            assert "Warning: " not in errors, errors[-8000:]

    def reload(self) -> None:
        """SIGHUP."""
        self.process.signal(signal.SIGHUP)

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call on a connection of its own."""
        return ask(self.url, method, path, body=body, headers=headers, token=token, ca=self.ca)

    def manage(self, path: str) -> Answer:
        """A page of the management port."""
        return ask(self.management, "GET", path)

    def readiness(self) -> int:
        """The status of `/readyz`, 0 when nobody answers."""
        try:
            return self.manage("/readyz").status
        except OSError:
            return 0

    def status(self) -> Any:
        """The page `/status`."""
        return self.manage("/status").json()

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """The metrics page: labels and value of each sample, by the sample's name."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.manage("/metrics").body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name whose labels include these."""
        rows = self.samples().get(name, [])
        return sum(value for have, value in rows if labels.items() <= have.items())

    def audit(self) -> list[dict[str, Any]]:
        """Every audit line so far; lines of other programs' kinds are left out."""
        lines = self.process.stdout.read_text().splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [record for record in records if "decision" in record]

    def audit_of(self, request_id: str | None, limit: float = 5.0) -> dict[str, Any]:
        """The audit line of one call, which may be written a moment after the answer."""

        def found() -> list[dict[str, Any]]:
            return [record for record in self.audit() if record["request_id"] == request_id]

        wait_until(found, limit, f"an audit line for {request_id}")
        (record,) = found()
        return record

    def backends_up(self, name: str, count: int, limit: float = 10.0) -> None:
        """Wait until the gateway sees `count` healthy backends in a pool."""
        wait_until(lambda: self.metric("gateway_backend_up", pool=name) == count, limit, f"{count} healthy in {name}")

    def _serves(self) -> bool:
        """Calls can be made as soon as the health page answers on the client port, however ill the backends are."""
        try:
            return self.manage("/healthz").status == 200 and self.ask("GET", "/v1/health/live").status == 200
        except OSError:
            return False


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)
