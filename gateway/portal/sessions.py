"""Who is logged in at the pages: sessions that the browser keeps sealed, and what this process has to remember of them.

Knows: what a session holds, how long it lasts. Must not know: cookies, HTTP, how anybody logged in.

Nothing is stored for most sessions, so that every replica with the same keys knows them. Kept here, in bounded tables:
a session that is too large for a cookie (somebody in very many groups), and until when each person's were ended.
"""

from __future__ import annotations

import json
import math
import zlib
from collections import OrderedDict
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any, Final

from gateway.call import Principal
from gateway.portal.sealing import Clock, Seal, Secrets

# Seconds. A working day at most, and an hour without a page: who walks away is logged out.
LONGEST: Final = 8 * 3600.0
IDLE: Final = 3600.0
CLOCKS: Final = 5.0  # how far those of replicas may differ
# Browsers keep 4096 bytes of a cookie, its name and attributes included (RFC 6265 section 6.1).
COOKIE_LIMIT: Final = 3800
# What is in a cookie; a change of it is a new purpose, so that nobody reads what another version sealed.
_PURPOSE: Final = "session 2"
# What a cookie unpacks to at most; compressed text that we sealed ourselves, so this only bounds a mistake of ours.
_CONTENT_LIMIT: Final = 1024 * 1024
# Sessions too large for a cookie, and the groups and scopes in them; the oldest go first. About 25 MB.
KEPT_LIMIT: Final = 1_000
KEPT_NAMES: Final = 250_000
# People who logged out: a name and a moment each, about 5 MB. However many do, nobody's session comes back: whoever is
# forgotten here takes with them all sessions that are as old as the one they ended.
ENDED_LIMIT: Final = 20_000

_Person = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody logged in, from `begun` until `until` (UNIX seconds). `guard`: what a form of theirs has to bring."""

    id: str
    principal: Principal
    begun: float
    until: float
    guard: str = field(repr=False)


class Sessions:
    """`secrets` and `now` are those of the seal: see `Seal`."""

    def __init__(self, secrets: Secrets, now: Clock) -> None:
        self._seal = Seal(secrets, _PURPOSE, now)
        self._now = now
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._kept_names = 0
        self._ended: OrderedDict[_Person, float] = OrderedDict()
        self._all_ended = -math.inf

    def begin(self, principal: Principal) -> Session:
        """A new session, which ends with the credential it began with if that is sooner."""
        now = self._now()
        begun = max(now, math.nextafter(self._ended_until(principal), math.inf))
        return Session(token_urlsafe(16), principal, begun, min(now + LONGEST, principal.expires), token_urlsafe(32))

    def sealed(self, session: Session) -> str:
        """What the browser is to keep; being idle is counted from now."""
        text = self._seal.close(_packed(_content(session)))
        if len(text) <= COOKIE_LIMIT:
            return text
        self._keep(session)
        return self._seal.close(_packed({"kept": session.id}))

    def find(self, text: str) -> Session | None:
        """The session that was sealed so, if it still lasts; None for everything else."""
        packed = self._seal.open(text, IDLE) if len(text) <= COOKIE_LIMIT else None
        if packed is None:
            return None
        content = _unpacked(packed)
        session = self._kept.get(content["kept"]) if "kept" in content else _session(content)
        if session is None or session.begun <= self._ended_until(session.principal) or self._now() >= session.until:
            return None
        return session

    def end(self, session: Session) -> None:
        """Never find it again, nor any that this person began before now, wherever copies of the cookies may be."""
        self._drop(session.id)
        now, who = self._now(), _person(session.principal)
        # Its own beginning, and whatever began clearly before now: one that began a moment ago may be a fresh one, at a
        # replica whose clock is behind.
        self._ended[who] = max(now - CLOCKS, self._ended.pop(who, -math.inf), session.begun)
        while len(self._ended) > ENDED_LIMIT or next(iter(self._ended.values())) <= now - LONGEST:
            self._all_ended = max(self._all_ended, self._ended.popitem(last=False)[1])

    def _ended_until(self, principal: Principal) -> float:
        """A session of theirs that began then or before is over."""
        return max(self._all_ended, self._ended.get(_person(principal), -math.inf))

    def _keep(self, session: Session) -> None:
        self._drop(session.id)
        self._kept[session.id] = session
        self._kept_names += _names(session)
        while len(self._kept) > KEPT_LIMIT or self._kept_names > KEPT_NAMES:
            self._drop(next(iter(self._kept)))

    def _drop(self, identity: str) -> None:
        if (session := self._kept.pop(identity, None)) is not None:
            self._kept_names -= _names(session)


def _person(principal: Principal) -> _Person:
    return principal.issuer, principal.subject


def _names(session: Session) -> int:
    return len(session.principal.groups) + len(session.principal.scopes)


def _packed(content: dict[str, Any]) -> bytes:
    """Compressed, so that a few hundred groups fit. Nothing that others may choose stands beside a secret in it."""
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode("ascii"), 9)


def _unpacked(packed: bytes) -> dict[str, Any]:
    """What was packed here: the seal vouches for its form."""
    content: dict[str, Any] = json.loads(zlib.decompressobj().decompress(packed, _CONTENT_LIMIT))
    return content


def _content(session: Session) -> dict[str, Any]:
    who = session.principal
    return {
        "id": session.id,
        "guard": session.guard,
        "begun": session.begun,
        "until": session.until,
        "subject": who.subject,
        "issuer": who.issuer,
        "provider": who.provider,
        "groups": sorted(who.groups),
        "groups_known": who.groups_known,
        "client": who.client,
        "scopes": sorted(who.scopes),
        "expires": None if math.isinf(who.expires) else who.expires,
        "credential": who.credential,
    }


def _session(content: dict[str, Any]) -> Session:
    who = Principal(
        subject=content["subject"],
        issuer=content["issuer"],
        provider=content["provider"],
        groups=frozenset(content["groups"]),
        groups_known=content["groups_known"],
        client=content["client"],
        scopes=frozenset(content["scopes"]),
        expires=math.inf if content["expires"] is None else content["expires"],
        credential=content["credential"],
    )
    return Session(content["id"], who, content["begun"], content["until"], content["guard"])
