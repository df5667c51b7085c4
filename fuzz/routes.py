"""Routes, paths and bodies: whatever a backend makes of what it gets, it runs the model that had to be granted.

An input is a line with method and target, a line with the media type, and a body.
"""

from __future__ import annotations

import json
import re
from posixpath import normpath
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus

from fuzz.material import Untold, finished
from fuzz.references.forms import BOUNDARY, FORMS, MULTIPART, URLENCODED
from fuzz.references.messages import Refused
from gateway.call import Call, ModelRef, Operation, Principal
from gateway.errors import Refusal
from gateway.seams import Choice, OwnAnswer, Resolved
from tests.resolve.asking import ALICE, HOLDING, SITE, Sent, call, resolver

SENT = {model.name: model.backend_name or model.name for pool in SITE for model in pool.models}
SEEN = {"small", "tiny"}  # a model that Alice may see, and its alias
NAMING = {"model", "model_name", "model_id", "lora_path", "lora_name"}
IN_PATH = re.compile(
    r"/v2/(?:models|repository/models)/([^/]+)(?:/versions/([^/]+))?|/v1/models/(.+)/(?:load|unload)|/v1/(page-elements)"
)


def may(_: Principal, model: ModelRef, _holding: int) -> bool:
    """One model may be looked at, and nothing else done."""
    return model.name == "small" and model.operation in {Operation.LIST, Operation.METADATA}


RESOLVER = resolver(may=may)


def asked(data: bytes) -> tuple[Call, bytes]:
    """The call and its body. `form` for a media type: multipart with the boundary of the harness."""
    line, _, rest = data.partition(b"\n")
    media, _, body = rest.partition(b"\n")
    method, _, target = line.decode("latin-1").partition(" ")
    path, mark, query = target.partition("?")
    kind = MULTIPART.encode() if media == b"form" else media
    return call("/" + path.removeprefix("/"), method, query if mark else None, ((b"content-type", kind),)), body


def check(data: bytes) -> None:
    """Raises `AssertionError` for a difference that is not allowed."""
    what, body = asked(data)
    RESOLVER.dialect(what.path)
    if (probe := RESOLVER.open(what)) is not None:
        _check_closed(probe)
        return
    try:
        found = finished(RESOLVER.resolve(what, Sent(body)))
        assert not isinstance(found, Choice)  # no models share a name here
        if not isinstance(found, Resolved):
            _check_closed(found.answer(ALICE, HOLDING))
            return
    except Refusal as refusal:
        assert 400 <= refusal.status < 500, refusal
        return
    if found.wrong is not None:  # said to who may use the model; of such a call nothing can be sent
        assert 400 <= found.wrong.status < 500, found.wrong
        assert (found.target, found.payload) == (b"", b"")
        return
    _check_sent(found, what)
    again = finished(RESOLVER.resolve(what, Sent(body)))  # the same head, looked at before
    assert isinstance(again, Resolved)
    assert (again.needs, again.target, again.payload) == (found.needs, found.target, found.payload)
    assert (again.pool, again.limit, again.usage) == (found.pool, found.limit, found.usage)


def _check_closed(page: OwnAnswer) -> None:
    """A page of the gateway names no model that may not be seen."""
    told = {
        word.decode() for word in re.findall(rb'"id":"([^"]*)"|"name":"([^"]*)"', page.body) for word in word if word
    }
    assert not (set(SENT) | {"r50", "ens_v2", "engine/inner"}) - SEEN & told


def _check_sent(found: Resolved, what: Call) -> None:
    names = {need.name for need in found.needs}
    assert names
    assert names <= {model.name for model in found.pool.settings.models}
    target = found.target.decode("ascii")
    assert re.fullmatch(r"/[!-~]*", target), target
    path, _, query = target.partition("?")
    _check_path(path, found)
    wanted = {SENT[name] for name in names}
    runs = _by_query(query) | _by_path(path)
    if found.payload is not None:
        naming = {"voice"} if "synth" in path else NAMING
        runs |= _by_body(found.payload, dict(what.fields)[b"content-type"], naming)
    if not {_plain(run) for run in runs} <= wanted:
        raise Untold(f"a backend runs {runs}, granted are {wanted}")


def _plain(name: object) -> str:
    """An embedding model and its two uses are one."""
    return re.sub("-(query|passage)$", "", str(name))


def _check_path(path: str, found: Resolved) -> None:
    """It is the same path to who decodes, squeezes or follows dots in it, and has the version that was checked."""
    if not path.startswith("/v1/models/"):
        assert unquote(path) == path
    assert normpath(unquote(path)) == unquote(path).rstrip("/") or path == "/", path
    match = IN_PATH.match(path)
    if match is not None and match[2] is not None and not path.startswith("/seeing"):
        assert {need.version for need in found.needs} == {match[2]}, path


def _by_path(path: str) -> set[object]:
    match = IN_PATH.match(unquote(path))
    return {name for name in (match[1], match[3], match[4]) if name} - {"index"} if match else set()


def _by_query(query: str) -> set[object]:
    pairs = [*parse_qsl(query, keep_blank_values=True), *parse_qsl(query, keep_blank_values=True, separator=";")]
    raw = [pair.partition("=") for pair in re.split("[&;]", query)]
    pairs += [(unquote_plus(name), unquote_plus(value)) for name, _, value in raw]
    # What is cut at one of two separators ends at the other one too.
    return {value.partition(";")[0].partition("&")[0] for name, value in pairs if name in NAMING}


def _by_body(payload: bytes, media: bytes, naming: set[str]) -> set[object]:
    kind = media.split(b";")[0].strip().lower()
    if kind.startswith(b"application/") and kind.endswith(b"json") and payload:
        return _by_json(payload)
    for form in (MULTIPART, URLENCODED):
        if kind == form.partition(";")[0].encode() and (form == URLENCODED or BOUNDARY.encode() in media):
            return _by_form(payload, form, naming)
    return set()


def _by_json(payload: bytes) -> set[object]:
    try:
        last = json.loads(payload)
    except ValueError:
        return set()  # of a path that names the model, where nobody reads the body
    first = json.loads(payload, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    tops: list[dict[str, Any]] = [top for top in (last, first) if isinstance(top, dict)]
    return {top[name] for top in tops for name in NAMING if isinstance(top.get(name), str)}


def _by_form(payload: bytes, form: str, naming: set[str]) -> set[object]:
    found: set[object] = set()
    for parse in FORMS[form].values():
        try:
            fields = parse(payload)
        except Refused:
            continue
        given = [value.decode() for name, value in fields if name.decode("latin-1") in naming]
        found |= {value.partition(".")[0] if "voice" in naming else value for value in given}
    return found
