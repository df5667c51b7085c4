"""A simulated Triton: the KServe v2 routes over HTTP, as tritonclient speaks them.

Knows: routes, status codes, Triton's way to say errors. Must not know: how tensors are encoded or computed.
Source: Triton's `http_server.cc` and protocol extensions.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

import gateway.simulate.knobs as knobs_module
import gateway.simulate.triton_infer as infer_pages
import gateway.simulate.web as sim_web
from gateway.simulate.load import Load, QueueFull
from gateway.simulate.triton_codec import Malformed
from gateway.simulate.triton_infer import Failed, Served
from gateway.simulate.triton_models import MODELS, TritonModel

EXTENSIONS = ("classification", "sequence", "model_repository", "schedule_policy", "model_configuration",
              "binary_tensor_data", "parameters", "statistics", "trace", "logging")  # fmt: skip
VERSION = "2.51.0"

Page = Callable[[Served, web.Request], Awaitable[web.StreamResponse]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part beside those that all parts have."""
    knobs_module.add_arguments(parser)


def builder(args: argparse.Namespace) -> sim_web.Build:
    """What builds the application once its address is known. Raises ValueError for a knob out of bounds."""
    knobs = knobs_module.from_arguments(args)
    return lambda _: build(Load(knobs), over_http=args.knobs)


def build(load: Load, *, over_http: bool = False) -> web.Application:
    """A Triton with the models of `triton_models`; `over_http` lets whoever reaches it turn its knobs."""
    served = Served(load, dict.fromkeys(MODELS, 0))
    app = web.Application(middlewares=[errors], client_max_size=sim_web.MAX_BODY)
    for method, path, page in ROUTES:
        app.router.add_route(method, path, partial(page, served))
    if over_http:
        sim_web.add_knobs(app, load)
    return app


@web.middleware
async def errors(request: web.Request, handler: sim_web.Handler) -> web.StreamResponse:
    """Every error as Triton says it: one string."""
    try:
        return await handler(request)
    except Failed as failed:
        return _error(failed.status, str(failed))
    except Malformed as malformed:
        return _error(400, str(malformed))
    except QueueFull:
        return _error(503, "Exceeds maximum queue size")
    except web.HTTPRequestEntityTooLarge:
        return _error(400, "request body is larger than the maximum allowed")
    except web.HTTPException as error:
        return _error(error.status, error.reason)


async def live(_: Served, _request: web.Request) -> web.Response:
    """The process runs."""
    return web.Response()


async def ready(served: Served, _request: web.Request) -> web.Response:
    """All models are loaded, or 400: Triton has no 503 here."""
    return web.Response(status=200 if served.load.knobs.ready else 400)


async def server(_: Served, _request: web.Request) -> web.Response:
    """Who answers."""
    return web.json_response({"name": "triton", "version": VERSION, "extensions": list(EXTENSIONS)})


async def metadata(_: Served, request: web.Request) -> web.Response:
    """Inputs and outputs of a model."""
    return web.json_response(infer_pages.model_of(request).metadata())


async def model_ready(served: Served, request: web.Request) -> web.Response:
    """Whether one model takes calls."""
    infer_pages.model_of(request)
    return await ready(served, request)


async def config(_: Served, request: web.Request) -> web.Response:
    """The configuration of a model."""
    return web.json_response(infer_pages.model_of(request).config())


async def statistics(served: Served, request: web.Request) -> web.Response:
    """Counts of one model, or of all."""
    chosen = [infer_pages.model_of(request)] if "model" in request.match_info else list(MODELS.values())
    return web.json_response({"model_stats": [_statistics(served, model) for model in chosen]})


async def index(_: Served, _request: web.Request) -> web.Response:
    """The models of the repository."""
    rows = [{"name": model.name, "version": model.version, "state": "READY"} for model in MODELS.values()]
    return web.json_response(rows)


def _statistics(served: Served, model: TritonModel) -> dict[str, object]:
    count = served.inferences[model.name]
    duration = {"count": count, "ns": count * 1_000_000}
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": 0,
        "inference_count": count,
        "execution_count": count,
        "inference_stats": {"success": duration, "fail": {"count": 0, "ns": 0}, "queue": duration},
        "batch_stats": [],
    }


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


_MODEL = "/v2/models/{model:[^/]+}"
_VERSION = _MODEL + "/versions/{version:[0-9]+}"
_OF_A_MODEL: tuple[tuple[str, str, Page], ...] = (
    ("GET", "", metadata),
    ("GET", "/ready", model_ready),
    ("GET", "/config", config),
    ("GET", "/stats", statistics),
    ("POST", "/infer", infer_pages.infer),
    ("POST", "/generate", infer_pages.generate),
    ("POST", "/generate_stream", infer_pages.generate_stream),
)
ROUTES: tuple[tuple[str, str, Page], ...] = (
    ("GET", "/v2", server),
    ("GET", "/v2/health/live", live),
    ("GET", "/v2/health/ready", ready),
    ("GET", "/v2/models/stats", statistics),
    ("POST", "/v2/repository/index", index),
    *((method, start + end, page) for start in (_MODEL, _VERSION) for method, end, page in _OF_A_MODEL),
)
