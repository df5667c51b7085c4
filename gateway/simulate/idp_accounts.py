"""Who a simulated identity provider knows: clients and users, kept in a file that it makes itself.

Knows: the file, how secrets are compared. Must not know: tokens, HTTP.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: Bytes of a made-up secret: 128 bits cannot be guessed.
SECRET_BYTES = 16


@dataclass(frozen=True, slots=True)
class Account:
    """A client or a user. `groups` go into its tokens."""

    name: str
    secret: str = field(repr=False)
    groups: tuple[str, ...] = ()

    def proves(self, secret: str) -> bool:
        """Whether `secret` is the account's own, in constant time."""
        return hmac.compare_digest(self.secret.encode(), secret.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Accounts:
    clients: dict[str, Account]
    users: dict[str, Account]


def invented() -> Accounts:
    """The people and programs of the demo, with fresh secrets."""
    return Accounts(
        clients=_by_name(Account("demo-client", _secret()), Account("demo-service", _secret(), ("services",))),
        users=_by_name(Account("alice", _secret(), ("data-science",)), Account("bob", _secret(), ("guests",))),
    )


def kept(path: Path) -> Accounts:
    """The accounts in the file; a missing file is made, readable by its owner only.

    Raises OSError when it cannot be read or made, ValueError when it holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        accounts = invented()
        _write(path, accounts)
        return accounts
    try:
        return Accounts(clients=_read(content["clients"]), users=_read(content["users"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"accounts need lists 'clients' and 'users' of name, secret, groups: {error!r}") from None


def _read(rows: list[dict[str, object]]) -> dict[str, Account]:
    groups = [tuple(str(group) for group in _listed(row.get("groups", []))) for row in rows]
    accounts = [Account(str(row["name"]), str(row["secret"]), own) for row, own in zip(rows, groups, strict=True)]
    return _by_name(*accounts)


def _listed(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("groups must be a list")
    return value


def _by_name(*accounts: Account) -> dict[str, Account]:
    return {account.name: account for account in accounts}


def _secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def _write(path: Path, accounts: Accounts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "clients": [asdict(account) for account in accounts.clients.values()],
        "users": [asdict(account) for account in accounts.users.values()],
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
