"""Write the JSON Schemas of configuration and policies beside this script: `python config/schema/make.py [--check]`.

They follow from the types that the loader reads files into, so that an editor knows what the gateway takes. A schema
may take more than the loader does (what hangs on other settings, or on files), never less.
Knows: types, their forms, docs/configuration.md. Must not know: how a file is read.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
sys.path.insert(0, str(ROOT))  # also works from a checkout that was not installed

from gateway.config import shape
from gateway.config.checks import NEEDED as FILLED_SETTINGS
from gateway.config.secrets import SECRETS, VARIABLE
from gateway.config.typed import settings_of
from gateway.config.units import Written, text_like
from gateway.config.values import NETWORK_FORM
from gateway.policy import checks
from gateway.policy.cases import CaseFile
from gateway.policy.files import PolicyFile
from gateway.policy.rules import VERSION
from gateway.terms import ENGINE_FIELDS

Schema = dict[str, Any]
Way = tuple[str, ...]  # from the top of a file; `*` is each item of a list

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
PLAIN: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
SECRET: Final[Schema] = {
    "description": "never the secret itself: {file: path} or {env: NAME}",
    "type": "object",
    "properties": {"file": {"type": "string", "minLength": 1}, "env": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
ROW: Final = re.compile(
    r"\| `([^`]+)` \| [^|]+ \| (?:`([^`]*)`|\*needed\*|not built yet) \| `([^`]+)` \| (.*) \|$", re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class Form:
    """One kind of file. `instead` of what a type says, by way; `also`: joined to it; `hidden`: settings left out.

    `filled`: where nothing is not taken. `said`: descriptions and the like.
    """

    title: str
    type_: Any
    variables: bool = False
    instead: Mapping[Way, Schema] = dataclasses.field(default_factory=dict)
    also: Mapping[Way, Schema] = dataclasses.field(default_factory=dict)
    hidden: frozenset[Way] = frozenset()
    filled: frozenset[Way] = frozenset()
    said: Mapping[Way, Schema] = dataclasses.field(default_factory=dict)

    def schema(self) -> Schema:
        """The whole of it."""
        whole: Schema = {"$schema": DIALECT, "title": self.title, **self._of(self.type_, ())}
        if self.variables:
            pattern = VARIABLE.pattern
            whole["$defs"] = {"variable": {"type": "string", "pattern": pattern, "description": "from the environment"}}
        return whole

    def _of(self, type_: Any, way: Way) -> Schema:
        found = {**self.instead[way]} if way in self.instead else self._made(type_, way)
        if way in self.filled:
            found = _either([each for each in found.get("anyOf", [found]) if each != PLAIN[type(None)]])
        for key, value in self.also.get(way, {}).items():
            found = _joined(found, key, value)
        if self.variables and _may_be_scalar(found):
            found = {"anyOf": [*(found["anyOf"] if found.keys() == {"anyOf"} else [found]), _VARIABLE]}
        return {**self.said.get(way, {}), **found}

    def _made(self, type_: Any, way: Way) -> Schema:
        origin, arguments = get_origin(type_), get_args(type_)
        if origin is Annotated:
            forms = [dict(extra.form) for extra in arguments[1:] if isinstance(extra, Written)]
            if forms and not forms[0]:
                raise SystemExit(f"{'.'.join(way)}: say what may be written there: `Written(reader, form)`")
            return forms[0] if forms else self._made(arguments[0], way)
        if origin in {Union, types.UnionType}:
            return _either([self._made(each, way) for each in arguments])
        if origin in {tuple, frozenset}:
            return {"type": "array", "items": self._of(arguments[0], (*way, "*"))}
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(type_, type) and issubclass(type_, enum.Enum):
            return {"type": "string", "enum": [member.value for member in type_]}
        return self._settings(type_, way) if dataclasses.is_dataclass(type_) else {**PLAIN[type_]}

    def _settings(self, type_: Any, way: Way) -> Schema:
        hints = {name: hint for name, hint in settings_of(type_).items() if (*way, name) not in self.hidden}
        needed = [
            name
            for name, entry in zip(settings_of(type_), dataclasses.fields(type_), strict=True)
            if entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        ]
        return {
            "type": "object",
            "properties": {name: self._of(hint, (*way, name)) for name, hint in hints.items()},
            **({"required": needed} if needed else {}),
            "additionalProperties": False,
        }


_VARIABLE: Final[Schema] = {"$ref": "#/$defs/variable"}


def _joined(found: Schema, key: str, value: Any) -> Schema:
    """With one more keyword; beside null, where nothing stands, it is for the rest."""
    nothing = PLAIN[type(None)]
    if "anyOf" not in found:
        return {**found, key: value}
    return {**found, "anyOf": [each if each == nothing else {**each, key: value} for each in found["anyOf"]]}


def _either(forms: list[Schema]) -> Schema:
    flat = [inner for form in forms for inner in (form["anyOf"] if form.keys() == {"anyOf"} else [form])]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _may_be_scalar(form: Schema) -> bool:
    """Whether a variable can stand there: what it is replaced by is no list and no mapping."""
    if "anyOf" in form and "type" not in form:
        return any(map(_may_be_scalar, form["anyOf"]))
    return form.get("type") not in {"object", "array"} and form != _VARIABLE


def _documented() -> Iterator[tuple[Way, Schema]]:
    """What docs/configuration.md says of each setting."""
    for name, default, example, meaning in ROW.findall((ROOT / "docs" / "configuration.md").read_text()):
        said: Schema = {"description": words} if (words := _words(meaning)) else {}
        if default and default != "null":
            said["default"] = yaml.safe_load(default)
        yield _way(name), {**said, "examples": [yaml.safe_load(example)]}


def _way(name: str) -> Way:
    return tuple(step for part in name.split(".") for step in ((part[:-2], "*") if part.endswith("[]") else (part,)))


def _words(text: str) -> str:
    """Without marks of Markdown."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("`", "").replace(r"\|", "|").strip()


def _configuration() -> Form:
    instead: dict[Way, Schema] = dict.fromkeys(SECRETS, SECRET)
    policies = Form("", shape.File).schema()["properties"]["policies"]
    said = dict(_documented())
    for name, inner in policies["properties"].items():
        policies["properties"][name] = {**said.get(("policies", name), {}), "anyOf": [inner, _VARIABLE]}
    short = {"type": "string", "minLength": 1}
    return Form(
        "Configuration of nim-gateway",
        shape.File,
        variables=True,
        instead=instead | {("policies",): {"anyOf": [short, policies]}},
        also={way: {"minItems": 1} for way in FILLED_SETTINGS},
        said=said,
    )


_NAME: Final = r"[^!*\s][^*\x00-\x1f\x7f-\x9f]*"
_LEAST: Final = {"minItems": 1}


def _one_of(names: Iterator[str] | tuple[str, ...], **more: Any) -> list[Schema]:
    return [{"required": [name], **({"properties": {name: more}} if more else {})} for name in names]


def _policies() -> Form:
    rule: Way = ("rules", "*")
    limits = sorted(checks.LIMITS - set(checks.RATES))
    instead: dict[Way, Schema] = {
        (*rule, "id"): dict(text_like(checks.RULE_ID.pattern, "1 to 64 letters, digits and ._-")),
        (*rule, "models", "*"): dict(text_like(r"[^!\s][^\x00-\x1f\x7f-\x9f]*", "a pattern of model names")),
        (*rule, "versions", "*"): dict(text_like(VERSION.pattern, "a whole number in quotes, without leading zeros")),
        (*rule, "from", "*"): dict(NETWORK_FORM),
        (*rule, "when", "hours"): dict(text_like(checks.HOURS.pattern, 'two times of the day, like "08:00-20:00"')),
        (*rule, "when", "timezone"): {"type": "string", "minLength": 1, "examples": ["Europe/Madrid"]},
        (*rule, "engine_fields", "*"): {"type": "string", "enum": sorted(ENGINE_FIELDS)},
        ("version",): {"const": 1, "type": "integer"},
    }
    for kind in checks.SUBJECTS:
        instead[*rule, "subjects", kind, "*"] = dict(text_like(_NAME, "a name as it is, without '*' or a leading '!'"))
    also: dict[Way, Schema] = {(*rule, *way): _LEAST for way in checks.FILLED} | {("rules",): _LEAST}
    also |= {(*rule, "limits", name): {"minimum": 1} for name in checks.COUNTS}
    also |= {(*rule, "limits", name): {"minimum": 0} for name in checks.CEILINGS}
    also[*rule, "subjects"] = {"anyOf": _one_of(checks.NAMING, minItems=1)}
    also[*rule, "when"] = {"anyOf": _one_of(("days", "hours"))}
    also[*rule, "limits"] = {"anyOf": _one_of(tuple(limits))}
    denies = {"properties": {"effect": {"const": "deny"}}, "required": ["effect"]}
    also[rule] = {"if": denies, "then": {"not": {"anyOf": _one_of(checks.TERMS)}}}
    hidden = frozenset((*rule, "limits", name) for name in checks.RATES)
    return Form(
        "Policies of nim-gateway",
        PolicyFile,
        instead=instead,
        also=also,
        hidden=hidden,
        filled=frozenset((*rule, *way) for way in checks.NOT_EMPTY),
        said=dict(_explained()),
    )


def _explained() -> Iterator[tuple[Way, Schema]]:
    """What docs/policies.md says of the keys of a rule."""
    page = (ROOT / "docs" / "policies.md").read_text()
    said: set[str] = set()
    for key, meaning in re.findall(r"^\| `(\w+)` \| (?:yes|) ?\| (.+) \|$", page, re.MULTILINE):
        if key not in said:  # a later table is about something else
            yield ("rules", "*", key), {"description": _words(meaning)}
        said.add(key)


def _cases() -> Form:
    case: Way = ("cases", "*")
    also: dict[Way, Schema] = {(*case, "limits", name): {"minimum": 1} for name in checks.COUNTS}
    also |= {(*case, "limits", name): {"minimum": 0} for name in checks.CEILINGS}
    return Form(
        "Cases that policies of nim-gateway have to pass",
        CaseFile,
        instead={("version",): {"const": 1}, (*case, "engine_fields", "*"): {"enum": sorted(ENGINE_FIELDS)}},
        also=also,
        hidden=frozenset((*case, "limits", name) for name in checks.RATES),
    )


def texts() -> dict[str, str]:
    """Each schema as the text of its file."""
    made = {"gateway.schema.json": _configuration(), "policies.schema.json": _policies(), "cases.schema.json": _cases()}
    return {name: json.dumps(form.schema(), indent=2, ensure_ascii=False) + "\n" for name, form in made.items()}


def main() -> int:
    """Exit 1 when `--check` finds a file that is not what it would be."""
    found = texts()
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in found.items() if (HERE / name).read_text() != text]
        sys.stdout.write("".join(f"config/schema/{name} is not what the types say: make schema\n" for name in stale))
        return 1 if stale else 0
    for name, text in found.items():
        (HERE / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
