"""Read policy files into rules, or say everything that is wrong with them, each at its place.

Knows: the form of a policy file, which files of a folder are policies.
Must not know: how rules decide, what else is configured, when files change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from gateway.call import Operation
from gateway.config import typed, yamlfile
from gateway.config.mistakes import Mistake, Mistakes
from gateway.policy.checks import EMPTY, wrong_with
from gateway.policy.engine import DEFAULT_OPERATIONS, Effect, Rule

FILES_LIMIT: Final = 1000  # files of one folder; far more than people keep apart, and a wrong folder is noticed
RULES_LIMIT: Final = 10_000  # ten times what decisions are measured with; memory grows with rules times names

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who is meant: any of users, groups and clients, narrowed by issuers."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    issuers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class When:
    """Days of the week and hours of the day (`HH:MM-HH:MM`, also across midnight) of a time zone."""

    timezone: str
    days: frozenset[Day] = frozenset()
    hours: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one call may ask for, and one caller may use; 0 here: not limited."""

    max_tokens: int = 0
    n: int = 0
    best_of: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent: int = 0
    on_excess: Literal["reject", "clamp"] = "reject"


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule as it is written."""

    id: str
    effect: Effect
    subjects: Subjects
    models: tuple[str, ...]
    operations: frozenset[Operation] = frozenset()
    versions: frozenset[str] = frozenset()
    description: str = ""
    when: When = When("UTC")
    networks: Annotated[tuple[str, ...], typed.called("from")] = ()
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A whole file."""

    version: Literal[1]
    rules: tuple[Entry, ...]


def load(path: Path) -> tuple[Rule, ...]:
    """The rules of the folder `path` (its `*.yaml` in the order of their names, none of subfolders) or of one file.

    Raises `Mistakes` with every one of all files: what cannot be read, what is not of the form, rules that share an id,
    parts of the language that come later, and that there is no rule at all.
    """
    found: list[Mistake] = []
    rules: list[Rule] = []
    taken: dict[str, str] = {}
    for file in _files(path):
        try:
            rules += _rules(file, taken)
        except Mistakes as mistakes:
            found += mistakes.mistakes
    if len(rules) > RULES_LIMIT:
        found.append(Mistake(str(path), 1, 1, f"more than {RULES_LIMIT} rules"))
    if found:
        raise Mistakes(found)
    return tuple(rules)


def _files(path: Path) -> list[Path]:
    """The policy files at `path`, following symbolic links. Raises `Mistakes`."""
    try:
        if not path.is_dir():
            return [path]
        files = sorted(entry for entry in path.iterdir() if _is_policy(entry))
    except OSError as error:
        raise _unreadable(path, error) from None
    if not files:
        raise _mistake(path, "no policy in this folder: it needs a file '*.yaml' with at least one rule")
    if len(files) > FILES_LIMIT:
        raise _mistake(path, f"more than {FILES_LIMIT} policy files")
    return files


def _is_policy(entry: Path) -> bool:
    return entry.suffix == ".yaml" and not entry.name.startswith(".") and not entry.is_dir()


def _unreadable(path: Path, error: OSError) -> Mistakes:
    return _mistake(path, f"cannot be read: {error.strerror or 'unknown reason'}")


def _mistake(path: Path, message: str) -> Mistakes:
    return Mistakes([Mistake(str(path), 1, 1, message)])


def _rules(file: Path, taken: dict[str, str]) -> list[Rule]:
    """The rules of one file; their ids join those `taken`, with their places. Raises `Mistakes`."""
    document = yamlfile.read_file(file)
    found = [*_unlike(document), *_repeated(document, taken)]
    try:
        entries = typed.validate(document, PolicyFile).rules
    except Mistakes as mistakes:
        found += mistakes.mistakes
    if found:
        raise Mistakes(found)
    return [_rule(document, number, entry) for number, entry in enumerate(entries)]


def _rule(document: yamlfile.Document, number: int, entry: Entry) -> Rule:
    line, _ = document.place(("rules", number))
    return Rule(
        id=entry.id,
        file=document.file,
        line=line,
        effect=entry.effect,
        models=entry.models,
        users=entry.subjects.users,
        groups=entry.subjects.groups,
        clients=entry.subjects.clients,
        issuers=entry.subjects.issuers,
        operations=entry.operations or DEFAULT_OPERATIONS,
        explicit_operations=entry.operations,
        versions=entry.versions,
    )


def _entries(document: yamlfile.Document) -> list[Any]:
    rules = document.data.get("rules") if isinstance(document.data, dict) else None
    return rules if isinstance(rules, list) else []


def _repeated(document: yamlfile.Document, taken: dict[str, str]) -> Iterator[Mistake]:
    for number, entry in enumerate(_entries(document)):
        id_ = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(id_, str):
            continue
        line, column = document.place(("rules", number, "id"))
        if id_ in taken:
            yield Mistake(document.file, line, column, f"this id is taken: the rule at {taken[id_]} has it")
        taken.setdefault(id_, f"{document.file}:{line}")


def _unlike(document: yamlfile.Document) -> Iterator[Mistake]:
    """What types cannot tell. Works on whatever stands there, so that it is said together with what types can tell."""
    if isinstance(document.data, dict) and type(document.data.get("version", 1)) is not int:
        yield Mistake(document.file, *document.place(("version",)), "expected 1")  # true and 1.0 are equal to it
    if isinstance(document.data, dict) and document.data.get("rules") == []:
        yield Mistake(document.file, *document.place(("rules",)), EMPTY)
    for number, entry in enumerate(_entries(document)):
        if isinstance(entry, dict):
            for path, message in wrong_with(entry):
                yield Mistake(document.file, *document.place(("rules", number, *path)), message)
