"""A real Active Directory domain, EXAMPLE.TEST, on a Samba domain controller: people, groups, start and stop.

Knows: `samba-tool`, `samba`, `ldapmodify`, what is in the domain. Must not know: the gateway.
Its ports are fixed (389, 636, 3268, 3269), so each controller has a loopback address of its own; they need root.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.parts.process import ServerProcess, wait_until

DOMAIN = "example.test"
ROOT = "DC=example,DC=test"
UNIT = f"OU=ml,{ROOT}"
ADMINISTRATOR = f"Administrator@{DOMAIN}"
SERVICE = "gateway"
PORTS = (389, 636, 3268, 3269)

#: Account names, in the order in which they are made.
NAMES = (
    *(SERVICE, "alice", "bob", "carol", "dora", "zoe", "mistyped", "guessed", "renamed"),
    *("disabled", "expired", "must-change", "locked"),
)
#: Members by group; a name with `@` is a group. The loop is closed afterwards, and bob's primary group is ds.
MEMBERS: Mapping[str, Sequence[str]] = {
    "team-a": ["alice"],
    "ds": ["@team-a", "bob"],
    "visitors": ["carol"],
    "loop-1": ["dora"],
    "loop-2": ["@loop-1"],
    "Ops, (EU) *": ["zoe"],
}
#: After so many wrong passwords within half an hour an account is locked for as long.
FAILURES = 5
HALF_AN_HOUR = -30 * 60 * 10_000_000  # intervals count in 100 ns, downwards (MS-DTYP section 2.3.6)
LONG_AGO = 116_444_736_000_000_000 + 10_000_000  # a second past 1970 (MS-DTYP section 2.3.3)
NORMAL, DISABLED = 0x200, 0x202  # MS-ADTS section 2.2.16
#: What is special about accounts.
SPECIAL: Mapping[str, dict[str, str]] = {
    "disabled": {"userAccountControl": str(DISABLED)},
    "expired": {"accountExpires": str(LONG_AGO)},
    "must-change": {"pwdLastSet": "0"},
    "renamed": {"userPrincipalName": f"new.name@{DOMAIN}"},
}

SETTINGS = """\
[global]
 netbios name = DC1
 realm = EXAMPLE.TEST
 workgroup = EXAMPLE
 server role = active directory domain controller
 server services = ldap
 prefork children = 1
 interfaces = {address}/8
 bind interfaces only = yes
 private dir = {folder}/private
 lock directory = {folder}
 state directory = {folder}/state
 cache directory = {folder}/cache
 binddns dir = {folder}/bind-dns
 pid directory = {folder}/run
 ncalrpc dir = {folder}/ncalrpc
 log file = {folder}/log
 tls enabled = yes
 tls certfile = {folder}/dc.crt
 tls keyfile = {folder}/dc.key
 tls cafile = {folder}/dc.crt
"""


class Samba:
    """A domain controller that runs until `stop`; everybody's password is in `passwords`."""

    def __init__(self, folder: Path) -> None:
        assert os.geteuid() == 0, "a Samba domain controller listens on port 389: run its tests as root"
        self.folder = folder / f"samba-{secrets.token_hex(4)}"
        self.folder.mkdir()
        self.address = _free_address()
        self.ca = self.folder / "dc.crt"
        self.url, self.ldaps = f"ldap://{self.address}", f"ldaps://{self.address}"
        self.catalogue, self.secure_catalogue = f"{self.url}:3268", f"{self.ldaps}:3269"
        self.passwords = {name: f"{secrets.token_urlsafe(12)}-aA1" for name in (*NAMES, ADMINISTRATOR)}
        self._provision()
        _write_certificate(self.folder, self.address)
        command: list[str | Path] = [
            "/usr/sbin/samba",
            "-F",
            "--no-process-group",
            "-s",
            self.folder / "etc" / "smb.conf",
        ]
        self.process = ServerProcess(command, self.folder, name="samba").wait_ready(self._answers)
        try:
            self._fill()
        except BaseException:
            self.stop()
            raise

    def __repr__(self) -> str:
        return f"<Samba {self.address} {self.process}>"

    def stop(self) -> None:
        """End it and all that it started."""
        family = self.process.descendants()
        self.process.stop()
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def config(self, **more: Any) -> dict[str, Any]:
        """An entry of `identity.ldap` for it: LDAPS, search and bind; `more` replaces what stands here."""
        secret = self.folder / "service-password"
        secret.write_text(self.passwords[SERVICE])
        return {
            "name": "ad",
            "servers": [self.ldaps],
            "ca": str(self.ca),
            "bind": {"dn": f"{SERVICE}@{DOMAIN}", "password": {"file": str(secret)}},
            "users": {
                "base": ROOT,
                "filter": "(&(objectCategory=person)(sAMAccountName={username}))",
                "subject": "sAMAccountName",
            },
            "groups": {"base": ROOT, "filter": "(member={dn})", "name": "cn", "nested": True},
            **more,
        }

    def wrong_passwords(self, name: str) -> int:
        """How many wrong passwords the domain counts against this account."""
        return int(self.look_up(f"(sAMAccountName={name})", "badPwdCount")[0])

    def look_up(self, wanted: str, attribute: str) -> list[str]:
        """The values of an attribute in the entries that a filter finds."""
        command = [*self._client("ldapsearch"), "-LLL", "-o", "ldif-wrap=no", "-b", ROOT, wanted, attribute]
        found = subprocess.run(command, env=self._trust, capture_output=True, text=True, check=True).stdout
        return [line.removeprefix(f"{attribute}: ") for line in found.splitlines() if line.startswith(f"{attribute}: ")]

    def set(self, dn: str, attribute: str, value: str) -> None:
        """Give an attribute of an entry this value alone."""
        self.change(_replace(dn, attribute, value))

    def change(self, ldif: str) -> None:
        """Add and change entries as the administrator of the domain."""
        done = subprocess.run(
            self._client("ldapmodify"), input=ldif, env=self._trust, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    @property
    def _trust(self) -> dict[str, str]:
        return {**os.environ, "LDAPTLS_CACERT": str(self.ca)}

    def _client(self, program: str) -> list[str]:
        return [program, "-x", "-H", self.ldaps, "-D", ADMINISTRATOR, "-w", self.passwords[ADMINISTRATOR]]

    def _provision(self) -> None:
        command = [
            *("samba-tool", "domain", "provision", "--realm=EXAMPLE.TEST", "--domain=EXAMPLE", "--server-role=dc"),
            *("--dns-backend=SAMBA_INTERNAL", "--host-name=dc1", f"--host-ip={self.address}"),
            *(f"--adminpass={self.passwords[ADMINISTRATOR]}", f"--targetdir={self.folder}"),
            *("--option=interfaces=lo", "--option=bind interfaces only=yes", f"--option=log file={self.folder}/log"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        settings = SETTINGS.format(folder=self.folder, address=self.address)
        (self.folder / "etc" / "smb.conf").write_text(settings)
        for name in ("run", "ncalrpc"):
            (self.folder / name).mkdir(exist_ok=True)

    def _answers(self) -> bool:
        command = [*self._client("ldapsearch"), "-s", "base", "-b", ROOT, "dn"]
        return subprocess.run(command, env=self._trust, capture_output=True, check=False).returncode == 0

    def _fill(self) -> None:
        self.change(seed(self.passwords))
        (number,) = self.look_up("(sAMAccountName=ds)", "primaryGroupToken")
        self.set(person("bob"), "primaryGroupID", number)
        for _ in range(FAILURES):
            command = ["ldapwhoami", "-x", "-H", self.ldaps, "-D", f"locked@{DOMAIN}", "-w", "wrong"]
            subprocess.run(command, env=self._trust, capture_output=True, check=False)
        wait_until(lambda: self.look_up("(sAMAccountName=locked)", "lockoutTime") not in ([], ["0"]), what="the lock")


def person(name: str) -> str:
    """The distinguished name of somebody."""
    return f"CN=Doe\\, Zoë,{UNIT}" if name == "zoe" else f"CN={name},{UNIT}"


def group(name: str) -> str:
    """The distinguished name of a group."""
    return f"CN={name.replace(',', chr(92) + ',')},{UNIT}"


def seed(passwords: Mapping[str, str]) -> str:
    """The lock-out policy, everybody, and all groups, as changes (RFC 2849)."""
    lockout = {
        "lockoutThreshold": str(FAILURES),
        "lockoutDuration": str(HALF_AN_HOUR),
        "lockOutObservationWindow": str(HALF_AN_HOUR),
    }
    return "".join(
        [
            *(_replace(ROOT, name, value) for name, value in lockout.items()),
            _entry(UNIT, "organizationalUnit"),
            *(_person(name, passwords[name]) for name in NAMES),
            *(_group(name, members) for name, members in MEMBERS.items()),
            _change(group("loop-1"), "modify", ("add", "member"), ("member", group("loop-2"))),
        ]
    )


def _person(name: str, password: str) -> str:
    more = SPECIAL.get(name, {})
    return _entry(
        person(name),
        "user",
        sAMAccountName=name,
        unicodePwd=f'"{password}"'.encode("utf-16-le"),  # MS-ADTS section 3.1.1.3.1.5
        **{"userPrincipalName": f"{name}@{DOMAIN}", "userAccountControl": str(NORMAL)} | more,
    )


def _group(name: str, members: Sequence[str]) -> str:
    dns = [group(each[1:]) if each.startswith("@") else person(each) for each in members]
    return _entry(group(name), "group", sAMAccountName=name.translate({ord(odd): "_" for odd in ",()*"}), member=dns)


def _entry(dn: str, kind: str, **attributes: str | bytes | Sequence[str]) -> str:
    lines: list[tuple[str, str | bytes]] = [("objectClass", kind)]
    for name, values in attributes.items():
        lines += [(name, value) for value in ([values] if isinstance(values, str | bytes) else values)]
    return _change(dn, "add", *lines)


def _replace(dn: str, attribute: str, value: str) -> str:
    return _change(dn, "modify", ("replace", attribute), (attribute, value))


def _change(dn: str, kind: str, *lines: tuple[str, str | bytes]) -> str:
    return "\n".join(_line(*line) for line in (("dn", dn), ("changetype", kind), *lines)) + "\n\n"


def _line(name: str, value: str | bytes) -> str:
    raw = value.encode() if isinstance(value, str) else value
    return f"{name}:: {base64.b64encode(raw).decode()}"


def _free_address() -> str:
    """A loopback address on which nobody listens on any of the ports."""
    for _ in range(20):
        address = str(ipaddress.ip_address("127.64.0.0") + 2 + secrets.randbelow(2**20))
        try:
            for port in PORTS:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind((address, port))
        except OSError:
            continue
        return address
    raise AssertionError(f"one of the ports {PORTS} is taken on all addresses: stop what listens there")


def _write_certificate(folder: Path, address: str) -> None:
    """`dc.crt`, which is its own authority, and `dc.key`, which Samba refuses to read if others may."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dc1.{DOMAIN}")])
    names = [x509.DNSName(f"dc1.{DOMAIN}"), x509.IPAddress(ipaddress.ip_address(address))]
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "dc.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "dc.key").touch(0o600)
    (folder / "dc.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
