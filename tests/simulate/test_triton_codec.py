"""Tensors survive the way out and in, in every mix of JSON and raw bytes, and nothing else is taken."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.simulate.triton_codec import CODINGS, InferRequest, Malformed, Tensor, Wanted, coding_for, decode, encode

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TENSORS = st.lists(st.lists(FLOATS, max_size=5), min_size=1, max_size=4)
ONE = {"name": "X", "datatype": "FP32", "shape": [2], "data": [1, 2]}


def body_of(values: list[list[float]], binary: list[bool]) -> tuple[bytes, str | None]:
    """A request as tritonclient writes it: `binary` says which inputs go as raw bytes."""
    inputs: list[dict[str, Any]] = []
    raw = b""
    for index, (data, packed) in enumerate(zip(values, binary, strict=True)):
        row: dict[str, Any] = {"name": f"I{index}", "datatype": "FP32", "shape": [len(data)]}
        if packed:
            piece = struct.pack(f"<{len(data)}f", *data)
            raw += piece
            row["parameters"] = {"binary_data_size": len(piece)}
        else:
            row["data"] = data
        inputs.append(row)
    header = json.dumps({"inputs": inputs}).encode()
    return header + raw, str(len(header)) if raw else None


@given(TENSORS, st.data())
def test_inputs_arrive_whether_they_come_as_json_or_as_bytes(values: list[list[float]], data: st.DataObject) -> None:
    binary = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    asked = decode(*body_of(values, binary))
    assert asked.inputs == tuple(Tensor(f"I{index}", (len(value),), tuple(value)) for index, value in enumerate(values))


@given(TENSORS, st.data())
def test_outputs_written_are_inputs_read(values: list[list[float]], data: st.DataObject) -> None:
    tensors = tuple(Tensor(f"T{index}", (len(value),), tuple(value)) for index, value in enumerate(values))
    binary = {tensor.name: data.draw(st.booleans()) for tensor in tensors}
    encoded = encode({"model_name": "m"}, tensors, Wanted(None, binary, binary_default=False))
    length = len(encoded.body) if encoded.header_length is None else encoded.header_length
    header = json.loads(encoded.body[:length])
    assert header["model_name"] == "m"
    again = json.dumps({"inputs": header["outputs"]}).encode()
    assert decode(again + encoded.body[length:], str(len(again))).inputs == tensors


@given(st.binary(max_size=60), st.none() | st.text(max_size=6) | st.integers(0, 70).map(str))
def test_any_bytes_are_a_request_or_malformed(body: bytes, length: str | None) -> None:
    try:
        asked = decode(body, length)
    except Malformed:
        return
    assert isinstance(asked, InferRequest)


LEAVES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.sampled_from(["X", "FP32", "INT8"])
NAMES = st.sampled_from(["name", "datatype", "shape", "data", "parameters", "binary_data_size", "inputs", "outputs"])


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6)))
def test_any_json_is_a_request_or_malformed(value: object) -> None:
    for body in (
        value,
        {"inputs": value},
        {"inputs": [value]},
        {"inputs": [ONE], "outputs": value, "parameters": value},
    ):
        try:
            decode(json.dumps(body).encode(), None)
        except Malformed:
            continue


def test_a_request_cut_anywhere_is_malformed() -> None:
    body, length = body_of([[1.0, 2.0], [3.0]], [True, True])
    for end in range(len(body)):
        with pytest.raises(Malformed):
            decode(body[:end], length)
    with pytest.raises(Malformed, match="additional"):
        decode(body + b"\0", length)


def test_nested_lists_are_read_row_by_row() -> None:
    row = {"name": "X", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2], [3, 4]]}
    assert decode(json.dumps({"inputs": [row]}).encode(), None).inputs[0].data == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"datatype": "INT8"}, {"shape": [3]}, {"shape": [-1]}, {"shape": "2"}, {"data": [1, "x"]}, {"data": [1, True]},
        {"data": 1}, {"data": [1e39, 0]}, {"name": 1}, {"parameters": {"binary_data_size": 8}},
        {"parameters": {"binary_data_size": -4}}, {"parameters": {"binary_data_size": "8"}}, {"parameters": []},
    ],
)  # fmt: skip
def test_an_input_that_does_not_fit_its_own_words_is_malformed(changed: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode(json.dumps({"inputs": [{**ONE, **changed}]}).encode(), None)


@pytest.mark.parametrize("length", ["-1", "+5", "5x", "", "99999", "0" * 5000, "٥"])
def test_a_header_length_that_is_no_length_is_malformed(length: str) -> None:
    with pytest.raises(Malformed):
        decode(json.dumps({"inputs": [ONE]}).encode(), length)


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("", None), ("identity", None), ("gzip", "gzip"), ("deflate", "deflate"), ("gzip, deflate", "gzip"),
        ("gzip;q=0.1, deflate;q=0.9", "deflate"), ("gzip;q=0", None), ("br", None), ("*", "gzip"), ("*;q=0", None),
        ("GZIP", "gzip"), ("gzip;q=x", None), ("gzip;q=nan", None),
    ],
)  # fmt: skip
def test_the_coding_is_one_that_the_client_takes(accept: str, coding: str | None) -> None:
    assert coding_for(accept) == coding


@given(st.text(max_size=30))
def test_any_accept_encoding_has_an_answer(accept: str) -> None:
    assert coding_for(accept) in (None, *CODINGS)


def test_the_codings_are_what_their_names_say() -> None:
    assert gzip.decompress(CODINGS["gzip"](b"text")) == b"text"
    assert zlib.decompress(CODINGS["deflate"](b"text")) == b"text"
