"""What a connection needs of the door that let it in.

Knows: the limits of a connection. Must not know: how a door listens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.call import Call, Outcome
from gateway.doors.body import IncomingBody, WholeBody
from gateway.doors.reply import HttpReply
from gateway.doors.room import Room
from gateway.exchange import Exchange, Serve
from gateway.settings import Network, Timeouts

# How long a refused caller may go on sending before the connection is closed under it: time to read the refusal.
LINGER = 2.0

# What an answer may pile up before the backend is told to wait: the caller's window, not the whole answer.
WRITE_HIGH: Final = 256 * 1024
WRITE_LOW: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """`header`: bytes of a request header. `connections`: how many there may be. `bodies`: bytes of all together."""

    header: int
    connections: int
    bodies: int
    timeouts: Timeouts
    trusted_proxies: tuple[Network, ...]


class Door(Protocol):
    """Serves, accounts, and counts its connections. `draining`: each answer is the last of its connection."""

    serve: Serve
    settings: DoorSettings
    draining: bool
    room: Room

    def account(self, outcome: Outcome, /) -> None: ...
    def new_id(self) -> str: ...
    def entered(self, connection: Any) -> None: ...
    def gone(self, connection: Any) -> None: ...


class Incoming(Exchange):
    """A request on a connection, to its answer. `came` and `answer` are body and reply, as this door knows them."""

    __slots__ = ("answer", "came")

    def __init__(self, call: Call, body: IncomingBody | WholeBody, reply: HttpReply) -> None:
        super().__init__(call, body, reply)
        self.came: Final = body
        self.answer: Final = reply
