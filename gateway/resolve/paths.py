"""The one form of a path in which it is both checked and sent on, and what a query may say about the model.

Knows: RFC 3986 section 3.3, RFC 9112 section 3.2, how backends differ in reading odd paths.
Must not know: rules, pools, HTTP framing.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from gateway.errors import AmbiguousModel, BadRequest, NotFound

#: Bytes of path and query together; far above what any served route needs, and it bounds every match below.
MAX_TARGET = 2048

#: The only paths in which `%2F` stands for a slash inside a model name.
MODELS = "/v1/models/"

# pchar of RFC 3986 without `;`, in segments that are not empty and not dots; a last empty segment is merely unknown.
_PLAIN = re.compile(r"/|(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~!$&'()*+,=:@-]+)+/?")
_CHARACTERS = re.compile(r"/[A-Za-z0-9._~!$&'()*+,=:@/%-]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")
_QUERY = re.compile(r"[!-\"$-~]*")

# Encoded controls, dot and backslash: some backends decode them before they split the path.
_FORBIDDEN = frozenset(f"{byte:02x}" for byte in (*range(0x20), 0x2E, 0x5C, 0x7F))

#: Where else than in `model` some engine takes a model or an adapter: parameters of a query, members of a body, fields
#: of a form.
NAMING = ("lora_name", "lora_path", "lora_request", "model_id", "model_name")

_NAMING_IN_QUERY = frozenset({"model", *NAMING})


def check(path: str, query: str | None) -> None:
    """Refuse a target that two servers could read in two ways.

    `path` is what stands behind a pool's prefix. Raises `BadRequest`; `NotFound` for an escape that means nothing here.
    """
    if len(path) + len(query or "") > MAX_TARGET:
        raise BadRequest(f"The request target is longer than {MAX_TARGET} bytes.")
    if query and _QUERY.fullmatch(query) is None:
        raise BadRequest("The query holds a byte that is not allowed in a URL; percent-encode it.")
    if not plain(path):
        _explain(path)


def plain(path: str) -> bool:
    """Whether every server reads this path in the same way: no escapes, no dots or nothing as a segment."""
    return _PLAIN.fullmatch(path) is not None


def model_id(path: str) -> str:
    """The model that `/v1/models/{id}` names, percent-decoded once. Raises `BadRequest` for dot segments in it."""
    name = unquote(path.removeprefix(MODELS), "latin-1")
    if not {".", ".."}.isdisjoint(name.split("/")) or "//" in name:
        raise BadRequest("The path holds an empty or a dot segment.")
    return name


def agree(query: str | None, names: frozenset[str]) -> None:
    """A query that names a model has to name the one that will run. Raises `AmbiguousModel`."""
    if not query:
        return
    for pair in re.split("[&;]", query):  # some servers still split at `;`
        key, _, value = pair.partition("=")
        if unquote_plus(key).casefold() in _NAMING_IN_QUERY and unquote_plus(value) not in names:
            raise AmbiguousModel("The query names another model than the request; name the model once.", param="model")


def _explain(path: str) -> None:
    """Say what is wrong with a path that is not plain; returns for one that has escapes where they are allowed."""
    if _CHARACTERS.fullmatch(path) is None:
        raise BadRequest("The path holds a byte that is not allowed here; percent-encode it.")
    if "//" in path or not {".", ".."}.isdisjoint(path.split("/")):
        raise BadRequest("The path holds an empty or a dot segment.")
    escapes = [found.group(1) for found in _ESCAPE.finditer(path)]
    for escape in escapes:
        if escape is None:
            raise BadRequest("A '%' in the path is not followed by two hexadecimal digits.")
        if escape.lower() in _FORBIDDEN:
            raise BadRequest("The path holds an encoded control byte, dot or backslash.")
        if escape.lower() == "2f" and not path.startswith(MODELS):
            raise BadRequest("An encoded slash is taken only in a model name under /v1/models/.")
    if escapes and not path.startswith(MODELS):
        raise NotFound
