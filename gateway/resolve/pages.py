"""Bodies of what the gateway answers itself: health, lists of models, what the server is.

Knows: the shapes that clients of each protocol read. Must not know: who may see what, paths, bodies that come in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway import __version__
from gateway.call import Dialect, Principal
from gateway.seams import OwnAnswer

_OWNER = "nim-gateway"


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is made for its caller. `make` may raise a `Refusal`."""

    make: Callable[[Principal, int], OwnAnswer]

    def answer(self, principal: Principal, holding: int) -> OwnAnswer:
        """What this caller gets while these rules hold."""
        return self.make(principal, holding)


def models(ids: Iterable[str]) -> OwnAnswer:
    """OpenAI's list of models."""
    return _page({"object": "list", "data": [_model(each) for each in ids]})


def model(name: str) -> OwnAnswer:
    """OpenAI's entry for one model."""
    return _page(_model(name))


def server() -> OwnAnswer:
    """KServe's server metadata; extensions are the backends' own, so none is promised."""
    return _page({"name": _OWNER, "version": __version__, "extensions": []})


def index(names: Iterable[str]) -> OwnAnswer:
    """KServe's repository index, names only: states differ from backend to backend."""
    return _page([{"name": name} for name in names])


def health(dialect: Dialect, state: str, good: bool) -> OwnAnswer:
    """Health of the gateway itself: 200 or 503, which every client understands; KServe's answer has no body.

    `state` is the word behind `is`, as in "Service is ready."
    """
    status = 200 if good else 503
    if dialect is Dialect.KSERVE:
        return OwnAnswer(status)
    return _page({"object": "health.response", "message": f"Service is {'' if good else 'not '}{state}."}, status)


def _model(name: str) -> dict[str, object]:
    # `created` has to be a number; when a backend loaded the model is not known here.
    return {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}


def _page(content: object, status: int = 200) -> OwnAnswer:
    return OwnAnswer(status, json.dumps(content, separators=(",", ":")).encode())
