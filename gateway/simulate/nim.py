"""A simulated NIM: its routes, its management pages, its options.

Knows: which page is where. Must not know: how answers are made.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

import gateway.simulate.knobs as knobs_module
import gateway.simulate.nim_calls as sim_calls
import gateway.simulate.nim_generate as generate_pages
import gateway.simulate.nim_retrieve as retrieve_pages
import gateway.simulate.web as sim_web
from gateway.simulate.load import Load
from gateway.simulate.nim_calls import Served

MODELS = (
    "meta/llama-3.1-8b-instruct",
    "nvidia/llama-3.2-nv-embedqa-1b-v2",
    "nvidia/llama-3.2-nv-rerankqa-1b-v2",
)
RELEASE = "2.0.0-simulated"
#: Where the key-value cache of the simulated engine is full, in running calls, when concurrency is not limited.
CACHE_PLACES = 256

Page = Callable[[Served, web.Request], Awaitable[web.StreamResponse]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this part beside those that all parts have."""
    parser.add_argument("--name", default="nim", help="told in system_fingerprint of each answer (default: nim)")
    parser.add_argument("--model", action="append", metavar="NAME", help="a model to serve; may be repeated")
    knobs_module.add_arguments(parser)


def builder(args: argparse.Namespace) -> sim_web.Build:
    """What builds the application once its address is known. Raises ValueError for a knob out of bounds."""
    knobs = knobs_module.from_arguments(args)
    models = tuple(args.model or MODELS)
    return lambda _: build(args.name, models, Load(knobs), over_http=args.knobs)


def build(
    name: str,
    models: tuple[str, ...],
    load: Load,
    *,
    over_http: bool = False,
    clock: Callable[[], float] = time.time,
) -> web.Application:
    """A NIM that serves `models`; `over_http` lets whoever reaches it turn its knobs."""
    served = Served(name, models, load, clock, itertools.count(1).__next__)
    app = web.Application(middlewares=[sim_calls.errors], client_max_size=sim_web.MAX_BODY)
    for method, path, page in ROUTES:
        app.router.add_route(method, path, partial(page, served))
    if over_http:
        sim_web.add_knobs(app, load)
    return app


async def live(_: Served, _request: web.Request) -> web.Response:
    """The process runs."""
    return web.json_response({"object": "health.response", "message": "Service is live."})


async def ready(served: Served, _request: web.Request) -> web.Response:
    """Inference works, or 503."""
    if served.load.knobs.ready:
        return web.json_response({"object": "health.response", "message": "Service is ready."})
    raise sim_calls.Refused(503, "Service is not ready.", "Service Unavailable")


async def models(served: Served, _request: web.Request) -> web.Response:
    """The models, with a path on disk as the real ones leak it."""
    data = [
        {
            "id": name,
            "object": "model",
            "created": int(served.clock()),
            "owned_by": "vllm",
            "root": f"/opt/nim/models/{name}",
            "parent": None,
            "max_model_len": 131072,
        }
        for name in served.models
    ]
    return web.json_response({"object": "list", "data": data})


async def version(_: Served, _request: web.Request) -> web.Response:
    """Which release this pretends to be."""
    return web.json_response({"release": RELEASE, "api": "2.0.0"})


async def metadata(served: Served, _request: web.Request) -> web.Response:
    """What is deployed."""
    info = [{"shortName": name.rpartition("/")[2], "modelUrl": f"ngc://nim/{name}:simulated"} for name in served.models]
    return web.json_response(
        {
            "version": RELEASE,
            "modelInfo": info,
            "licenseInfo": {"name": "Apache-2.0", "path": "/opt/nim/LICENSE", "content": ""},
            "assetInfo": [],
            "repository_override": "",
            "selectedModelProfileId": "simulated",
        }
    )


async def metrics(served: Served, _request: web.Request) -> web.Response:
    """Prometheus text under the names of the vLLM engine."""
    load = served.load
    places = load.knobs.max_concurrency or CACHE_PLACES
    rows = (
        ("num_requests_running", "gauge", load.running),
        ("num_requests_waiting", "gauge", load.waiting),
        ("kv_cache_usage_perc", "gauge", min(1.0, load.running / places)),
        ("prompt_tokens_total", "counter", load.prompt_tokens),
        ("generation_tokens_total", "counter", load.generation_tokens),
        ("request_success_total", "counter", load.succeeded),
        ("request_cancelled_total", "counter", load.cancelled),
    )
    label = f'{{engine="0",model_name="{served.models[0]}"}}'
    lines = [f"# TYPE vllm:{name} {kind}\nvllm:{name}{label} {value}\n" for name, kind, value in rows]
    return web.Response(text="".join(lines), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


ROUTES: tuple[tuple[str, str, Page], ...] = (
    ("POST", "/v1/chat/completions", generate_pages.chat),
    ("POST", "/v1/completions", generate_pages.completion),
    ("POST", "/v1/embeddings", retrieve_pages.embeddings),
    ("POST", "/v1/ranking", retrieve_pages.ranking),
    ("GET", "/v1/models", models),
    ("GET", "/v1/health/live", live),
    ("GET", "/v1/health/ready", ready),
    ("GET", "/v1/metadata", metadata),
    ("GET", "/v1/version", version),
    ("GET", "/v1/metrics", metrics),
)
