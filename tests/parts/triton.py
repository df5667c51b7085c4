"""The real Triton Inference Server with four small models.

Knows: how it is started from the wheel that holds it. Must not know: the gateway.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.parts.client import ask
from tests.parts.process import PARTS, PARTS_PYTHON, ServerProcess, free_port

CODE = Path(__file__).with_name("triton_models.py")

_FLOAT, _INT, _TEXT = "TYPE_FP32", "TYPE_INT32", "TYPE_STRING"
_DECOUPLED = "model_transaction_policy { decoupled: true }"

#: By model: inputs, outputs (name, type, dimensions) and further lines of its configuration.
MODELS: dict[str, tuple[list[tuple[str, str, str]], list[tuple[str, str, str]], str]] = {
    "addsub": ([("A", _FLOAT, "4"), ("B", _FLOAT, "4")], [("SUM", _FLOAT, "4"), ("DIFF", _FLOAT, "4")], ""),
    "echo": ([("X", _FLOAT, "-1")], [("Y", _FLOAT, "-1"), ("TOTAL", "TYPE_FP64", "1")], ""),
    "slow": ([("MS", _INT, "1")], [("OK", _INT, "1")], ""),
    "repeat": (
        [("PROMPT", _TEXT, "1"), ("N", _INT, "1"), ("DELAY_MS", _INT, "1")],
        [("TOKEN", _TEXT, "1"), ("INDEX", _INT, "1")],
        _DECOUPLED,
    ),
}

_PLACES = """
import os, sys, sysconfig, pytriton
package = os.path.dirname(pytriton.__file__)
print(package)
print(os.path.join(os.path.dirname(package), "nvidia_pytriton.libs"))
print(sysconfig.get_config_var("LIBDIR"))
"""


@cache
def _places() -> tuple[Path, str]:
    """The server's folder, and the library path with which it finds the Python that runs its models."""
    printed = subprocess.run([PARTS_PYTHON, "-c", _PLACES], check=True, text=True, capture_output=True).stdout
    package, bundled, python = printed.split("\n")[:3]
    return Path(package) / "tritonserver", f"{bundled}:{python}"


def _tensors(rows: list[tuple[str, str, str]]) -> str:
    return ", ".join(f'{{ name: "{name}" data_type: {kind} dims: [{shape}] }}' for name, kind, shape in rows)


def _repository(folder: Path) -> Path:
    """A model repository as Triton wants it."""
    for name, (inputs, outputs, more) in MODELS.items():
        version = folder / name / "1"
        version.mkdir(parents=True)
        shutil.copy(CODE, version / "model.py")
        (folder / name / "config.pbtxt").write_text(
            f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\n{more}\n'
            f"input [ {_tensors(inputs)} ]\noutput [ {_tensors(outputs)} ]\ninstance_group [ {{ kind: KIND_CPU }} ]\n"
        )
    return folder


class Triton:
    """A server on loopback with the models of `MODELS`."""

    def __init__(self, folder: Path) -> None:
        self.port, self.grpc_port, self.metrics_port = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"
        server, libraries = _places()
        ports = {"http": self.port, "grpc": self.grpc_port, "metrics": self.metrics_port}
        command: list[str | Path] = [server / "bin" / "tritonserver", f"--id=tests-{self.port}"]
        for name, port in ports.items():
            command += [f"--{name}-address=127.0.0.1", f"--{name}-port={port}"]
        command += [
            f"--model-repository={_repository(folder / f'triton-{self.port}')}",
            f"--backend-directory={PARTS / 'tritonserver' / 'backends'}",
            "--allow-gpu-metrics=false",
            "--backend-config=python,shm-default-byte-size=1048576",
        ]
        environment = {
            "PATH": f"{PARTS_PYTHON.parent}:/usr/bin:/bin",
            "VIRTUAL_ENV": str(PARTS_PYTHON.parent.parent),
            "LD_LIBRARY_PATH": libraries,
        }
        self.process = ServerProcess(command, folder, name=f"triton-{self.port}", env=environment)
        self.process.wait_ready(self._ready)

    def __repr__(self) -> str:
        return f"<Triton {self.url}>"

    def stop(self) -> None:
        self.process.stop()

    def _ready(self) -> bool:
        try:
            return ask(self.url, "GET", "/v2/health/ready").status == 200
        except OSError:
            return False
