"""A directory server that does exactly as it is told, and writes down exactly what it was asked.

For what `slapd` cannot be made to do: silence, odd codes, referrals, notices of disconnection, wrong certificates,
ranges, answers that are no LDAP. It runs on threads of its own.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.parts.ldap_messages import (
    START_TLS,
    Answer,
    Asked,
    Bind,
    Entry,
    Extended,
    Reference,
    Search,
    ended,
    escaped,
    found,
    message,
    notice,
    read,
    size_of,
)

BASE = "dc=example,dc=test"
PEOPLE = f"ou=people,{BASE}"
GROUPS = f"ou=groups,{BASE}"
SERVICE = f"cn=gateway,{BASE}"
HURRY = 10.0
#: Seconds between two bytes of an answer that never ends.
DRIP = 0.02

Found = Iterable[Entry | Reference | Answer]


def person(name: str, **attributes: list[str | bytes]) -> Entry:
    """Somebody called `name`."""
    return Entry(f"uid={name},{PEOPLE}", {"uid": [name], **attributes})


class LdapStub:
    """On a loopback port until the end of a `with` block. `binds`, `searches`, `extended`: what came, in order.

    `on_bind` and `on_search` decide what is answered; without them `passwords` (by distinguished name) and `entries`
    do, found by their `uid`. `silent` names what is not answered: "accept", "tls", "bind", "search", "extended".
    `instead`: bytes in place of every answer; with `drips` they come one by one and never end.
    `tls`: from the first byte; `start_tls`: when it is asked for, else that is refused.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, start_tls: ssl.SSLContext | None = None) -> None:
        self.binds: list[Bind] = []
        self.searches: list[Search] = []
        self.extended: list[Extended] = []
        self.connections = 0
        self.raw: list[bytes] = []
        self.passwords: dict[str, str] = {}
        self.entries: list[Entry] = []
        self.on_bind: Callable[[Bind], Answer] = self._judge
        self.on_search: Callable[[Search], Found] = self._find
        self.silent: set[str] = set()
        self.instead: bytes | None = None
        self.drips = False
        self._tls, self._start_tls = tls, start_tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'ldaps' if tls else 'ldap'}://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self._mute: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close everything; connections are refused from now on."""
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(HURRY)

    def drop(self, *, saying: bytes = b"") -> None:
        """Close all connections, after `saying` something on them where they are plain."""
        with self._lock:
            lines = list(self._open)
        for line in lines:
            with suppress(OSError, ValueError):
                if saying:
                    line.sendall(saying)
                line.shutdown(socket.SHUT_RDWR)

    def give_notice(self) -> None:
        """Say that it is going away, and close."""
        self.drop(saying=notice())

    def mute(self) -> None:
        """From now on nothing is heard on the connections that are open, as behind a firewall that forgot them."""
        with self._lock:
            self._mute |= self._open

    def asked_as(self, dn: str) -> list[bytes]:
        """The passwords that came for this name."""
        return [bind.password for bind in self.binds if bind.dn == dn]

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(line,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, line: socket.socket) -> None:
        with self._lock:
            self._open.add(line)
        try:
            if self._tls is not None and "tls" not in self.silent:
                with self._secured(line, self._tls) as within:
                    self._talk(within)
            else:
                self._talk(line)
        except (OSError, ValueError):
            pass  # the other side may go whenever it likes
        finally:
            with self._lock:
                self._open.discard(line)
            line.close()

    @contextmanager
    def _secured(self, line: socket.socket, tls: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
        line.settimeout(HURRY)
        with self._lock:
            self._open.discard(line)
        with tls.wrap_socket(line, server_side=True) as wrapped:
            wrapped.settimeout(None)
            with self._lock:
                self._open.add(wrapped)
            try:
                yield wrapped
            finally:
                with self._lock:
                    self._open.discard(wrapped)

    def _talk(self, line: socket.socket) -> None:
        data = b""
        while piece := line.recv(65536):
            self.raw.append(piece)
            data += piece
            while (size := size_of(data)) is not None and size <= len(data) and self._hears(line):
                identity, asked = read(data[:size])
                data = data[size:]
                if asked is None:
                    return
                self._answer(line, identity, asked)
                if isinstance(asked, Extended) and asked.name == START_TLS and self._start_tls is not None:
                    with self._secured(line, self._start_tls) as within:
                        self._talk(within)
                    return

    def _goes_on(self) -> bool:
        return not self._over.wait(DRIP) and self.drips

    def _hears(self, line: socket.socket) -> bool:
        with self._lock:
            return "accept" not in self.silent and line not in self._mute

    def _answer(self, line: socket.socket, identity: int, asked: Asked) -> None:
        kind = type(asked).__name__.lower()
        kept: dict[str, list[Bind] | list[Search] | list[Extended]] = {
            "bind": self.binds,
            "search": self.searches,
            "extended": self.extended,
        }
        kept[kind].append(asked)  # type: ignore[arg-type]
        if kind in self.silent:
            return
        if self.drips:
            line.sendall(b"\x30\x84\x00\x0f\xff\xff")
            while self._goes_on():
                line.sendall(b"\x00")
            return
        line.sendall(self.instead if self.instead is not None else b"".join(self._said(identity, asked)))

    def _said(self, identity: int, asked: Asked) -> Iterable[bytes]:
        if isinstance(asked, Bind):
            answer = self.on_bind(asked)
            yield message(identity, ended(0x61, answer), answer.controls)
        elif isinstance(asked, Extended):
            good = asked.name == START_TLS and self._start_tls is not None
            yield message(identity, ended(0x78, Answer(0 if good else 2, "")))
        else:
            answer = Answer()
            for one in self.on_search(asked):
                if isinstance(one, Answer):
                    answer = one
                else:
                    yield message(identity, found(one))
            yield message(identity, ended(0x65, answer), answer.controls)

    def _judge(self, bind: Bind) -> Answer:
        wanted = self.passwords.get(bind.dn)
        return Answer(0 if wanted is not None and wanted.encode() == bind.password else 49)

    def _find(self, search: Search) -> Found:
        if search.scope == 0:
            return [entry for entry in self.entries if entry.dn == search.base]
        return [entry for entry in self.entries if f"(uid={_named(entry)})" in search.filter]


def _named(entry: Entry) -> str:
    """The `uid` of an entry as it stands in filters."""
    value = entry.attributes["uid"][0]
    return escaped(value.encode() if isinstance(value, str) else value)
