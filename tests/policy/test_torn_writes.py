"""Policies that are replaced piece by piece while somebody looks: what is taken is the old or the new one, whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.config.mistakes import Mistakes
from gateway.config.watch import Pace, Settling, contents
from gateway.policy.engine import Policy
from gateway.policy.files import load
from gateway.policy.rules import Rule
from tests.policy.reference import GROUPS, MODELS, USERS, some_rules
from tests.policy.written import written

PACE = Pace()
AFTERWARDS = 3.0  # seconds, long enough for the whole to be taken
CALLS = [
    (Principal(user, "https://idp.test", issuer, frozenset({group}), client="app"), ModelRef(model, operation))
    for user, group, issuer, model, operation in product(
        USERS, GROUPS, ("corp", "lab"), MODELS, (Operation.INFER, Operation.LIST)
    )
]


@dataclass(frozen=True)
class Writer:
    """How a new policy gets into the folder. A pause follows each piece, as a part of the longest that may be."""

    #: Whether the file is removed and made again; else it is emptied and written on.
    made_again: bool
    pieces: int
    pause: float

    def steps(self, file: Path, new: bytes) -> Iterator[float]:
        """Write a piece, give the seconds that pass then."""
        if self.made_again:
            file.unlink()
        else:
            file.write_bytes(b"")
        size = len(new) // self.pieces + 1
        longest = (PACE.whole if self.made_again else PACE.written) - 0.01
        for count in range(self.pieces + 1):
            with file.open("ab") as out:
                out.write(new[max(count - 1, 0) * size : count * size])
            yield longest * self.pause if count < self.pieces else AFTERWARDS


writers = st.builds(Writer, st.booleans(), st.integers(1, 12), st.floats(0, 1))


def grants(policy: Policy) -> frozenset[int]:
    return frozenset(number for number, (caller, model) in enumerate(CALLS) if policy.may(caller, model))


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(some_rules.filter(bool), some_rules.filter(bool), writers, st.booleans(), st.floats(0, 0.25))
def test_whatever_is_taken_of_a_file_that_is_being_written_grants_what_the_old_or_the_new_one_does(
    old: list[Rule], new: list[Rule], writer: Writer, braces: bool, phase: float
) -> None:
    """B095, B100. The clock is the test's: looks come every quarter of a second, pieces whenever the writer likes."""
    with TemporaryDirectory() as name:
        folder, file = Path(name), Path(name, "rules.yaml")
        file.write_bytes(written(old, braces=braces))
        settling = Settling(contents([folder]), PACE)
        taken = [grants(Policy(load(folder)))]
        clock, next_look = 0.0, phase
        for passed in writer.steps(file, written(new, braces=braces)):
            clock += passed
            while next_look < clock:
                if settling.see(contents([folder]), next_look, next_look):
                    taken += tried(folder)
                next_look += PACE.interval
        whole = grants(Policy(load(folder)))
    assert set(taken) <= {taken[0], whole}
    assert taken[-1] == whole


def tried(folder: Path) -> list[frozenset[int]]:
    """What is granted by what stands there, if it is a policy."""
    try:
        return [grants(Policy(load(folder)))]
    except Mistakes:
        return []
