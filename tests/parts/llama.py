"""The real OpenAI-compatible engine (llama.cpp) with the tiny model.

Knows: how it is started and when it is ready. Must not know: the gateway.
"""

from __future__ import annotations

from pathlib import Path

from tests.parts.client import ask
from tests.parts.process import PARTS, PARTS_PYTHON, ServerProcess, free_port

#: Where it tells that the model is loaded; it knows nothing of NIM's paths.
HEALTH = {"path": "/health"}
SCRIPT = Path(__file__).with_name("llama_server.py")


class Llama:
    """An engine on loopback that answers to any model name, in text and in embeddings."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command: list[str | Path] = [PARTS_PYTHON, SCRIPT, PARTS / "tiny.gguf", str(self.port), "tiny"]
        self.process = ServerProcess(command, folder, name=f"llama-{self.port}")
        self.process.wait_ready(self._ready)

    def __repr__(self) -> str:
        return f"<Llama {self.url}>"

    def metrics(self) -> str:
        """Its own Prometheus page."""
        return ask(self.url, "GET", "/metrics").body.decode()

    def stop(self) -> None:
        self.process.stop()

    def _ready(self) -> bool:
        try:
            return ask(self.url, "GET", HEALTH["path"]).status == 200
        except OSError:
            return False
