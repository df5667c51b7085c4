"""What the values of a policy file may be, beyond their types.

Knows: the words, names and numbers that a rule is made of. Must not know: YAML, files, how rules decide.
"""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any, Final

from gateway.globs import compile_glob
from gateway.policy.rules import VERSION
from gateway.terms import ENGINE_FIELDS

Path = tuple[str | int, ...]

RULE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOURS: Final = re.compile(r"((?:[01][0-9]|2[0-3]):[0-5][0-9])-((?:[01][0-9]|2[0-3]):[0-5][0-9])")
# Lie beside the zones on many machines: the machine's own, and clocks that are put forward by all leap seconds.
NO_ZONE: Final = re.compile("localtime$|posixrules$|right/")
# Neither a mask nor a zone: `ip_network` would take 10.0.0.0/255.0.0.0, its inverse and fe80::%eth0.
NETWORK: Final = re.compile(r"[0-9a-fA-F:.]+(?:/[0-9]{1,3})?")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
SUBJECTS: Final = {"users", "groups", "clients", "issuers", "scopes", "not_groups"}
NAMING: Final = ("users", "groups", "clients", "issuers")
COUNTS: Final = ("max_tokens", "n", "best_of", "prompts")
CEILINGS: Final = ("logprobs", "images", "tools")
RATES: Final = ("requests_per_minute", "tokens_per_minute", "concurrent")
LIMITS: Final = {*COUNTS, *CEILINGS, *RATES, "input", "remote_media"}

# A rule that has a part which is understood but not acted on would allow more, or deny more, than it says.
LATER: Final = "comes with a later version; until then a rule that has it is refused, never ignored"


def _of_text(check: Callable[[str], str]) -> Callable[[Any], str]:
    """`check`, but silent about what is no text: types tell that."""
    return lambda value: check(value) if isinstance(value, str) else ""


def _id(text: str) -> str:
    if RULE_ID.fullmatch(text):
        return ""
    return "an id is 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or digit"


def _exact(text: str) -> str:
    """What keeps a text from ever being equal to, or looking like, the name that somebody meant."""
    if not text:
        return "must not be empty"
    if text != text.strip():
        return "begins or ends with a space, and names are compared exactly"
    return "holds a control character" if CONTROL.search(text) else ""


def _subject(text: str) -> str:
    if text.startswith("!"):
        return "'!' does not exclude; write a rule with 'effect: deny' for those who are left out"
    return _literal(text)


def _group(text: str) -> str:
    if text.startswith("!"):
        return "'!' does not exclude; name the group in 'not_groups' instead, without '!'"
    return _literal(text)


def _not_group(text: str) -> str:
    if text.startswith("!"):
        return "'not_groups' leaves out already; write the group without '!'"
    return _literal(text)


def _literal(text: str) -> str:
    if "*" in text:
        return "names are literal here; '*' stands for nobody. For everybody of a provider give only 'issuers'"
    return _exact(text)


def _issuer(text: str) -> str:
    if "://" in text:
        return "give the name that the configuration gives to this provider, not its address"
    return _subject(text)


def _model(text: str) -> str:
    if text.startswith("!"):
        return "'!' does not exclude; write a rule with 'effect: deny' for what is left out"
    if wrong := _exact(text):
        return wrong
    try:
        compile_glob(text)
    except ValueError as error:
        return str(error)
    return ""


def _version(text: str) -> str:
    return "" if VERSION.fullmatch(text) else "a version is a whole number in quotes, without leading zeros"


def _hours(text: str) -> str:
    parts = HOURS.fullmatch(text)
    if text.endswith("-24:00"):
        return 'the end of a day is written 00:00, as in "08:00-00:00"'
    if parts is None:
        return 'expected two times of the day, each in four digits, like "08:00-20:00"'
    return "begins and ends at the same time; leave 'hours' out for the whole day" if parts[1] == parts[2] else ""


def _timezone(text: str) -> str:
    try:
        known = not NO_ZONE.match(text) and zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        known = False
    if not known:
        return "no time zone of this name is known; expected one like Europe/Madrid"
    return ""


def _network(text: str) -> str:
    try:
        network = NETWORK.fullmatch(text) and ipaddress.ip_network(text)
    except ValueError:
        network = None
    if not network:
        return "expected a network like 10.20.0.0/16, without bits behind its prefix"
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped:
        return "give a network of IPv4 as such: no client has an address like this one"
    return ""


def _count(value: Any) -> str:
    return "must be at least 1" if type(value) is int and value < 1 else ""


def _ceiling(value: Any) -> str:
    return "must not be negative" if type(value) is int and value < 0 else ""


def _engine_field(text: str) -> str:
    return "" if text in ENGINE_FIELDS else f"no such field is closed; there is {', '.join(sorted(ENGINE_FIELDS))}"


#: By the keys that lead there: what is wrong with a value, or an empty text.
CHECKS: Final[dict[tuple[str, ...], Callable[[Any], str]]] = {
    ("id",): _of_text(_id),
    ("subjects", "users"): _of_text(_subject),
    ("subjects", "groups"): _of_text(_group),
    ("subjects", "clients"): _of_text(_subject),
    ("subjects", "issuers"): _of_text(_issuer),
    ("subjects", "scopes"): _of_text(_subject),
    ("subjects", "not_groups"): _of_text(_not_group),
    ("engine_fields",): _of_text(_engine_field),
    ("models",): _of_text(_model),
    ("versions",): _of_text(_version),
    ("when", "hours"): _of_text(_hours),
    ("when", "timezone"): _of_text(_timezone),
    ("from",): _of_text(_network),
    **{("limits", name): _count for name in COUNTS},
    **{("limits", name): _ceiling for name in CEILINGS},
}

#: Lists that would match nothing at all if they were empty, and must be left out (or filled) instead.
FILLED: Final = (("models",), ("operations",), ("versions",), ("from",), ("when", "days"), ("engine_fields",))
EMPTY: Final = "at least one is needed here"

#: What a rule asks of calls that it lets in.
TERMS: Final = ("limits", "engine_fields")

# Whoever empties a condition or a limit and leaves its key must not have taken it away without a word.
LEFT_EMPTY: Final = "is left empty; give it a value, or leave the key out too"
NOT_EMPTY: Final = (("when",), ("limits",), *(("limits", name) for name in sorted(LIMITS)))

#: Settings that say nothing unless they have one of these; of a rate it is said that it comes later.
NEEDED: Final = {"when": {"days", "hours"}, "limits": LIMITS.difference(RATES)}


def wrong_with(entry: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """What types cannot tell of one rule as it is written, each with the path that leads there.

    Whatever stands where it should not is passed over in silence: types tell that.
    """
    for keys, check in CHECKS.items():
        for path, value in _values(entry, keys):
            if message := check(value):
                yield path, message
    yield from ((keys, EMPTY) for keys in FILLED if _at(entry, keys) == [])
    yield from ((keys, LEFT_EMPTY) for keys in NOT_EMPTY if _at(entry, keys, EMPTY) is None)
    limits = entry.get("limits")
    if isinstance(limits, dict):
        yield from ((("limits", key), f"'{key}' {LATER}") for key in RATES if key in limits)
    if entry.get("effect") == "deny":
        yield from (((key,), f"'{key}' belongs to rules that allow") for key in TERMS if key in entry)
    for key, needed in NEEDED.items():
        settings = entry.get(key)
        if isinstance(settings, dict) and not {*needed, *RATES} & settings.keys():
            yield (key,), f"at least one of {', '.join(sorted(needed))} is needed"
    subjects = entry.get("subjects")
    if isinstance(subjects, dict) and subjects.keys() <= SUBJECTS and not any(map(subjects.get, NAMING)):
        yield ("subjects",), "names nobody: at least one of users, groups, clients or issuers is needed"


def _values(entry: dict[str, Any], keys: tuple[str, ...]) -> Iterator[tuple[Path, Any]]:
    """What stands at `keys`, each item of it if it is a list, with its path."""
    value = _at(entry, keys)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield (*keys, number), item
    else:
        yield keys, value


def _at(entry: dict[str, Any], keys: tuple[str, ...], otherwise: Any = None) -> Any:
    """What stands at `keys`; `otherwise` where nothing does."""
    value: Any = entry
    for key in keys:
        value = value.get(key, otherwise) if isinstance(value, dict) else otherwise
    return value
