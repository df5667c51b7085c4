"""The models of a simulated Triton: what goes in, what comes out, what is said about them.

Knows: tensors. Must not know: HTTP, encodings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.simulate.triton_codec import Malformed, Tensor

Compute = Callable[[Mapping[str, Tensor]], tuple[Tensor, ...]]
Ports = tuple[tuple[str, str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class TritonModel:
    """`inputs` and `outputs` are (name, data type, shape), -1: any size. `compute` None: text, decoupled."""

    name: str
    inputs: Ports
    outputs: Ports
    compute: Compute | None
    version: str = "1"

    @property
    def decoupled(self) -> bool:
        """Whether the model may answer more than once, so that `infer` is not for it."""
        return self.compute is None

    def metadata(self) -> dict[str, Any]:
        """As `GET /v2/models/{name}` answers."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": "python",
            "inputs": [_port(port) for port in self.inputs],
            "outputs": [_port(port) for port in self.outputs],
        }

    def config(self) -> dict[str, Any]:
        """As `GET /v2/models/{name}/config` answers."""
        return {
            "name": self.name,
            "platform": "",
            "backend": "python",
            "max_batch_size": 0,
            "version_policy": {"latest": {"num_versions": 1}},
            "input": [_config_port(port) for port in self.inputs],
            "output": [_config_port(port) for port in self.outputs],
            "instance_group": [{"name": f"{self.name}_0", "kind": "KIND_CPU", "count": 1, "gpus": []}],
            "model_transaction_policy": {"decoupled": self.decoupled},
        }


def run(model: TritonModel, compute: Compute, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Compute. Raises `Malformed` when the inputs are not the model's."""
    given = {tensor.name: tensor for tensor in inputs}
    if len(given) != len(inputs) or len(inputs) != len(model.inputs):
        raise Malformed(f"expected {len(model.inputs)} inputs but got {len(inputs)} inputs for model '{model.name}'")
    for name, _, shape in model.inputs:
        if name not in given:
            raise Malformed(f"input '{name}' is missing for model '{model.name}'")
        if not _fits(given[name].shape, shape):
            told = f"Expected {list(shape)}, got {list(given[name].shape)}"
            raise Malformed(f"unexpected shape for input '{name}' for model '{model.name}'. {told}")
    return compute(given)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(shape) == len(wanted) and all(size in (has, -1) for has, size in zip(shape, wanted, strict=True))


def _add_and_subtract(given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    a, b = given["A"], given["B"]
    pairs = list(zip(a.data, b.data, strict=True))
    return (
        Tensor("SUM", a.shape, tuple(_rounded(left + right) for left, right in pairs)),
        Tensor("DIFF", a.shape, tuple(_rounded(left - right) for left, right in pairs)),
    )


def _echo(given: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    return (Tensor("Y", given["X"].shape, given["X"].data),)


def _rounded(value: float) -> float:
    """To 32 bits; a sum that does not fit is infinite, as in hardware."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _port(port: tuple[str, str, tuple[int, ...]]) -> dict[str, Any]:
    return {"name": port[0], "datatype": port[1], "shape": list(port[2])}


def _config_port(port: tuple[str, str, tuple[int, ...]]) -> dict[str, Any]:
    kind = "TYPE_STRING" if port[1] == "BYTES" else f"TYPE_{port[1]}"
    return {"name": port[0], "data_type": kind, "dims": list(port[2])}


_FOUR = (4,)
MODELS: dict[str, TritonModel] = {
    model.name: model
    for model in (
        TritonModel(
            "addsub",
            (("A", "FP32", _FOUR), ("B", "FP32", _FOUR)),
            (("SUM", "FP32", _FOUR), ("DIFF", "FP32", _FOUR)),
            _add_and_subtract,
        ),
        TritonModel("echo", (("X", "FP32", (-1,)),), (("Y", "FP32", (-1,)),), _echo),
        TritonModel("text", (("text_input", "BYTES", (1,)),), (("text_output", "BYTES", (1,)),), None),
    )
}
