"""The files of the demo: where they are, and the configuration and policies that are written into them.

Knows: the configuration and policy formats. Must not know: processes, HTTP.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

CHAT = "meta/llama-3.1-8b-instruct"
EMBEDDING = "nvidia/llama-3.2-nv-embedqa-1b-v2"
RANKING = "nvidia/llama-3.2-nv-rerankqa-1b-v2"
MODELS = (CHAT, EMBEDDING, RANKING)
FOLDER = ".demo"
AUDIENCE = "nim-gateway"


@dataclass(frozen=True, slots=True)
class Places:
    """`certificates` is the checkout's own folder where there is one, so that `certs/ca.crt` is the one to trust."""

    folder: Path
    certificates: Path

    @property
    def config(self) -> Path:
        """The gateway's configuration."""
        return self.folder / "gateway.yaml"

    @property
    def policies(self) -> Path:
        """The folder of policies."""
        return self.folder / "policies"

    @property
    def accounts(self) -> Path:
        """Names and secrets of the identity provider."""
        return self.folder / "idp-accounts.json"

    @property
    def audit(self) -> Path:
        """The gateway's audit lines, and nothing else, so that their chain can be checked."""
        return self.folder / "audit.jsonl"

    def token(self, user: str) -> Path:
        """Where the access token of `user` is."""
        return self.folder / f"{user}.token"

    def log(self, part: str) -> Path:
        """What `part` had to say."""
        return self.folder / f"{part}.log"


@dataclass(frozen=True, slots=True)
class Parts:
    """Base URLs of what was started, and the ports that the gateway is to use."""

    nims: tuple[str, ...]
    triton: str
    issuer: str
    port: int
    management: int


def places(here: Path, port: int) -> Places:
    """The folder for the demo on this port: under `here`, or a temporary one where that cannot be written."""
    folder = here / FOLDER / str(port)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="nim-gateway-demo-"))
    checkout = here / "certs"
    own = (checkout / "make_dev_certs.py").exists() and os.access(checkout, os.W_OK)
    return Places(folder, checkout if own else folder / "certs")


def write(where: Places, parts: Parts, certificate: Path, key: Path) -> None:
    """Write configuration and policies. Raises OSError."""
    where.policies.mkdir(exist_ok=True)
    (where.policies / "demo.yaml").write_text(POLICY, encoding="utf-8")
    where.config.write_text(configuration(where, parts, certificate, key), encoding="utf-8")


def keep_token(where: Places, user: str, token: str) -> None:
    """Store the token of `user`, readable by the owner only. Raises OSError."""
    path = where.token(user)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(token)


def configuration(where: Places, parts: Parts, certificate: Path, key: Path) -> str:
    """The text of `gateway.yaml`."""
    nims = "\n".join(f"      - {{url: {url}}}" for url in parts.nims)
    return f"""\
# Written by the demo; look around, and copy what you like.
listen:
  address: 127.0.0.1
  port: {parts.port}
  tls: {{certificate: {_quoted(certificate)}, key: {_quoted(key)}}}
management: {{address: 127.0.0.1, port: {parts.management}}}
identity:
  oidc:
    - name: demo
      issuer: {parts.issuer}
      audience: [{AUDIENCE}]
      algorithms: [RS256, ES256]
policies: {_quoted(where.policies)}
pools:
  - name: nim
    protocols: [openai, retriever, nim-mgmt]
    models:
      - {{name: {CHAT}, aliases: [llama-8b]}}
      - {{name: {EMBEDDING}}}
      - {{name: {RANKING}}}
    balance: least_connections
    backends:
{nims}
    health: {{path: /v1/health/ready, interval: 1s, timeout: 1s, fall: 2, rise: 1}}
  - name: triton
    protocols: [kserve]
    models: [{{name: addsub}}, {{name: echo}}, {{name: text}}]
    balance: round_robin
    backends:
      - {{url: {parts.triton}}}
    health: {{path: /v2/health/ready, interval: 1s, timeout: 1s, fall: 2, rise: 1}}
limits:
  timeouts: {{pre_stop: 100ms, drain: 3s}}
audit: {{file: {_quoted(where.audit)}}}
"""


POLICY = f"""\
version: 1
rules:
  - id: data-science
    description: Data science may use every model of the demo
    effect: allow
    subjects: {{groups: [data-science]}}
    models: ["meta/*", "nvidia/*", addsub, echo, text]
    operations: [infer, stream, list, metadata, health]
  - id: guests
    description: Guests may turn texts into vectors, and nothing else
    effect: allow
    subjects: {{groups: [guests]}}
    models: [{EMBEDDING}]
"""


def _quoted(path: Path) -> str:
    """A path as a YAML string: JSON strings are some."""
    return json.dumps(str(path), ensure_ascii=False)
