"""Cases that a policy has to pass: who asks for what, when and from where, and how it has to be decided.

Knows: the form of a file of cases, which files lie beside a policy. Must not know: how rules decide, what is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from gateway.call import ModelRef, Operation, Principal
from gateway.config import typed, yamlfile
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.part import Part
from gateway.config.units import Written, text_like
from gateway.config.values import Label, Text
from gateway.policy.checks import EMPTY, TERMS, wrong_with
from gateway.policy.conditions import address_of
from gateway.policy.files import Limits, terms_of
from gateway.policy.moments import FORM, moment
from gateway.terms import Terms

#: The folder of cases beside the policies; the policies' own loader reads no subfolder.
FOLDER: Final = "tests"

FILES_LIMIT: Final = 1000  # as many as there may be files of policies
CASES_LIMIT: Final = 100_000  # ten for each rule there may be; tried in seconds

#: Routes of these operations are for operators, so that a rule has to list them by name.
BY_NAME: Final = frozenset({Operation.METRICS, Operation.ADMIN})


def instant(value: Any) -> float:
    """UNIX seconds, from a time with its zone such as `2026-12-01T09:30:00+01:00`."""
    try:
        return moment(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("expected a time with its zone, such as 2026-12-01T09:30:00+01:00") from None


def address(value: Any) -> str:
    """The address of a client."""
    if not isinstance(value, str) or address_of(value) is None:
        raise ValueError("expected the address of a client, such as 10.20.0.7")
    return value


@dataclass(frozen=True, slots=True)
class Subject:
    """Who calls, as a credential would say; `issuer`: the provider, by its name in the configuration."""

    user: Label | None = None
    groups: tuple[Label, ...] = ()
    client: Label | None = None
    issuer: Label | None = None
    scopes: tuple[Label, ...] = ()
    groups_known: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One case as it is written."""

    name: Text
    subject: Subject
    model: Label
    expect: Literal["allow", "deny"]
    operation: Operation = Operation.INFER
    version: Label | None = None
    at: Annotated[float, Written(instant, text_like(FORM, "a time with its zone"))] | None = None
    peer: Annotated[
        Annotated[str, Written(address, text_like(r"[0-9A-Fa-f:.]+(?:%.+)?", "an address"))] | None,
        typed.called("from"),
    ] = None
    rule: Label | None = None
    limits: Limits | None = None
    engine_fields: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A whole file."""

    version: Literal[1]
    cases: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `at`: UNIX time in seconds; `rule`: the id of the rule that has to decide; None: any, as for `peer`.

    `terms`: those under which the call has to be let in, by every rule that lets it in; None: whichever.
    """

    name: str
    file: str
    line: int
    caller: Principal
    model: ModelRef
    allowed: bool
    at: float | None = None
    peer: str | None = None
    rule: str | None = None
    terms: Terms | None = None

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


def beside(policies: Path) -> Path:
    """The folder of the cases of these policies, a folder or one file."""
    return (policies if policies.is_dir() else policies.parent) / FOLDER


def read(paths: Iterable[Path]) -> tuple[Case, ...]:
    """The cases in these files, and in `*.yaml` of these folders in the order of their names.

    Blocks. Raises `Mistakes` with every one of all files: what cannot be read, what is not of the form, names given
    twice, and that there is no case at all.
    """
    found: list[Mistake] = []
    cases: list[Case] = []
    taken: dict[str, str] = {}
    for path in paths:
        try:
            for file in _files(path):
                try:
                    cases += _cases(yamlfile.read_file(file), taken)
                except Mistakes as mistakes:
                    found += mistakes.mistakes
        except Mistakes as mistakes:
            found += mistakes.mistakes
        if len(cases) > CASES_LIMIT:
            raise Mistakes([Mistake(str(path), 1, 1, f"more than {CASES_LIMIT} cases")])
    if found:
        raise Mistakes(found)
    return tuple(cases)


def _files(path: Path) -> list[Path]:
    """What `path` stands for. Raises `Mistakes`."""
    try:
        if not path.is_dir():
            return [path]
        files = sorted(entry for entry in path.iterdir() if entry.suffix == ".yaml" and not entry.name.startswith("."))
    except OSError as error:
        raise Mistakes([Mistake(str(path), 1, 1, f"cannot be read: {error.strerror or 'unknown reason'}")]) from None
    if not files or len(files) > FILES_LIMIT:
        message = f"more than {FILES_LIMIT} files" if files else "no cases in this folder: it needs a file '*.yaml'"
        raise Mistakes([Mistake(str(path), 1, 1, message)])
    return files


def _cases(document: yamlfile.Document, taken: dict[str, str]) -> list[Case]:
    """The cases of one file; their names join those `taken`, with their places. Raises `Mistakes`."""
    found = [*_unlike(document), *_repeated(document, taken)]
    try:
        entries = typed.validate(document, CaseFile).cases
    except Mistakes as mistakes:
        found += mistakes.mistakes
    if found:
        raise Mistakes(found)
    return [_case(document, number, entry) for number, entry in enumerate(entries)]


def _unlike(document: yamlfile.Document) -> Iterator[Mistake]:
    """What types cannot tell."""
    file = Part(document.data)
    if file["version"].value is not None and type(file["version"].value) is not int:
        yield Mistake(document.file, *document.place(("version",)), "expected 1")  # true and 1.0 are equal to it
    if file["cases"].value == []:
        yield Mistake(document.file, *document.place(("cases",)), EMPTY)
    for case in file["cases"]:
        if case["subject"].value == {}:
            yield Mistake(document.file, *document.place((*case.path, "subject")), "say who calls: a user, groups, …")
        for path, message in _unlike_terms(case):
            yield Mistake(document.file, *document.place((*case.path, *path)), message)


def _unlike_terms(case: Part) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What no rule could say either; but for no limits at all, which `{}` says."""
    terms = {key: case[key].value for key in TERMS if case[key].value not in ({}, [], None)}
    yield from wrong_with(terms)
    if case["expect"].value == "deny":
        yield from (((key,), f"'{key}' belongs to cases that expect to be allowed") for key in terms)


def _repeated(document: yamlfile.Document, taken: dict[str, str]) -> Iterator[Mistake]:
    for part in Part(document.data).at("cases", "*", "name"):
        if not part.text:
            continue
        line, column = document.place(part.path)
        if part.text in taken:
            yield Mistake(document.file, line, column, f"this name is taken: the case at {taken[part.text]} has it")
        taken.setdefault(part.text, f"{document.file}:{line}")


def _case(document: yamlfile.Document, number: int, entry: Entry) -> Case:
    subject = entry.subject
    caller = Principal(
        subject=subject.user or "",
        issuer=subject.issuer or "",
        provider=subject.issuer or "",
        groups=frozenset(subject.groups),
        client=subject.client,
        scopes=frozenset(subject.scopes),
        groups_known=subject.groups_known,
    )
    said = entry.limits is not None or entry.engine_fields is not None
    return Case(
        name=entry.name,
        file=document.file,
        line=document.place(("cases", number))[0],
        caller=caller,
        model=ModelRef(entry.model, entry.operation, entry.version, entry.operation in BY_NAME),
        allowed=entry.expect == "allow",
        at=entry.at,
        peer=entry.peer,
        rule=entry.rule,
        terms=terms_of(entry.limits, entry.engine_fields or frozenset()) if said else None,
    )
