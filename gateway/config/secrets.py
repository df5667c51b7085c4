"""Put into a configuration what it takes from elsewhere: `${NAME}` in values, and secrets by `{file:}` or `{env:}`.

Knows: the environment it is given, which settings are secrets. Must not know: what they are used for.
No message names a secret, nor what stands where only a reference should, since that may be the secret itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.config.part import Finding, Part
from gateway.config.yamlfile import Document
from gateway.config.yamltext import scalar

SECRETS: Final = (
    ("pools", "*", "credential", "value"),
    ("identity", "oidc", "*", "introspection", "client_secret"),
    ("identity", "oidc", "*", "login", "client_secret"),
    ("identity", "oidc", "*", "discovery_token"),
    ("identity", "ldap", "*", "bind", "password"),
)

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
OPENING: Final = "${"
LARGEST_SECRET: Final = 8192  # bytes; it goes into a header line
REFERENCE: Final = "a secret is not written here; give {file: path} or {env: NAME}"
UNREADABLE: Final = "unreadable"  # stands for a secret whose own mistake is already said


@dataclass(slots=True)
class Filled:
    """What came of it: the document's data, what was wrong, and the files that secrets were read from."""

    data: Any = field(repr=False)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def filled(document: Document, environment: Mapping[str, str], root: Path) -> Filled:
    """The data of `document` with variables and secrets in their places; where one cannot be had, no value."""
    result = Filled(None)
    result.data = _expanded(document, (), document.data, environment, result.findings)
    for way in SECRETS:
        for holder in Part(result.data).at(*way[:-1]):
            secret = holder[way[-1]]
            if secret.value is not None:
                holder.value[way[-1]] = _secret(secret, environment, root, result)
    return result


def _expanded(
    document: Document, path: tuple[str | int, ...], value: Any, environment: Mapping[str, str], findings: list[Finding]
) -> Any:
    # As deep as a document may be, which `yamlfile` bounds.
    if isinstance(value, dict):
        return {key: _expanded(document, (*path, key), inner, environment, findings) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(document, (*path, i), inner, environment, findings) for i, inner in enumerate(value)]
    if not isinstance(value, str) or OPENING not in value:
        return value
    try:
        text = _replaced(value, environment)
        return scalar(text) if text and document.plain(path) else text
    except ValueError as error:
        findings.append(Finding(path, str(error)))
        return None


def _replaced(value: str, environment: Mapping[str, str]) -> str:
    if OPENING in VARIABLE.sub("", value):
        raise ValueError("'${' begins a variable: write ${NAME}, a name of letters, digits and '_'")
    missing = sorted({name for name in VARIABLE.findall(value) if name not in environment})
    if missing:
        raise ValueError(f"the environment variable {', '.join(missing)} is not set")
    return VARIABLE.sub(lambda match: environment[match[1]], value)


def _secret(part: Part, environment: Mapping[str, str], root: Path, result: Filled) -> str:
    file, name = part["file"], part["env"]
    if not isinstance(part.value, dict) or len(part.value) != 1 or not (file.text or name.text):
        result.findings.append(Finding(part.path, REFERENCE))
        return UNREADABLE
    try:
        if file.text:
            result.files.append(root / file.text)
            return _from_file(root / file.text)
        return _from_environment(name.text, environment)
    except ValueError as error:
        result.findings.append(Finding((file if file.text else name).path, str(error)))
        return UNREADABLE


def _from_environment(name: str, environment: Mapping[str, str]) -> str:
    secret = environment.get(name, "")
    if not secret:
        raise ValueError("the environment variable of this secret is not set, or empty")
    return secret


def _from_file(path: Path) -> str:
    """The secret in a file, without the line break that editors put at its end."""
    try:
        with path.open("rb") as file:
            secret = file.read(LARGEST_SECRET + 1)
        text = secret.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"the file of this secret cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("the file of this secret is not text") from None
    if not text or len(secret) > LARGEST_SECRET:
        raise ValueError(f"the file of this secret is empty or larger than {LARGEST_SECRET // 1024} KiB")
    return text
