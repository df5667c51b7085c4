"""What a policy file may say: everything else is refused, at its place and in words that help."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        (one(subjects="{groups: g}"), "5:16", "expected a list"),
        (one(subjects="{groups: [1]}"), "5:25", "expected text"),
        (one(subjects='{groups: ["!interns"]}'), "5:25", "'!' does not exclude"),
        (one(subjects='{groups: ["ml-*"]}'), "5:25", "names are literal"),
        (one(subjects='{users: ["*"]}'), "5:24", "names are literal"),
        (one(subjects='{users: [""]}'), "5:24", "must not be empty"),
        (one(subjects='{users: ["ann "]}'), "5:24", "begins or ends with a space"),
        (one(subjects='{users: ["a\\nb"]}'), "5:24", "holds a control character"),
        (one(subjects='{issuers: ["https://idp.test"]}'), "5:26", "not its address"),
        (one(subjects="{groups: [g], issuer: [corp]}"), "5:29", "did you mean 'issuers'?"),
        (one(models=""), "3:5", "the setting 'models' is missing"),
        (one(models="[]"), "6:5", "at least one is needed here"),
        (one(models="m"), "6:5", "expected a list"),
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


@pytest.mark.parametrize(
    "later",
    [
        {"when": "{days: [mon, sun], hours: '08:00-20:00', timezone: Europe/Madrid}"},
        {"when": "{hours: '20:00-06:00', timezone: UTC}"},
        {"from_": "[10.20.0.0/16, '2001:db8::/32', 192.0.2.7]"},
        {"limits": "{max_tokens: 1024, n: 1, best_of: 1, requests_per_minute: 60, on_excess: clamp}"},
        {"limits": "{tokens_per_minute: 20000, concurrent: 4}"},
    ],
)
def test_what_comes_later_is_refused_by_name_and_never_ignored(tmp_path: Path, later: dict[str, str]) -> None:
    (name,) = later
    name = name.strip("_")
    (told,) = wrong(put(tmp_path, a=one(**later)))
    assert told == (
        f"a.yaml:7:5: '{name}' comes with a later version; until then a rule that has it is refused, never ignored"
    )


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ({"when": "null"}, "expected a mapping"),
        ({"when": "{}"}, "at least one of days, hours is needed"),
        ({"when": "{days: [monday], timezone: UTC}"}, "expected 'mon', 'tue'"),
        ({"when": "{days: [], timezone: UTC}"}, "at least one is needed here"),
        ({"when": "{days: [mon]}"}, "the setting 'timezone' is missing"),
        ({"when": "{days: [mon], timezone: Europe/Madird}"}, "no time zone of this name"),
        ({"when": "{days: [mon], timezone: ../etc/passwd}"}, "no time zone of this name"),
        ({"when": "{hours: '8:00-20:00', timezone: UTC}"}, "expected two times of the day"),
        ({"when": "{hours: '08:00-24:00', timezone: UTC}"}, "expected two times of the day"),
        ({"when": "{hours: '08:00-08:00', timezone: UTC}"}, "begins and ends at the same time"),
        ({"when": "{day: [mon], days: [mon], timezone: UTC}"}, "unknown setting 'day'"),
        ({"from_": "[]"}, "at least one is needed here"),
        ({"from_": "[10.20.0.1/16]"}, "expected a network"),
        ({"from_": "[intranet]"}, "expected a network"),
        ({"from_": "10.20.0.0/16"}, "expected a list"),
        ({"limits": "{}"}, "at least one of"),
        ({"limits": "{on_excess: reject}"}, "at least one of"),
        ({"limits": "{n: 0}"}, "must be at least 1"),
        ({"limits": "{n: -1}"}, "must be at least 1"),
        ({"limits": "{n: true}"}, "expected a whole number"),
        ({"limits": "{n: 1.5}"}, "expected a whole number"),
        ({"limits": "{n: 1, max_token: 5}"}, "did you mean 'max_tokens'?"),
        ({"limits": "{n: 1, on_excess: drop}"}, "expected 'reject' or 'clamp'"),
    ],
)
def test_what_comes_later_is_checked_already(tmp_path: Path, later: dict[str, str], message: str) -> None:
    told = wrong(put(tmp_path, a=one(**later)))
    assert any(message in line for line in told)
    assert any("comes with a later version" in line for line in told)
