"""The real OpenLDAP server: its configuration, the people and groups in it, and how it is started and stopped.

Knows: `slapd`, `ldapadd`, what is in the directory. Must not know: the gateway.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.devcerts import Paths
from tests.parts.process import ServerProcess, free_port

ROOT = "dc=example,dc=test"
PEOPLE = f"ou=people,{ROOT}"
GROUPS = f"ou=groups,{ROOT}"
ADMIN = f"cn=admin,{ROOT}"
SERVICE = f"cn=gateway,ou=services,{ROOT}"
SCHEMAS = Path("/etc/ldap/schema")
MODULES = Path("/usr/lib/ldap")
SBIN = "/usr/sbin"

#: Everybody in the directory, with what is special about them.
NAMES = ("alice", "bob", "carol", "dora", "élise", "weird", "twice", "locked", "expired", "disabled", "reset")
#: Direct members by group; a name with a comma or equals sign in it is a group.
MEMBERS: dict[str, Sequence[str]] = {
    "data-science": ["alice"],
    "llm-users": ["alice", "élise"],
    "guests": ["bob"],
    "team-a": ["dora"],
    "teams": ["@team-a"],
    "everyone": ["@teams", "@guests"],
    "circle-1": ["@circle-2", "dora"],
    "circle-2": ["@circle-1"],
    "Ops, (EU) *": ["bob"],
}
#: After so many wrong passwords an account is locked for a while.
FAILURES = 3

CONFIG = """
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/inetorgperson.schema
include {schemas}/nis.schema
attributetype ( 2.16.840.1.113730.3.1.610 NAME 'nsAccountLock' EQUALITY caseIgnoreMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )
objectclass ( 1.3.6.1.4.1.4203.666.99.1 NAME 'mayBeLocked' SUP top AUXILIARY MAY nsAccountLock )
modulepath {modules}
moduleload back_mdb
moduleload memberof
moduleload ppolicy
pidfile {folder}/slapd.pid
TLSCACertificateFile {tls.ca}
TLSCertificateFile {tls.certificate}
TLSCertificateKeyFile {tls.key}
TLSVerifyClient never
sizelimit 50
access to attrs=userPassword by self write by anonymous auth by * none
access to * by users read by anonymous auth by * none
database mdb
suffix "{root}"
rootdn "{admin}"
rootpw {password}
directory {folder}/db
maxsize 104857600
dbnosync
index objectClass,uid,member,memberUid,cn eq
overlay memberof
memberof-group-oc groupOfNames
memberof-member-ad member
overlay ppolicy
ppolicy_default "cn=default,{root}"
ppolicy_use_lockout
"""


class Slapd:
    """An OpenLDAP server that runs on loopback until `stop`; everybody's password is in `passwords`."""

    def __init__(self, folder: Path, certificates: Paths, *, start: bool = True) -> None:
        self.folder = folder / f"slapd-{secrets.token_hex(4)}"
        (self.folder / "db").mkdir(parents=True)
        self.ca = certificates.ca
        self.plain, self.secure = free_port(), free_port()
        self.url, self.ldaps = f"ldap://127.0.0.1:{self.plain}", f"ldaps://127.0.0.1:{self.secure}"
        self.passwords = {name: secrets.token_urlsafe(12) for name in (*NAMES, ADMIN, SERVICE)}
        self.passwords["élise"] = f"pä:ss:€ {secrets.token_urlsafe(6)}"
        config = CONFIG.format(
            schemas=SCHEMAS,
            modules=MODULES,
            folder=self.folder,
            tls=certificates,
            root=ROOT,
            admin=ADMIN,
            password=self.passwords[ADMIN],
        )
        (self.folder / "slapd.conf").write_text(config)
        self.process: ServerProcess
        if start:
            self.start()
            self.add(seed(self.passwords))

    def __repr__(self) -> str:
        return f"<Slapd {self.url} {self.process}>"

    def start(self) -> None:
        """Run it, with what is in its database."""
        urls = f"{self.url}/ {self.ldaps}/"
        command: list[str | Path] = [_program("slapd"), "-f", self.folder / "slapd.conf", "-h", urls, "-d", "0"]
        self.process = ServerProcess(command, self.folder, name="slapd").wait_ready(self._answers)

    def stop(self) -> None:
        self.process.stop()

    def add(self, ldif: str) -> None:
        """Put entries in, as its administrator."""
        self._administer("ldapadd", ldif)

    def change(self, ldif: str) -> None:
        """Change entries, as its administrator."""
        self._administer("ldapmodify", ldif)

    def config(self, **more: Any) -> dict[str, Any]:
        """An entry of `identity.ldap` for it, over LDAPS; `more` replaces what stands here."""
        secret = self.folder / "service-password"
        secret.write_text(self.passwords[SERVICE])
        return {
            "name": "directory",
            "servers": [self.ldaps],
            "ca": str(self.ca),
            "bind": {"dn": SERVICE, "password": {"file": str(secret)}},
            "users": {"base": PEOPLE, "filter": "(uid={username})", "subject": "uid"},
            "groups": {"base": GROUPS, "filter": "(member={dn})", "name": "cn"},
            **more,
        }

    def _administer(self, program: str, ldif: str) -> None:
        command = [_program(program), "-x", "-H", self.url, "-D", ADMIN, "-w", self.passwords[ADMIN]]
        done = subprocess.run(command, input=ldif, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    def _answers(self) -> bool:
        command = [_program("ldapsearch"), "-x", "-H", self.url, "-b", "", "-s", "base", "namingContexts"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def person(name: str) -> str:
    """The distinguished name of somebody."""
    return f"uid={name},{PEOPLE}"


def group(name: str) -> str:
    """The distinguished name of a group."""
    return f"cn={name.replace(',', chr(92) + ',')},{GROUPS}"


def entry(dn: str, *classes: str, **attributes: str | Sequence[str]) -> str:
    """An entry as LDIF (RFC 2849)."""
    lines = [_line("dn", dn), *(_line("objectClass", each) for each in classes)]
    for name, values in attributes.items():
        lines += [_line(name, value) for value in ([values] if isinstance(values, str) else values)]
    return "\n".join(lines) + "\n\n"


def seed(passwords: Mapping[str, str]) -> str:
    """Everything in the directory."""
    units = [entry(f"ou={name},{ROOT}", "organizationalUnit", ou=name) for name in ("people", "groups", "services")]
    policy = {"pwdAttribute": "userPassword", "pwdLockout": "TRUE", "pwdMustChange": "TRUE"}
    limits = {"pwdMaxFailure": str(FAILURES), "pwdLockoutDuration": "2", "pwdFailureCountInterval": "60"}
    service = {"cn": "gateway", "userPassword": passwords[SERVICE]}
    return "".join(
        [
            entry(ROOT, "domain", dc="example"),
            entry(f"cn=default,{ROOT}", "device", "pwdPolicy", cn="default", **policy, **limits),
            *units,
            entry(SERVICE, "organizationalRole", "simpleSecurityObject", **service),
            *(_person(name, passwords[name]) for name in NAMES),
            entry(f"uid=twin,{PEOPLE}", "account", uid=["twin", "twice"]),
            *(_group(name, members) for name, members in MEMBERS.items()),
            entry(f"cn=posix,{GROUPS}", "posixGroup", cn="posix", gidNumber="500", memberUid=["alice", "carol"]),
        ]
    )


def _person(name: str, password: str) -> str:
    classes, more = ["inetOrgPerson"], {}
    if name == "disabled":
        classes, more = [*classes, "mayBeLocked"], {"nsAccountLock": "TRUE"}
    if name == "expired":
        classes, more = [*classes, "shadowAccount"], {"shadowExpire": "19000"}
    if name == "locked":
        more = {"pwdAccountLockedTime": "000001010000Z"}
    if name == "reset":
        more = {"pwdReset": "TRUE"}
    cn = "Weird (W) *\\5c" if name == "weird" else name.capitalize()
    return entry(person(name), *classes, uid=name, cn=cn, sn=cn, **more, userPassword=password)


def _group(name: str, members: Sequence[str]) -> str:
    dns = [group(each[1:]) if each.startswith("@") else person(each) for each in members]
    return entry(group(name), "groupOfNames", cn=name, member=dns)


def _line(name: str, value: str) -> str:
    return f"{name}:: {base64.b64encode(value.encode()).decode()}"


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")
    assert found, f"{name} is missing: make parts installs it"
    return found
