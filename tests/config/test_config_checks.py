"""Everything that does not fit together is said, all at once, each at its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.config.conftest import MINIMAL, refused, taken

Write = Callable[[str], Path]


def test_twenty_mistakes_are_all_said_at_once_at_their_places(write: Write, root: Path) -> None:
    (root / "ca.crt").write_text("no certificate")
    text = """\
listen:
  port: 70000
  adress: 0.0.0.0
  tls: {certificate: missing.crt, key: tls.key, client_ca: ca.crt}
  max_body: 64MB
identity:
  oidc:
    - name: corp
      issuer: http://idp.example.com
      audience: []
      algorithms: [HS256, RS256]
      leeway: 60
    - {name: corp, issuer: https://other.example.com, audience: nim-gateway}
  ldap: [{name: directory}]
policies: nowhere
pools:
  - name: one
    protocols: [openai, soap]
    models: [{name: llama, aliases: [small]}, {name: "bad name"}]
    balance: random
    backends:
      - {url: http://u:p@10.0.0.1, weight: 0}
      - {url: http://10.0.0.2, tls: {ca: ca.crt}}
      - {url: http://10.0.0.2:80/}
    credential: {header: Authorization, value: hunter2}
  - name: two
    protocols: [openai]
    models: [{name: small}]
    backends: [{url: http://10.0.0.3, grpc: 10.0.0.3:8001}]
    first_byte: ${UNSET}
workers: 4
"""
    lines = refused(write(text))
    assert [line.split(": ")[0] for line in lines] == [
        *("2:3", "3:3", "4:9", "4:49", "5:3", "9:7", "10:7", "11:20", "12:7", "13:8", "13:55"),
        *("14:10", "14:10", "15:1"),
        *(
            "18:25",
            "19:48",
            "20:5",
            "22:10",
            "22:36",
            "23:32",
            "23:38",
            "24:10",
            "25:41",
            "28:15",
            "29:39",
            "30:5",
            "31:1",
        ),
    ]
    said = "\n".join(lines)
    for words in (
        *("from 1 to 65535", "did you mean 'address'?", "missing.crt cannot be read: No such file", "a size:"),
        *("not built yet", "an issuer must be https://", "at least one audience", "HS algorithms are never", "a time:"),
        *("a provider with this name stands above", "expected a list", "nowhere does not exist", "unknown protocol"),
        *("a model name:", "unknown way to balance", "and no user", "from 1 to 1000", "tls is for a https:// backend"),
        *("ca.crt holds no certificate", "this backend stands in the pool already", "a secret is not written here"),
        *("'small' is a model or alias of pool 'one' already", "variable UNSET is not set", "more than one worker"),
    ):
        assert words in said
    assert "hunter2" not in said


ONE_MISTAKE = {
    "no provider": (
        "  oidc:\n    - name: corp\n",
        "  oidc: []\n  x:\n    - name: corp\n",
        "at least one way to know callers is needed",
    ),
    "a provider called as callers with keys": ("name: corp", "name: api_keys", "this name means something else"),
    "a provider called as callers with certificates": ("name: corp", "name: mtls", "this name means something else"),
    "an issuer called as a directory": (
        "issuer: https://idp.example.com",
        "issuer: 'ldap:directory'\n      jwks_uri: https://idp.example.com/keys",
        "this issuer means another kind of caller",
    ),
    "issuer no URL": ("https://idp.example.com", "idp.example.com", "an issuer that is no URL needs a jwks_uri"),
    "keys over plain HTTP": (
        "      audience",
        "      jwks_uri: http://idp.example.com/keys\n      audience",
        "jwks_uri must be https://",
    ),
    "login without openid": (
        "      audience",
        "      login: {client_id: ui, scopes: [groups]}\n      audience",
        "openid must be among the scopes",
    ),
    "required claim no text": ("      audience", "      require: {hd: true}\n      audience", "mapping from names"),
    "issuer twice": (
        "policies:",
        "    - {name: b, issuer: https://idp.example.com, audience: [a]}\npolicies:",
        "a provider with this issuer stands above",
    ),
    "no pool": ("pools:\n", "pools: []\nx:\n", "at least one pool is needed"),
    "no model": ("[{name: llama}]", "[]", "serves at least one model"),
    "no backend": ("[{url: http://10.0.0.11:8000}]", "[]", "at least one backend"),
    "backend by both schemes": (
        "[{url: http://10.0.0.11:8000}]",
        "[{url: http://nim:8000}, {url: https://NIM:8000/}]",
        "this backend stands in the pool already",
    ),
    "pattern of groups": (
        "      audience",
        f"      groups_allowed: [a, {'x' * 513}]\n      audience",
        "a pattern has at most 512 characters",
    ),
    "no protocol": ("[openai]", "[]", "at least one protocol"),
    "protocol twice": ("[openai]", "[openai, openai]", "stands in the list already"),
    "alias of itself": (
        "{name: llama}",
        "{name: llama, aliases: [llama]}",
        "'llama' is a model or alias of pool 'llama'",
    ),
    "reached in a role": (
        "{name: llama}",
        "{name: llama}, {name: secret, backend_name: llama-query}",
        "'llama-query' is also 'llama' with '-query' behind it, which the grant for model 'llama' covers",
    ),
    "reached by name in a role": (
        "{name: llama}",
        "{name: llama-passage}, {name: x, aliases: [llama]}",
        "'llama-passage' is also 'llama' with '-passage' behind it, which the grant for model 'x' covers",
    ),
    "reached as a speaker": (
        "[openai]\n    models: [{name: llama}]",
        "[speech-http]\n    models: [{name: llama}, {name: llama.one}]",
        "'llama.one' is also 'llama' with '.one' behind it",
    ),
    "bodies": ("pools:", "limits: {bodies: 32MiB}\npools:", "bodies must not be less than listen.max_body"),
    "bodies that nobody set": ("listen:", "listen:\n  max_body: 2GiB", "bodies must not be less than listen.max_body"),
    "no connections": ("pools:", "limits: {connections: 0}\npools:", "expected a whole number from 1 to 1000000"),
    "stale": ("      audience", "      stale: 1m\n      audience", "stale must not be shorter than refresh"),
    "tokens for nobody": ("  oidc:", "  tokens: {key: tls.key}\n  oidc:", "tokens are for people who log in"),
    "public url without TLS": ("listen:", "listen:\n  public_url: http://gw.test", "expected https:// and a host"),
    "public url with a path": ("listen:", "listen:\n  public_url: https://gw.test/gw", "expected https:// and a host"),
    "public url that is a host": ("listen:", "listen:\n  public_url: gw.test", "expected https:// and a host"),
    "public url of no port": ("listen:", "listen:\n  public_url: https://gw.test:0", "expected https:// and a host"),
    "certificates by nobody": (
        "key: tls.key",
        "key: tls.key, client_certificate: required",
        "required needs client_ca, which says who vouches for clients",
    ),
    "null provider list": ("[nim-gateway]", "", "expected a list"),
    "proxies": ("listen:", "listen:\n  trusted_proxies: [10.0.0.1/8]", "a network such as"),
    "port taken": ("listen:", "management: {port: 8443}\nlisten:", "the port of the clients"),
    "port unknown": ("listen:", "management: {port: 0}\nlisten:", "from 1 to 65535"),
    "header": ("    protocols", "    credential: {header: 'X Y', value: {env: KEY}}\n    protocols", "a header field"),
    "open": ("    protocols", "    open: [tokenize]\n    protocols", "begins with '/'"),
    "prefix": ("    protocols", "    prefix: llama\n    protocols", "one path segment"),
    "health path": ("    protocols", "    health: {path: ready}\n    protocols", "begins with '/'"),
    "health interval": ("    protocols", "    health: {interval: 0s}\n    protocols", "at least 1ms"),
    "health fall": ("    protocols", "    health: {fall: 0}\n    protocols", "from 1 to 100"),
    "audit folder": ("listen:", "audit: {file: nowhere/audit.log}\nlisten:", "folder of this file does not exist"),
    "shadow among the policies": (
        "policies: policies",
        "policies: {enforce: policies, shadow: policies/next.yaml}",
        "lies in the folder of the policies in force",
    ),
    "history among the policies": (
        "policies: policies",
        "policies: {enforce: policies, history: policies/kept}",
        "lies within the policies; name a folder of its own",
    ),
    "no policies": ("policies: policies\n", "", "the setting 'policies' is missing"),
    "timeouts": ("listen:", "limits: {timeouts: {total: 5s}}\nlisten:", "unknown setting 'total'"),
    "directory that is none": (
        "      audience",
        "      groups_from: directory\n      audience",
        "no entry of identity.ldap is called 'directory'; there is none",
    ),
    "a token without TLS": (
        "https://idp.example.com",
        "http://idp.example.com\n      allow_insecure: true\n      discovery_token: {env: KEY}",
        "this token would be sent without TLS",
    ),
    "a token without TLS for keys": (
        "      audience",
        "      allow_insecure: true\n      discovery_token: {env: KEY}\n      jwks_uri: http://a.b/k\n      audience",
        "this token would be sent without TLS",
    ),
    "duplicate key": ("listen:", "hide_models: true\nhide_models: false\nlisten:", "'hide_models' stands twice"),
}


@pytest.mark.parametrize(("old", "new", "words"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_what_does_not_fit_is_refused(write: Write, old: str, new: str, words: str) -> None:
    assert old in MINIMAL
    lines = refused(write(MINIMAL.replace(old, new, 1)), KEY="k")
    assert any(words in line for line in lines)
    assert len(lines) == (2 if "\nx:" in new or "  x:" in new else 1), lines


def test_of_a_misspelt_folder_of_policies_nothing_is_said_but_that(write: Write) -> None:
    lines = refused(write(MINIMAL.replace("policies: policies", "policies: {enforc: policies, history: kept}")))
    assert [line.partition(": ")[2] for line in lines] == [
        "the setting 'enforce' is missing",
        "unknown setting 'enforc'; did you mean 'enforce'?",
    ]


@pytest.mark.parametrize("lifetime", ["999ms", "25h"])
def test_a_token_that_lasts_no_time_or_for_ever_is_refused(write: Write, lifetime: str) -> None:
    login = "      login: {client_id: gateway}\n      audience"
    tokens = f"  tokens: {{key: tls.key, lifetime: {lifetime}}}\n  oidc:"
    text = MINIMAL.replace("      audience", login).replace("  oidc:", tokens)
    (line,) = refused(write(text))
    assert "from 1s to 24h" in line
    assert taken(write(text.replace(lifetime, "24h"))).settings.tokens is not None


DIRECTORY = """\
  ldap:
    - name: directory
      servers: [ldaps://ldap.example.com]
      users: {dn_template: "uid={username},dc=example"}
"""


def test_groups_come_from_a_directory_that_there_is_and_are_named_there(write: Write) -> None:
    """What stands at the issuer would be without effect, which is never so."""
    text = MINIMAL.replace("identity:\n", f"identity:\n{DIRECTORY}")
    ours = "      groups_from: directory\n      audience"
    assert taken(write(text.replace("      audience", ours))).settings.oidc[0].groups_from == "directory"
    assert refused(write(text.replace("      audience", ours.replace("directory", "elsewhere"))))[0].endswith(
        "no entry of identity.ldap is called 'elsewhere'; there is directory"
    )
    idle = ("group_prefix: x", "group_map: {a: b}", "groups_allowed: [a]", "claims: {groups: roles}")
    for line in idle:
        (said,) = refused(write(text.replace("      audience", f"      {line}\n{ours}")))
        assert said.endswith("groups_from takes the groups from a directory, which has its own such settings")
    with_certificates = text.replace("identity:\n", "identity:\n  mtls: {groups_from: elsewhere}\n")
    assert "'elsewhere'; there is directory" in refused(write(with_certificates))[0]


def test_parts_not_built_yet_may_stand_empty(write: Write) -> None:
    text = MINIMAL.replace("      audience", "      verify: jwt\n      groups_from: null\n      audience")
    taken(write(text + "workers: auto\n"))


@pytest.mark.parametrize("issuer", ["http://localhost:9000", "http://127.0.0.1/realms/x", "http://[::1]:9000"])
def test_an_issuer_on_this_machine_may_be_plain(write: Write, issuer: str) -> None:
    assert taken(write(MINIMAL.replace("https://idp.example.com", issuer))).settings.oidc[0].issuer == issuer


@pytest.mark.parametrize("issuer", ["accounts.google.com", "http://adfs.example.com/adfs/services/trust"])
def test_an_issuer_whose_keys_are_elsewhere_is_only_a_name(write: Write, issuer: str) -> None:
    keys = "      jwks_uri: https://idp.example.com/keys\n      audience"
    text = MINIMAL.replace("https://idp.example.com", issuer).replace("      audience", keys)
    [corp] = taken(write(text)).settings.oidc
    assert (corp.issuer, corp.jwks_uri) == (issuer, "https://idp.example.com/keys")


def test_a_provider_that_is_only_a_name_can_log_nobody_in(write: Write) -> None:
    keys = "      jwks_uri: https://idp.example.com/keys\n      login: {client_id: ui}\n      audience"
    text = MINIMAL.replace("https://idp.example.com", "idp.example.com").replace("      audience", keys)
    [line] = refused(write(text))
    assert "a login is found under the issuer" in line
    taken(write(MINIMAL.replace("      audience", "      login: {client_id: ui}\n      audience")))


def test_a_login_is_proven_in_one_way(write: Write, root: Path) -> None:
    (root / "secret").write_text("of one line\n")
    both = "{client_id: ui, private_key: tls.key, client_secret: {file: secret}}"
    [line] = refused(write(MINIMAL.replace("      audience", f"      login: {both}\n      audience")))
    assert "give client_secret or private_key, not both" in line


def test_an_issuer_elsewhere_may_be_plain_only_if_somebody_says_so(write: Write) -> None:
    text = MINIMAL.replace("https://idp", "http://idp")
    assert "allow_insecure: true" in refused(write(text))[0]
    text = text.replace("      audience", "      allow_insecure: true\n      audience")
    assert taken(write(text)).settings.oidc[0].allow_insecure


SECOND = """\
  - name: second
    protocols: [PROTOCOL]
    models: [{name: NAME}]
    backends: [{url: http://10.0.0.12:8000}]
"""


def two_pools(protocol: str, other: str, name: str) -> str:
    return MINIMAL.replace("openai", protocol) + SECOND.replace("PROTOCOL", other).replace("NAME", name)


def test_a_model_name_belongs_to_one_pool_per_protocol(write: Write) -> None:
    assert "for protocol openai" in refused(write(two_pools("openai", "openai", "llama")))[0]
    assert "for protocol openai" in refused(write(two_pools("openai", "openai", "x, aliases: [llama]")))[0]
    taken(write(two_pools("openai", "kserve", "llama")))
    taken(write(two_pools("openai", "openai", "other")))


@pytest.mark.parametrize("protocol", ["generic-infer", "speech-http", "bio"])
def test_pools_whose_paths_name_no_model_need_a_prefix_each(write: Write, protocol: str) -> None:
    taken(write(two_pools(protocol, "openai", "other")))
    text = two_pools(protocol, protocol, "other")
    assert len([line for line in refused(write(text)) if "needs a prefix" in line]) == 2
    text = text.replace("  - name: llama", "  - prefix: /a\n    name: llama")
    assert len([line for line in refused(write(text)) if "needs a prefix" in line]) == 1
    taken(write(text.replace("  - name: second", "  - prefix: /b\n    name: second")))
    same = refused(write(text.replace("  - name: second", "  - prefix: /a\n    name: second")))
    assert "under this prefix already" in same[0]


def test_a_model_within_reach_of_another_is_told_where_its_name_stands(write: Write) -> None:
    models = "[{name: llama}, {name: secret, backend_name: llama-query}]"
    (line,) = refused(write(MINIMAL.replace("[{name: llama}]", models)))
    row, column = (int(number) for number in line.split(":")[:2])
    assert MINIMAL.replace("[{name: llama}]", models).splitlines()[row - 1][column - 1 :].startswith("backend_name")
