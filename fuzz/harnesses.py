"""The table of harnesses: what `make fuzz` runs, and the tests replay.

Knows: where each oracle and its corpus lie, how long a try may take. Must not know: atheris, what an oracle checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

CORPUS = Path(__file__).parent / "corpus"
#: Ignored by git: what searches found, and inputs that a harness did not like.
KEPT = Path(__file__).parent.parent / ".fuzz"


@dataclass(frozen=True, slots=True)
class Harness:
    """`module` has `check(data)`, which raises for an input on which the gateway is wrong.

    `longest`: bytes of an input. `runs`: of a short run. `watched`: packages beside the gateway whose ways lead on.
    """

    name: str
    module: str
    longest: int
    runs: int
    watched: tuple[str, ...] = ()
    corpora: Path = CORPUS
    kept: Path = KEPT

    @property
    def corpus(self) -> Path:
        """Seeds, and every crasher there was."""
        return self.corpora / self.name

    @property
    def words(self) -> Path:
        """Pieces that inputs are made of, for the engine to put in."""
        return self.corpora.parent / "words" / f"{self.name}.dict"

    @property
    def found(self) -> Path:
        """Inputs that led somewhere new."""
        return self.kept / "found" / self.name

    @property
    def crashers(self) -> Path:
        """Inputs that broke a rule, or took too long."""
        return self.kept / "crashers" / self.name

    def pieces(self) -> list[bytes]:
        """The `words`, as bytes."""
        lines = self.words.read_text("ascii").splitlines()
        return [line[1:-1].encode().decode("unicode_escape").encode("latin-1") for line in lines]

    def check(self, data: bytes) -> None:
        """Raises for an input on which the gateway is wrong."""
        check_of(self.module)(data)


def check_of(module: str) -> Callable[[bytes], None]:
    """Imported late, so that the engine can watch what is imported with it."""
    return cast("Callable[[bytes], None]", importlib.import_module(module).check)


HARNESSES = {
    harness.name: harness
    for harness in (
        Harness("requests", "fuzz.requests", 2048, 4000, ("h11",)),
        Harness("answers", "fuzz.answers", 2048, 6000, ("h11",)),
        Harness("json", "fuzz.json_bodies", 8192, 8000),
        Harness("forms", "fuzz.forms", 2048, 2500, ("python_multipart", "email")),
        Harness("routes", "fuzz.routes", 1024, 8000),
        Harness("policies", "fuzz.policies", 2048, 1000),
        Harness("tokens", "fuzz.tokens", 2048, 4000),
        Harness("proofs", "fuzz.proofs", 2048, 4000),
    )
}
