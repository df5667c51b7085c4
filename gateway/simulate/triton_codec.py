"""Tensors on the wire: KServe v2 JSON, and the binary extension that puts raw bytes behind it.

Knows: the two encodings, 32 bit floats. Must not know: HTTP routes, models.
Sources: the KServe v2 inference protocol; Triton's `extension_binary_data.md`.
"""

from __future__ import annotations

import gzip
import json
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Bytes of one element. The simulated models compute with FP32 only.
SIZES = {"FP32": 4}
#: Digits of a length that could be meant.
LONGEST_LENGTH = 20
#: Content codings of an answer, in order of preference.
CODINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


class Malformed(Exception):  # noqa: N818  named for what happened, as the refusals are
    """A body that is not taken, with Triton's kind of words."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """`data` is row-major."""

    name: str
    shape: tuple[int, ...]
    data: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which outputs go back (None: all of them) and how; `binary` names those that go as raw bytes."""

    names: tuple[str, ...] | None
    binary: dict[str, bool]
    binary_default: bool

    def is_binary(self, name: str) -> bool:
        """Whether the output `name` goes back as raw bytes."""
        return self.binary.get(name, self.binary_default)


@dataclass(frozen=True, slots=True)
class InferRequest:
    id: str
    inputs: tuple[Tensor, ...]
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Encoded:
    """A body; `header_length` is the size of its JSON part in bytes, None when nothing is behind it."""

    body: bytes
    header_length: int | None


def decode(body: bytes, header_length: str | None) -> InferRequest:
    """Read an inference request; `header_length` is the value of `Inference-Header-Content-Length`.

    Raises `Malformed`.
    """
    length = len(body) if header_length is None else _header_length(header_length, len(body))
    header = parsed(body[:length])
    inputs = header.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise Malformed("Unable to find 'inputs' in the request")
    raw, tensors = memoryview(body)[length:], []
    for entry in inputs:
        tensor, used = _input(entry, raw)
        tensors.append(tensor)
        raw = raw[used:]
    if len(raw):
        raise Malformed(f"unexpected additional input data of {len(raw)} bytes behind the last binary input")
    request_id = header.get("id", "")
    return InferRequest(str(request_id), tuple(tensors), _wanted(header))


def encode(head: dict[str, Any], outputs: tuple[Tensor, ...], wanted: Wanted) -> Encoded:
    """Write an answer: `head` and the outputs that were asked for. Raises `Malformed` for one that does not exist."""
    rows, raw = [], []
    for tensor in _chosen(outputs, wanted):
        row: dict[str, Any] = {"name": tensor.name, "datatype": "FP32", "shape": list(tensor.shape)}
        if wanted.is_binary(tensor.name):
            piece = struct.pack(f"<{len(tensor.data)}f", *tensor.data)
            row["parameters"] = {"binary_data_size": len(piece)}
            raw.append(piece)
        else:
            row["data"] = list(tensor.data)
        rows.append(row)
    header = json.dumps({**head, "outputs": rows}, separators=(",", ":")).encode()
    return Encoded(b"".join((header, *raw)), len(header) if raw else None)


def parsed(body: bytes) -> dict[str, Any]:
    """A JSON object. Raises `Malformed`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"failed to parse the request JSON buffer: {error}") from None
    if not isinstance(value, dict):
        raise Malformed("failed to parse the request JSON buffer: it is not an object")
    return value


def coding_for(accept: str) -> str | None:
    """The content coding to answer with, by `Accept-Encoding` (RFC 9110 section 12.5.3), or None."""
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, _, parameter = part.partition(";")
        weights[name.strip()] = _weight(parameter)
    usable = [name for name in CODINGS if weights.get(name, weights.get("*", 0.0)) > 0]
    return max(usable, key=lambda name: weights.get(name, 0.0), default=None)


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if math.isfinite(weight) else 0.0


def _header_length(text: str, most: int) -> int:
    if len(text) > LONGEST_LENGTH or not (text.isascii() and text.isdigit()) or int(text) > most:
        raise Malformed(f"Inference-Header-Content-Length {text[:20]!r} does not fit a body of {most} bytes")
    return int(text)


def _input(entry: object, raw: memoryview) -> tuple[Tensor, int]:
    """One input, and how many of the raw bytes are its own."""
    if not isinstance(entry, dict) or not isinstance(name := entry.get("name"), str):
        raise Malformed("each input needs a 'name'")
    datatype = entry.get("datatype")
    if not isinstance(datatype, str) or datatype not in SIZES:
        raise Malformed(f"inference input '{name}' data-type is '{datatype}', but the models here take 'FP32'")
    shape = _shape(name, entry.get("shape"))
    size = _parameters(entry).get("binary_data_size")
    if size is None:
        values = _flat(name, entry.get("data"))
        used = 0
    else:
        values, used = _unpacked(name, size, raw), int(size)
    if len(values) != math.prod(shape):
        raise Malformed(f"unexpected number of elements {len(values)} for input '{name}', expecting {math.prod(shape)}")
    return Tensor(name, shape, values), used


def _shape(name: str, shape: object) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise Malformed(f"input '{name}' needs a 'shape' of whole numbers")
    return tuple(shape)


def _unpacked(name: str, size: object, raw: memoryview) -> tuple[float, ...]:
    if type(size) is not int or not 0 <= size <= len(raw) or size % 4:
        raise Malformed(f"binary_data_size {size!r} of input '{name}' does not fit the {len(raw)} bytes that are left")
    return struct.unpack(f"<{size // 4}f", raw[:size])


def _flat(name: str, data: object) -> tuple[float, ...]:
    """Row-major values of flat or nested lists, without recursion."""
    if not isinstance(data, list):
        raise Malformed(f"input '{name}' needs 'data' or a 'binary_data_size'")
    values: list[float] = []
    stack: list[object] = [data]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            values.append(_float32(name, item))
        else:
            raise Malformed(f"input '{name}' holds something that is not a number")
    return tuple(values)


def _float32(name: str, value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise Malformed(f"input '{name}' holds a number that is too large for FP32") from None


def _wanted(header: dict[str, Any]) -> Wanted:
    default = _parameters(header).get("binary_data_output") is True
    outputs = header.get("outputs")
    if outputs is None:
        return Wanted(None, {}, default)
    if not isinstance(outputs, list) or not all(isinstance(row, dict) and "name" in row for row in outputs):
        raise Malformed("each output needs a 'name'")
    binary = {str(row["name"]): _parameters(row).get("binary_data", default) is True for row in outputs}
    return Wanted(tuple(binary), binary, default)


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Malformed("'parameters' must be an object")
    return parameters


def _chosen(outputs: tuple[Tensor, ...], wanted: Wanted) -> tuple[Tensor, ...]:
    if wanted.names is None:
        return outputs
    by_name = {tensor.name: tensor for tensor in outputs}
    for name in wanted.names:
        if name not in by_name:
            raise Malformed(f"unexpected inference output '{name}'")
    return tuple(by_name[name] for name in wanted.names)
