"""Tokens as the common providers make them, and what must become of each at a gateway that is set up as the page says.

The payloads lie in `samples/`, whole and with made-up values; their times are those of `conftest.EPOCH`.
Knows: docs/identity.md, the files. Must not know: how tokens are signed and judged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.identity.signers import Json
from tests.parts.gateway import Config

HERE = Path(__file__).parent / "samples"
PAGE = (Path(__file__).parents[2] / "docs" / "identity.md").read_text(encoding="utf-8")
#: What stands in for the words in capitals of the page, longer ones first.
FILLED_IN = {
    "OTHER-TENANT": "22222222-bbbb-4bbb-8bbb-000000000009",
    "TENANT": "22222222-bbbb-4bbb-8bbb-000000000002",
    "REALM": "ml",
    "COMPANY": "acme",
    "GATEWAY": "gw",
}
ALICE, GROUP, APP = (f"{n * 8}-cccc-4ccc-8ccc-00000000000{n}" for n in "354")
GOOGLE_CLIENT = "9.apps.googleusercontent.com"


@dataclass(frozen=True)
class Seen:
    """The caller that a token proves. `groups_known` False: rules that deny a group deny this caller."""

    subject: str
    groups: set[str] = field(default_factory=set)
    client: str | None = None
    groups_known: bool = True
    scopes: set[str] = field(default_factory=set)
    credential: str | None = None


@dataclass(frozen=True)
class Sample:
    """The file `name`, with what is `changed` in it (`...`: left out), judged by the page's `entry`.

    `becomes`: a caller, or the reason why nobody.
    """

    name: str
    entry: str
    becomes: Seen | str
    changed: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.name, self.entry, *(f"{name}={value!r}" for name, value in self.changed.items())])

    def claims(self) -> Json:
        """The whole payload."""
        whole: Json = json.loads((HERE / f"{self.name}.json").read_bytes())
        return {name: value for name, value in (whole | self.changed).items() if value is not ...}


ENTRA_SCOPES, K_SCOPES = {"infer", "models.read"}, {"openid", "profile", "infer"}
K_ID, K_SUBJECT = "onrtac:6a1f", "66666666-ffff-4fff-8fff-000000000006"
POD = "8c1f7d2e-0000-4000-8000-000000000008"

SAMPLES = [
    Sample("entra-user", "entra", Seen(ALICE, {GROUP}, APP, scopes=ENTRA_SCOPES)),
    Sample("entra-user", "entra", "bad_claims", {"oid": ...}),
    Sample("entra-overage", "entra", Seen(ALICE, set(), APP, groups_known=False, scopes=ENTRA_SCOPES)),
    Sample("entra-overage-implicit", "entra", Seen(ALICE, set(), APP, groups_known=False, scopes=ENTRA_SCOPES)),
    Sample("entra-other-tenant", "entra-roles", Seen(ALICE, {"Chat.User"}, APP, scopes=ENTRA_SCOPES)),
    Sample("entra-application", "entra-roles", Seen(APP, {"Infer.All"}, APP)),
    Sample("entra-v1-user", "entra-v1", Seen(ALICE, {GROUP}, APP, scopes=ENTRA_SCOPES)),
    Sample(
        "keycloak-user", "keycloak",
        Seen(K_SUBJECT, {"data-science", "/ds/team-a"}, "web", scopes=K_SCOPES, credential=K_ID),
    ),
    Sample("keycloak-user", "keycloak", "bad_audience", {"aud": "account"}),  # the default without a mapper
    Sample("keycloak-user", "keycloak", "wrong_kind", {"typ": "Offline"}),
    Sample("keycloak-user", "keycloak", "wrong_kind", {"typ": "ID"}),
    Sample("keycloak-service", "keycloak", Seen(K_SUBJECT, set(), "batch", scopes=K_SCOPES, credential=K_ID)),
    Sample("okta-user", "okta", Seen("alice@example.com", {"ds"}, "0oaX", True, {"openid", "infer"}, "AT.x7")),
    Sample("okta-user", "okta", "bad_audience", {"aud": "https://acme.okta.com"}),  # of the organisation's own server
    Sample("google-user", "google", Seen("alice@example.com", set(), GOOGLE_CLIENT)),
    Sample("google-user", "google", "bad_claims", {"hd": "example.org"}),
    Sample("google-user", "google", "bad_claims", {"hd": ...}),
    Sample("google-user", "google", "bad_claims", {"email_verified": False}),
    Sample(
        "google-user", "google-bare", Seen("alice@example.com", set(), GOOGLE_CLIENT),
        {"iss": "accounts.google.com", "email_verified": "true"},
    ),
    Sample("adfs-user", "adfs", Seen("alice@example.com", {"ds"}, "gw", scopes={"openid"})),
    Sample(
        "adfs-user", "adfs", Seen("alice@example.com", {"ds", "ops"}, "gw", scopes={"openid"}), {"group": ["ds", "ops"]}
    ),
    Sample("dex-user", "dex", Seen("CgVhbGljZRIEbGRhcA", {"ds"})),
    Sample("kubernetes-pod", "cluster", Seen("system:serviceaccount:ml:trainer", {"k8s:ml"}, credential=POD)),
    Sample(
        "kubernetes-pod", "cluster", "bad_audience", {"aud": ["https://kubernetes.default.svc.cluster.local"]}
    ),  # for the API server
    Sample("kubernetes-secret", "cluster", "bad_issuer"),
]  # fmt: skip


def documented(holding: str = "name: keycloak") -> dict[str, Config]:
    """The entries of the page, filled in, of the one block that holds this."""
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if holding in text)
    for capitals, name in FILLED_IN.items():
        block = block.replace(capitals, name)
    return {entry["name"]: entry for entry in yaml.safe_load(block)["identity"]["oidc"]}
