"""What every inference call to a simulated NIM goes through: its body, its model, its turn to fail, its place.

Knows: aiohttp requests, the knobs, how errors are spelled. Must not know: what is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel

import gateway.simulate.nim_bodies as bodies
import gateway.simulate.nim_shapes as shapes
import gateway.simulate.web as sim_web
from gateway.simulate.knobs import Failure
from gateway.simulate.load import Load, QueueFull

Taken = TypeVar("Taken", bound=BaseModel)

#: What a busy server asks its callers to wait, in seconds.
RETRY_AFTER = "1"


class Refused(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A call that ends in an error answer of this status."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = shapes.error(status, message, kind, param)


@dataclass(frozen=True, slots=True)
class Served:
    """One simulated NIM. `clock` gives UNIX time in seconds; `next_id` numbers the answers."""

    name: str
    models: tuple[str, ...]
    load: Load
    clock: Callable[[], float]
    next_id: Callable[[], int]

    def model_of(self, wanted: str | None) -> str:
        """The model a call means: the first one where it names none. Raises `Refused` 404."""
        if wanted is None:
            return self.models[0]
        if wanted not in self.models:
            raise Refused(404, f"The model `{wanted}` does not exist.", "NotFoundError", "model")
        return wanted


async def body_of(request: web.Request, kind: type[Taken], invalid: int) -> Taken:
    """The body as `kind`. Raises `Refused`: 400 for what is no JSON, `invalid` for JSON that does not fit."""
    if request.content_type != "application/json":
        raise Refused(400, "Unsupported Media Type: Only 'application/json' is allowed", "BadRequestError")
    try:
        parsed = await sim_web.json_of(request)
    except ValueError as error:
        raise Refused(400, f"The body is not valid JSON: {error}", "BadRequestError") from None
    try:
        return bodies.read(kind, parsed)
    except bodies.Invalid as error:
        raise Refused(invalid, error.message, "BadRequestError", error.param) from None


def failing(load: Load) -> Failure | None:
    """How this call shall fail, or None. Raises `Refused` for the failures that are plain answers."""
    if not load.arrived_to_fail():
        return None
    failure = load.knobs.failure
    if failure is Failure.ERROR:
        raise Refused(500, "The simulated engine failed.", "InternalServerError")
    if failure is Failure.BUSY:
        raise Refused(503, "The simulated engine takes no more requests.", "Service Unavailable")
    return failure


async def answer(request: web.Request, failure: Failure | None, body: shapes.Json) -> web.StreamResponse:
    """Answer with `body`, or break off where `failure` says so."""
    if failure is Failure.RESET:
        return sim_web.reset(request)
    content = orjson.dumps(body)
    if failure is Failure.CUT:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(content))})
        return await sim_web.cut(request, response, content[: len(content) // 2])
    return web.Response(body=content, content_type="application/json")


@web.middleware
async def errors(request: web.Request, handler: sim_web.Handler) -> web.StreamResponse:
    """Every error as a NIM says it."""
    try:
        return await handler(request)
    except Refused as refused:
        headers = {"Retry-After": RETRY_AFTER} if refused.status == 503 else {}
        return web.json_response(refused.body, status=refused.status, headers=headers)
    except QueueFull:
        full = shapes.error(503, "The queue is full.", "Service Unavailable")
        return web.json_response(full, status=503)
    except web.HTTPException as error:  # no such route, wrong method, body too large: the web framework's own words
        headers = {name: value for name, value in error.headers.items() if name == "Allow"}
        return web.json_response({"detail": error.reason}, status=error.status, headers=headers)
