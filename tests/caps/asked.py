"""Calls for the tests of limits, held against terms without sockets.

Knows: the pieces that `Meeting` is given. Must not know: limits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway import seams, settings
from gateway.call import Fields, Grant, ModelRef, Operation, Principal
from gateway.caps.meeting import Meeting
from gateway.drive import Drive
from gateway.exchange import Exchange
from gateway.pools.backends import Pool, build_pools
from gateway.resolve import jsonbody
from gateway.seams import Interface, Resolved, UsageKind
from gateway.settings import Pool as PoolSettings
from gateway.terms import Terms
from tests.path.fakes import CALL, FakeBody, Recorder, but

ALICE = Principal("alice", "https://idp.test", "corp", frozenset({"ds"}), "app")
MODEL = ModelRef("small", Operation.INFER)
LIMIT = 100_000


def pool(**more: Any) -> Pool:
    wanted = PoolSettings("p", ("openai",), (settings.Model("small"),), (settings.BackendAddress("http://10.0.0.1:1"),))
    changed = settings.Pool(**{name: getattr(wanted, name) for name in PoolSettings.__slots__} | more)
    (built,) = build_pools((changed,), None, lambda _: AssertionError)  # type: ignore[arg-type, return-value]  # no TLS here
    return built


class Body(FakeBody):
    """A body that is there; `announced` False: chunked."""

    def __init__(self, content: bytes, *, announced: bool = True) -> None:
        super().__init__(length=len(content) if announced else None, received=len(content))
        self.content = content

    async def whole(self, limit: int) -> bytes:
        return self.content


class Met:
    """What became of a call: what would be sent, what the caller and the log are told."""

    def __init__(self, met: seams.Met) -> None:
        self.resolved = met.resolved
        self.payload = met.resolved.payload
        self.told = [f"tell x-gateway-clamped: {', '.join(met.changed)}"] if met.changed else []
        self.rule = met.rule
        self.changed = met.changed

    @property
    def says(self) -> Any:
        """The body that would be sent, read by another parser."""
        return json.loads(self.payload or b"")


def meet(
    body: Mapping[str, Any] | bytes,
    *terms: Terms,
    interface: Interface = Interface.CHAT,
    unread: bool = False,
    bodiless: bool = False,
    fields: Fields = (),
    announced: bool = True,
    by: Pool | None = None,
    groups_used: tuple[str, ...] = (),
    principal: Principal = ALICE,
) -> Met:
    """Hold a call against terms, by rules r0, r1, … Raises what the caller would be refused with."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    form = interface in {Interface.FORM, Interface.PICTURE_FORM}
    parsed = None if unread or form or bodiless else jsonbody.peek(content).fields
    payload = None if unread else content
    asked = Resolved((MODEL,), by or pool(), b"/x", payload, LIMIT, UsageKind.NONE, parsed, interface)
    named = tuple((f"r{number}", each) for number, each in enumerate(terms))
    grant = Grant(principal, MODEL, "r0", "p.yaml:1", groups_used, named)
    exchange = Exchange(but(CALL, fields=fields), Body(content, announced=announced), Recorder())
    meeting, found = Meeting(), list[seams.Met | Exception]()

    async def path() -> None:
        try:
            opened = asked if payload is not None else await meeting.opened(asked, (grant,), exchange)
            found.append(meeting.held(opened, (grant,), exchange))
        except Exception as refusal:  # noqa: BLE001  raised again below, where it can be seen
            found.append(refusal)

    Drive(path()).step()
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return Met(result)
