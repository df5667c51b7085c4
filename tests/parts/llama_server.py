"""Run llama.cpp's HTTP server: `llama_server.py MODEL.gguf PORT NAME`. Runs in `.venv-parts`."""

from __future__ import annotations

import os
import signal
import sys
import threading

import xllamacpp  # type: ignore[import-not-found,unused-ignore]

SLOTS = 8
CONTEXT = 16384  # shared by the slots


def main(model: str, port: str, name: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.model_alias = {name}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = int(port)
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = SLOTS
    parameters.n_threads_http = SLOTS
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.endpoint_metrics = True
    parameters.ui = False
    parameters.verbosity = 2
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(parameters)
    print("listening on", server.listening_address, flush=True)
    stop.wait()
    os._exit(0)  # the library joins its threads for seconds otherwise


if __name__ == "__main__":
    main(*sys.argv[1:])
