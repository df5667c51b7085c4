"""What a policy file may say: everything else is refused, at its place and in words that help."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gateway.policy.checks import LIMITS, RATES
from gateway.policy.files import Limits, load
from gateway.terms import Terms
from tests.policy.files import one, put, wrong


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (one(effect="permit"), "4:5", "expected 'allow' or 'deny'"),
        (one(effect=""), "3:5", "the setting 'effect' is missing"),
        (one(id='"a b"'), "3:5", "an id is 1 to 64"),
        (one(id="a" * 65), "3:5", "an id is 1 to 64"),
        (one(id="7"), "3:5", "expected text"),
        (one(subjects=""), "3:5", "the setting 'subjects' is missing"),
        (one(subjects="{}"), "5:5", "names nobody"),
        (one(subjects="{groups: [], users: []}"), "5:5", "names nobody"),
        (one(subjects="{groups: g}"), "5:16", "in brackets, also where it holds one thing: 'groups: [...]'"),
        (one(subjects="{groups: [1]}"), "5:25", "expected text"),
        (one(subjects='{groups: ["!interns"]}'), "5:25", "name the group in 'not_groups' instead"),
        (one(subjects='{groups: [g], not_groups: ["!h"]}'), "5:42", "'not_groups' leaves out already"),
        (one(subjects='{users: ["!ann"]}'), "5:24", "write a rule with 'effect: deny' for those who are left out"),
        (one(subjects='{groups: ["ml-*"]}'), "5:25", "names are literal"),
        (one(subjects='{users: ["*"]}'), "5:24", "names are literal"),
        (one(subjects='{users: [""]}'), "5:24", "must not be empty"),
        (one(subjects='{users: ["ann "]}'), "5:24", "begins or ends with a space"),
        (one(subjects='{users: ["a\\nb"]}'), "5:24", "holds a control character"),
        (one(subjects='{issuers: ["https://idp.test"]}'), "5:26", "not its address"),
        (one(subjects="{groups: [g], issuer: [corp]}"), "5:29", "did you mean 'issuers'?"),
        (one(models=""), "3:5", "the setting 'models' is missing"),
        (one(models="[]"), "6:5", "at least one is needed here"),
        (one(models="m"), "6:5", "in brackets, also where it holds one thing: 'models: [...]'"),
        (one(models='["!m"]'), "6:14", "'!' does not exclude"),
        (one(models='["m "]'), "6:14", "begins or ends with a space"),
        (one(models=f"[{'m' * 600}]"), "6:14", "at most 512 characters"),
        (one(operations="[]"), "7:5", "at least one is needed here"),
        (one(operations="null"), "7:5", "expected a list"),
        (one(operations="[infer, Stream]"), "7:25", "expected 'infer', 'stream'"),
        (one(versions="[]"), "7:5", "at least one is needed here"),
        (one(versions="[1]"), "7:16", "expected text; put it in quotes"),
        (one(versions='["01"]'), "7:16", "a version is a whole number"),
        (one(description="[x]"), "7:5", "expected text"),
        (one(model="[x]"), "7:5", "did you mean 'models'?"),
        (one() + "    id: again\n", "7:5", "'id' stands twice, first in line 3"),
        (one() + "rulez: []\n", "7:1", "did you mean 'rules'?"),
        (one().replace("version: 1\n", ""), "1:1", "the setting 'version' is missing"),
        (one().replace("version: 1", "version: 2"), "1:1", "expected 1"),
        (one().replace("version: 1", "version: true"), "1:1", "expected 1"),
        (one().replace("version: 1", "version: 1.0"), "1:1", "expected 1"),
        ("version: 1\n", "1:1", "the setting 'rules' is missing"),
        ("version: 1\nrules: []\n", "2:1", "at least one is needed here"),
        ("version: 1\nrules:\n", "2:1", "expected a list"),
        ("version: 1\nrules: [x]\n", "2:9", "expected a mapping"),
        ("[]", "1:1", "expected a mapping"),
        ("", "1:1", "the file is empty"),
        ("# nothing\n", "1:1", "the file is empty"),
    ],
)
def test_what_is_not_of_the_form_is_refused_at_its_place(tmp_path: Path, text: str, place: str, message: str) -> None:
    (told,) = wrong(put(tmp_path, a=text))
    assert told.startswith(f"a.yaml:{place}: "), told
    assert message in told


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute", "concurrent"])
def test_what_comes_later_is_refused_by_name_and_never_ignored(tmp_path: Path, name: str) -> None:
    (told,) = wrong(put(tmp_path, a=one(limits=f"{{max_tokens: 1024, {name}: 60}}")))
    assert told.startswith(f"a.yaml:7:32: '{name}' comes with a later version; until then ")


def test_of_a_rate_that_comes_later_its_number_is_checked_already(tmp_path: Path) -> None:
    told = wrong(put(tmp_path, a=one(limits="{concurrent: many}")))
    assert [line.split(": ", 1)[1].split(";")[0] for line in told] == [
        "'concurrent' comes with a later version",
        "expected a whole number",
    ]


def test_what_is_said_to_be_needed_in_limits_is_not_refused_there(tmp_path: Path) -> None:
    (told,) = wrong(put(tmp_path, a=one(limits="{on_excess: clamp}")))
    named = told.partition("at least one of ")[2].removesuffix(" is needed").split(", ")
    assert {"max_tokens", "input", "remote_media"} < set(named)
    given = {"input": "1KiB", "remote_media": "false"}
    for name in named:
        put(tmp_path, a=one(limits=f"{{{name}: {given.get(name, 1)}}}"))
        load(tmp_path)
    (told,) = wrong(put(tmp_path, a=one(limits="{concurrent: 4}")))
    assert "comes with a later version" in told


@pytest.mark.parametrize(
    ("setting", "place", "message"),
    [
        ({"when": "null"}, "7:5", "is left empty"),
        ({"limits": "null"}, "7:5", "is left empty"),
        ({"limits": "{n: 1, max_tokens: }"}, "7:20", "is left empty"),
        ({"when": "{days: [mon], timezone: localtime}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: right/UTC}"}, "7:25", "no time zone of this name"),
        ({"when": "{timezone: UTC}"}, "7:5", "at least one of days, hours is needed"),
        ({"when": "{days: [monday], timezone: UTC}"}, "7:19", "expected 'mon', 'tue'"),
        ({"when": "{days: [], timezone: UTC}"}, "7:12", "at least one is needed here"),
        ({"when": "{days: [mon]}"}, "7:5", "the setting 'timezone' is missing"),
        ({"when": "{days: [mon], timezone: Europe/Madird}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: ../etc/passwd}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: /usr/share/zoneinfo/UTC}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: ''}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: Europe}"}, "7:25", "no time zone of this name"),
        ({"when": "{days: [mon], timezone: tzdata.zi}"}, "7:25", "no time zone of this name"),
        ({"when": "{hours: '8:00-20:00', timezone: UTC}"}, "7:12", 'each in four digits, like "08:00-20:00"'),
        ({"when": "{hours: '08:00-24:00', timezone: UTC}"}, "7:12", "the end of a day is written 00:00"),
        ({"when": "{days: mon-fri, timezone: UTC}"}, "7:12", "'days: [...]'"),
        ({"when": "{hours: '08:00-20:60', timezone: UTC}"}, "7:12", "expected two times of the day"),
        ({"when": "{hours: '08:00-08:00', timezone: UTC}"}, "7:12", "begins and ends at the same time"),
        ({"when": "{day: [mon], days: [mon], timezone: UTC}"}, "7:12", "unknown setting 'day'"),
        ({"from_": "[]"}, "7:5", "at least one is needed here"),
        ({"from_": "[10.20.0.1/16]"}, "7:12", "expected a network"),
        ({"from_": "[10.20.0.0/255.255.0.0]"}, "7:12", "expected a network"),
        ({"from_": "[intranet]"}, "7:12", "expected a network"),
        ({"from_": "['fe80::%eth0/64']"}, "7:12", "expected a network"),
        ({"from_": "['::ffff:10.0.0.0/104']"}, "7:12", "give a network of IPv4 as such"),
        ({"from_": "10.20.0.0/16"}, "7:5", "in brackets, also where it holds one thing: 'from: [...]'"),
        ({"limits": "{}"}, "7:5", "at least one of"),
        ({"limits": "{on_excess: reject}"}, "7:5", "at least one of"),
        ({"limits": "{n: 0}"}, "7:14", "must be at least 1"),
        ({"limits": "{n: -1}"}, "7:14", "must be at least 1"),
        ({"limits": "{images: -1}"}, "7:14", "must not be negative"),
        ({"limits": "{n: true}"}, "7:14", "expected a whole number"),
        ({"limits": "{n: 1.5}"}, "7:14", "expected a whole number"),
        ({"limits": "{n: 1, max_token: 5}"}, "7:20", "did you mean 'max_tokens'?"),
        ({"limits": "{n: 1, on_excess: drop}"}, "7:20", "expected 'reject' or 'clamp'"),
        ({"limits": "{n: 1}", "effect": "deny"}, "7:5", "'limits' belongs to rules that allow"),
        ({"engine_fields": "[]"}, "7:5", "at least one is needed here"),
        ({"engine_fields": "[temperature]"}, "7:21", "no such field is closed"),
        ({"engine_fields": "[priority]", "effect": "deny"}, "7:5", "'engine_fields' belongs to rules that allow"),
        ({"subjects": "{not_groups: [g]}"}, "5:5", "names nobody"),
        ({"subjects": "{scopes: [chat]}"}, "5:5", "names nobody"),
        ({"subjects": "{groups: [g], not_groups: ['!h']}"}, "5:42", "write the group without '!'"),
        ({"subjects": "{groups: [g], scopes: ['*']}"}, "5:38", "names are literal"),
    ],
)
def test_a_condition_or_a_limit_that_says_nothing_sensible_is_refused_at_its_place(
    tmp_path: Path, setting: dict[str, str], place: str, message: str
) -> None:
    (told,) = wrong(put(tmp_path, a=one(**setting)))
    assert told.startswith(f"a.yaml:{place}: "), told
    assert message in told


def test_each_limit_that_can_be_written_is_checked_and_is_a_term_or_comes_later() -> None:
    """Each is written down three times: as it is written, as it is checked, as it is held against calls."""
    written = {each.name for each in fields(Limits)} - {"on_excess"}
    assert written == LIMITS
    assert written - set(RATES) == {each.name for each in fields(Terms)} - {"engine_fields", "clamp"}
