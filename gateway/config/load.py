"""From a configuration file to settings, or to everything that is wrong with it at once.

Knows: the order in which a file is read, filled in and checked; the environment. Must not know: how anything is built.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from gateway import settings
from gateway.config import checks as config_checks
from gateway.config import files as config_files
from gateway.config import listfiles, shape, units
from gateway.config.part import Finding, Part
from gateway.config.secrets import filled
from gateway.config.typed import validate
from gateway.config.yamlfile import Document, Mistake, Mistakes, read_file

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """`files`: every file and folder that the settings depend on, the configuration first.

    `secrets`: those of them that hold one.
    """

    settings: settings.Settings
    files: tuple[Path, ...]
    secrets: frozenset[Path] = frozenset()


def load(path: Path, root: Path | None, *, environment: Mapping[str, str] | None = None) -> Loaded:
    """The settings in the file at `path`; paths in it are relative to `root`, or else to the working directory.

    Blocks on files. Raises `Mistakes` with every one, and with the files that were looked at.
    """
    base = Path.cwd() if root is None else root.absolute()
    environment = os.environ if environment is None else environment  # noqa: TID251  this is the configuration
    try:
        document = read_file(path)
    except Mistakes as error:
        raise Mistakes(error.mistakes, [path.absolute()]) from None
    fill = filled(document, environment, base)
    document = replace(document, data=_spread(fill.data))
    file = Part(document.data)
    files = tuple(dict.fromkeys([path.absolute(), *config_files.named(file, base), *fill.files]))
    lacking = _mistakes(document, fill.findings)
    found = [
        *lacking,
        *_mistakes(document, config_checks.findings(file)),
        *_mistakes(document, config_files.findings(file, base, time.time())),
    ]
    try:
        written = validate(document, shape.File)
    except Mistakes as error:
        # Where nothing could be filled in, there is nothing to judge.
        places = {(mistake.line, mistake.column) for mistake in lacking}
        found += [mistake for mistake in error.mistakes if (mistake.line, mistake.column) not in places]
    if found:
        raise Mistakes([*found, *listfiles.mistakes(file, base)], files)
    return Loaded(_settings(written, base), files, frozenset(fill.files) | config_files.client_keys(file, base))


def described(path: Path, root: Path | None, *, environment: Mapping[str, str] | None = None) -> settings.Settings:
    """The settings in the file at `path`, whether or not the files, secrets and variables it names are there.

    For looking at what is configured where nothing is to be run, so without `checks`; what could not be had is filled
    with a word that is no secret. Blocks on files. Raises `Mistakes`.
    """
    base = Path.cwd() if root is None else root.absolute()
    environment = os.environ if environment is None else environment  # noqa: TID251  this is the configuration
    document = read_file(path)
    fill = filled(document, environment, base)
    document = replace(document, data=_spread(fill.data))
    try:
        return _settings(validate(document, shape.File), base)
    except Mistakes as error:
        # Where nothing could be filled in, that is what is wrong there; elsewhere it does not matter.
        lacking = {(mistake.line, mistake.column): mistake for mistake in _mistakes(document, fill.findings)}
        raise Mistakes(lacking.get((mistake.line, mistake.column), mistake) for mistake in error.mistakes) from None


def named(path: Path, root: Path | None, *way: str) -> Path | None:
    """The path that the setting at `way` names, whatever is wrong elsewhere in the file; None where it is not there.

    Blocks on files. Raises `Mistakes` for what is no YAML, and for what stands there and is no path.
    """
    base = Path.cwd() if root is None else root.absolute()
    document = read_file(path)
    fill = filled(document, os.environ, base)  # noqa: TID251  this is the configuration
    (part,) = Part(_spread(fill.data)).at(*way)
    found = [finding for finding in fill.findings if finding.path == part.path]
    try:
        if part.value is not None:
            return base / units.path(part.value)
    except ValueError as error:
        found.append(Finding(part.path, str(error)))
    if found:
        raise Mistakes(_mistakes(document, found))
    return None


def _spread(data: Any) -> Any:
    """The file with its short forms written out: policies that are only enforced."""
    if isinstance(data, dict) and isinstance(data.get("policies"), str):
        return {**data, "policies": {"enforce": data["policies"]}}
    return data


def _mistakes(document: Document, findings: Iterable[Finding]) -> list[Mistake]:
    return [Mistake(document.file, *document.place(finding.path), finding.message) for finding in findings]


def _settings(file: shape.File, root: Path) -> settings.Settings:
    audit = file.audit if file.audit.file == "-" else replace(file.audit, file=str(root / file.audit.file))
    rooted, identity = _rooted(file, root), _rooted(file.identity, root)
    return _narrow(
        rooted,
        settings.Settings,
        pools=tuple(map(_pool, rooted.pools)),
        audit=audit,
        **{entry.name: getattr(identity, entry.name) for entry in fields(identity)},
    )


def _pool(pool: shape.Pool) -> settings.Pool:
    backends = tuple(_narrow(backend, settings.BackendAddress) for backend in pool.backends)
    return _narrow(pool, settings.Pool, backends=backends)


def _rooted(value: T, root: Path) -> T:
    """`value`, with its paths, and those in it, relative to nothing."""
    if isinstance(value, Path):
        return root / value
    if isinstance(value, tuple):
        return tuple(_rooted(each, root) for each in value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{entry.name: _rooted(getattr(value, entry.name), root) for entry in fields(value)})
    return value


def _narrow(value: Any, type_: type[T], **instead: Any) -> T:
    """`value` as the `type_` that its own type adds to, with some fields replaced."""
    own = {entry.name: getattr(value, entry.name) for entry in fields(type_) if entry.name not in instead}  # type: ignore[arg-type]
    return type_(**own | instead)
