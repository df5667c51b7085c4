"""A configuration file becomes settings as documented, or every mistake in it is said at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from gateway.config.load import load
from gateway.config.mistakes import Mistakes
from gateway.settings import (
    ApiKeys,
    BackendAddress,
    Claims,
    ClientTls,
    Credential,
    HealthCheck,
    Introspection,
    LdapBind,
    LdapCache,
    LdapGroups,
    LdapUsers,
    Listen,
    Model,
    Mtls,
    OidcIssuer,
    Policies,
    Pool,
    ServerTls,
    Settings,
    Timeouts,
    Tokens,
)
from tests.config.conftest import MINIMAL, refused, taken
from tests.identity.pems import key_file, private

Write = Callable[[str], Path]
REPOSITORY = Path(__file__).parents[2]


def test_a_minimal_file_means_the_defaults_of_the_settings(write: Write, root: Path) -> None:
    loaded = taken(write(MINIMAL))
    assert loaded.settings == Settings(
        listen=Listen(ServerTls(root / "tls.crt", root / "tls.key")),
        oidc=(OidcIssuer("corp", "https://idp.example.com", ("nim-gateway",)),),
        policies=Policies(root / "policies"),
        pools=(Pool("llama", ("openai",), (Model("llama"),), (BackendAddress("http://10.0.0.11:8000"),)),),
    )
    assert loaded.files == (root / "gateway.yaml", root / "tls.crt", root / "tls.key", root / "policies")


def test_the_example_loads_once_its_files_are_there(write: Write, root: Path) -> None:
    (root / "certs").mkdir()
    for name in ("tls.crt", "tls.key"):
        (root / "certs" / name).write_bytes((root / name).read_bytes())
    key_file(root / "certs" / "token-signing.key", private("ES256"))
    for name in ("nim-ca.crt", "ldap-ca.crt", "clients-ca.crt"):
        (root / "certs" / name).write_bytes((root / "tls.crt").read_bytes())
    for name in ("nim-key", "ldap", "introspect"):
        (root / name).write_text("Bearer abc\n")
    text = (REPOSITORY / "config" / "gateway.yaml").read_text()
    text = text.replace("/run/secrets/", "").replace("config/policies/", "policies")
    settings = taken(write(text)).settings
    [corp] = settings.oidc
    assert corp.claims == Claims(("sub",), ("groups",), ("scope",))
    assert corp.group_map == (("/ml/ds", "data-science"),)
    assert corp.introspection == Introspection("gateway", "Bearer abc")
    [directory] = settings.ldap
    assert directory.bind == LdapBind("cn=gateway,ou=services,dc=example,dc=com", "Bearer abc")
    assert directory.groups == LdapGroups("ou=groups,dc=example,dc=com", "(member={dn})", "cn", nested=True)
    assert directory.users == LdapUsers("ou=people,dc=example,dc=com")
    assert (directory.timeout, directory.cache) == (5.0, LdapCache(300.0, 10.0))
    assert settings.api_keys == ApiKeys(root / "config/api_keys.yaml")
    assert settings.tokens == Tokens(root / "certs/token-signing.key", 3600.0)
    assert settings.mtls == Mtls("san_uri")
    assert settings.listen.tls.client_ca == root / "certs/clients-ca.crt"
    llama, triton = settings.pools
    assert llama.credential == Credential("Authorization", "Bearer abc")
    assert llama.backends[1] == BackendAddress(
        "https://10.0.0.12:8000", weight=2, tls=ClientTls(root / "certs/nim-ca.crt")
    )
    assert llama.models == (Model("meta/llama-3.1-8b-instruct", ("llama-8b",)),)
    assert llama.health == HealthCheck("/v1/health/ready", 5.0, 2.0, 3, 2)
    assert triton.models[1] == Model("ensemble", backend_name="ens_v2")
    assert (triton.max_body, triton.first_byte, triton.idle) == (512 * 1024**2, 300.0, None)
    assert triton.health == HealthCheck("/v2/health/ready")
    assert settings.limits.timeouts == Timeouts(10.0, 2.0, 120.0, 60.0, 60.0, 75.0, 5.0, 300.0)


def test_every_other_setting_arrives_too(write: Write, root: Path) -> None:
    more = """\
hide_models: true
workers: 1
management: {address: "::1", port: 9191}
audit: {file: audit.log}
limits: {header: 16KiB}
"""
    text = MINIMAL.replace("listen:\n", "listen:\n  trusted_proxies: [10.0.0.0/8, 'fd00::/8']\n  max_body: 1GiB\n")
    text = text.replace(
        "      audience", "      claims: {groups: a.b, subject: ['x.y', z]}\n      ca: tls.crt\n      audience"
    )
    text = text.replace(
        "    protocols", "    prefix: /llama\n    open: [/tokenize]\n    identity_headers: true\n    protocols"
    )
    settings = taken(write(text + more)).settings
    assert settings.hide_models
    assert (settings.management.address, settings.management.port) == ("::1", 9191)
    assert settings.audit.file == str(root / "audit.log")
    assert settings.limits.header == 16 * 1024
    assert settings.listen.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.listen.max_body == 1024**3
    assert settings.oidc[0].claims == Claims(("x.y", "z"), ("a", "b"))
    assert settings.oidc[0].ca == root / "tls.crt"
    [pool] = settings.pools
    assert (pool.prefix, pool.open, pool.identity_headers) == ("/llama", ("/tokenize",), True)


def test_paths_begin_at_the_working_directory_unless_a_root_is_given(
    write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(MINIMAL)
    monkeypatch.chdir(root)
    assert load(path, None, environment={}).settings.policies.enforce == root / "policies"
    monkeypatch.chdir("/")
    assert load(path, root, environment={}).settings.policies.enforce == root / "policies"
    with pytest.raises(Mistakes):
        load(path, None, environment={})


def test_a_file_that_is_not_there_is_a_mistake_like_any_other(root: Path) -> None:
    assert refused(root / "other.yaml") == ["1:1: cannot be read: No such file or directory"]
    assert refused(root) == ["1:1: is a folder; name a file"]
    os.mkfifo(root / "pipe.yaml")  # whose other end nobody opens
    assert refused(root / "pipe.yaml") == ["1:1: not a file"]


def test_a_bad_file_still_says_what_it_depends_on(write: Write, root: Path) -> None:
    path = write(MINIMAL.replace("tls.crt", "coming.crt"))
    with pytest.raises(Mistakes) as caught:
        taken(path)
    assert caught.value.files == (path, root / "coming.crt", root / "tls.key", root / "policies")


def test_cut_at_any_line_the_file_is_refused_or_complete(write: Write) -> None:
    """B095."""
    lines = MINIMAL.splitlines(keepends=True)
    for count in range(len(lines)):
        assert refused(write("".join(lines[:count])))
