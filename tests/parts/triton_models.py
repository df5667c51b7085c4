"""The models of the real Triton, in one file that is laid into each model's folder. Runs inside tritonserver.

addsub: sums and differences. echo: gives its tensor back. repeat: one answer per token (decoupled). slow: waits.
"""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar

import numpy as np
import triton_python_backend_utils as backend  # type: ignore[import-not-found,unused-ignore]


def tensor(request: Any, name: str) -> Any:
    return backend.get_input_tensor_by_name(request, name).as_numpy()


def answer(**tensors: Any) -> Any:
    return backend.InferenceResponse([backend.Tensor(name, values) for name, values in tensors.items()])


def addsub(request: Any) -> Any:
    a, b = tensor(request, "A"), tensor(request, "B")
    return answer(SUM=a + b, DIFF=a - b)


def echo(request: Any) -> Any:
    values = tensor(request, "X")
    return answer(Y=values, TOTAL=np.array([values.sum(dtype=np.float64)]))


def slow(request: Any) -> Any:
    """Waits MS milliseconds; a negative MS is an error of the model."""
    milliseconds = int(tensor(request, "MS")[0])
    if milliseconds < 0:
        return backend.InferenceResponse(error=backend.TritonError("MS must not be negative"))
    time.sleep(milliseconds / 1000)
    return answer(OK=np.array([milliseconds], np.int32))


def repeat(request: Any) -> None:
    """Sends PROMPT-0, PROMPT-1, … N times, DELAY_MS apart, from a thread of its own."""
    prompt, count, delay = (
        tensor(request, "PROMPT")[0],
        int(tensor(request, "N")[0]),
        int(tensor(request, "DELAY_MS")[0]),
    )
    sender = request.get_response_sender()

    def send() -> None:
        for index in range(count):
            if sender.is_cancelled():
                break
            token = np.array([prompt + b"-%d" % index], dtype=object)
            sender.send(answer(TOKEN=token, INDEX=np.array([index], np.int32)))
            time.sleep(delay / 1000)
        sender.send(flags=backend.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    threading.Thread(target=send, daemon=True).start()


class TritonPythonModel:
    """What tritonserver looks for by this name."""

    _models: ClassVar[dict[str, Any]] = {"addsub": addsub, "echo": echo, "slow": slow}

    def initialize(self, args: dict[str, str]) -> None:
        self._name = args["model_name"]

    def execute(self, requests: list[Any]) -> list[Any] | None:
        if self._name == "repeat":
            for request in requests:
                repeat(request)
            return None
        return [self._models[self._name](request) for request in requests]
