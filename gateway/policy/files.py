"""Read policy files into rules, or say everything that is wrong with them, each at its place.

Knows: the form of a policy file, which files of a folder are policies.
Must not know: how rules decide, what else is configured, when files change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from gateway.call import Operation
from gateway.config import typed, yamlfile
from gateway.config.mistakes import Mistake, Mistakes
from gateway.config.values import Bytes
from gateway.policy.checks import EMPTY, wrong_with
from gateway.policy.conditions import ALL_DAYS, DAY, DAYS, Window
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule
from gateway.terms import NO_TERMS, Terms

FILES_LIMIT: Final = 1000  # files of one folder; far more than people keep apart, and a wrong folder is noticed
RULES_LIMIT: Final = 10_000  # ten times what decisions are measured with; memory grows with rules times names

DIGEST_DIGITS: Final = 32  # hexadecimal: 128 bits of SHA-256, so that nobody writes two policies of one name

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who is meant: any of users, groups and clients, narrowed by issuers and scopes, without those in `not_groups`."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    issuers: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    not_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class When:
    """Days of the week and hours of the day (`HH:MM-HH:MM`, also across midnight) of a time zone."""

    timezone: str
    days: frozenset[Day] = frozenset()
    hours: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one call may ask for, and one caller may use; None: not limited."""

    max_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: int | None = None
    prompts: int | None = None
    images: int | None = None
    tools: int | None = None
    input: Bytes | None = None
    remote_media: bool = True
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent: int | None = None
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
    when: When | None = None
    networks: Annotated[tuple[str, ...], typed.called("from")] = ()
    limits: Limits | None = None
    engine_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A whole file."""

    version: Literal[1]
    rules: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Written:
    """The rules of one policy, and the text they were read from: each file's name within its folder, and its bytes."""

    rules: tuple[Rule, ...] = ()
    texts: tuple[tuple[str, bytes], ...] = ()

    @property
    def digest(self) -> str:
        """Names the text: the same wherever the folder lies, another for every other text."""
        whole = sha256()
        for name, text in self.texts:
            for part in (name.encode(), text):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:DIGEST_DIGITS]


def load(path: Path) -> tuple[Rule, ...]:
    """The rules of `read`."""
    return read(path).rules


def read(path: Path) -> Written:
    """The rules of the folder `path` (its `*.yaml` in the order of their names, none of subfolders) or of one file.

    Raises `Mistakes` with every one of all files: what cannot be read, what is not of the form, rules that share an id,
    parts of the language that come later, and that there is no rule at all.
    """
    found: list[Mistake] = []
    rules: list[Rule] = []
    texts: list[tuple[str, bytes]] = []
    taken: dict[str, str] = {}
    for file in _files(path):
        try:
            text = yamlfile.read_bytes(file)
            rules += _rules(yamlfile.read(text, str(file)), taken)
            texts.append((file.name, text))
        except Mistakes as mistakes:
            found += mistakes.mistakes
    if len(rules) > RULES_LIMIT:
        found.append(Mistake(str(path), 1, 1, f"more than {RULES_LIMIT} rules"))
    if found:
        raise Mistakes(found)
    return Written(tuple(rules), tuple(texts))


def again(texts: Iterable[tuple[str, bytes]], shown: Path) -> Written:
    """The rules in `texts` of files, by name, as if they lay in the folder `shown`. Raises `Mistakes`."""
    texts = tuple(texts)
    rules: list[Rule] = []
    taken: dict[str, str] = {}
    for name, text in texts:
        rules += _rules(yamlfile.read(text, str(shown / name)), taken)
    return Written(tuple(rules), texts)


def _files(path: Path) -> list[Path]:
    """The policy files at `path`, following symbolic links. Raises `Mistakes`."""
    try:
        if not path.is_dir():
            return [path]
        files = sorted(entry for entry in path.iterdir() if is_policy(entry))
    except OSError as error:
        raise _unreadable(path, error) from None
    if not files:
        raise _mistake(path, "no policy in this folder: it needs a file '*.yaml' with at least one rule")
    if len(files) > FILES_LIMIT:
        raise _mistake(path, f"more than {FILES_LIMIT} policy files")
    return files


def is_policy(entry: Path) -> bool:
    """Whether an entry of a folder of policies is one of them."""
    return entry.suffix == ".yaml" and not entry.name.startswith(".") and not entry.is_dir()


def _unreadable(path: Path, error: OSError) -> Mistakes:
    return _mistake(path, f"cannot be read: {error.strerror or 'unknown reason'}")


def _mistake(path: Path, message: str) -> Mistakes:
    return Mistakes([Mistake(str(path), 1, 1, message)])


def _rules(document: yamlfile.Document, taken: dict[str, str]) -> list[Rule]:
    """The rules of one file; their ids join those `taken`, with their places. Raises `Mistakes`."""
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
        scopes=entry.subjects.scopes,
        not_groups=entry.subjects.not_groups,
        window=None if entry.when is None else _window(entry.when),
        networks=tuple(map(ip_network, entry.networks)),
        terms=terms_of(entry.limits, entry.engine_fields),
    )


def _window(when: When) -> Window:
    days = frozenset(map(DAYS.index, when.days)) or ALL_DAYS
    if not when.hours:
        return Window(when.timezone, days)
    begin, end = (int(text[:2]) * 60 + int(text[3:]) for text in when.hours.split("-"))
    return Window(when.timezone, days, begin, end or DAY)


def terms_of(limits: Limits | None, engine_fields: frozenset[str]) -> Terms:
    """What these two keys of a rule ask of calls."""
    if limits is None:
        return Terms(engine_fields=engine_fields) if engine_fields else NO_TERMS
    return Terms(
        max_tokens=limits.max_tokens,
        n=limits.n,
        best_of=limits.best_of,
        logprobs=limits.logprobs,
        prompts=limits.prompts,
        images=limits.images,
        tools=limits.tools,
        input=limits.input,
        remote_media=limits.remote_media,
        engine_fields=engine_fields,
        clamp=limits.on_excess == "clamp",
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
