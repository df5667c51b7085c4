"""What was revoked is refused like what nobody knows, and the file that says so is strict."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Call, Principal
from gateway.config.mistakes import Mistakes
from gateway.errors import Unidentified
from gateway.identity.apikeys.apikey import ApiKeys
from gateway.identity.first import FirstOf
from gateway.identity.revocation.revoked import Revoked
from gateway.identity.revocation.revokedfile import load
from tests.identity.conftest import EPOCH, Bench, Clock, bearing, call_with
from tests.identity.test_apikey import KEY, kept

PROVIDERS = {"corp", "partner", "api_keys"}
ALICE = Principal("alice", "https://idp.test", "corp", credential="t-1")
ANON = replace(ALICE, credential=None)
KEYED = Principal("batch", "api_keys", "api_keys", client="k7f3m2qa", credential="k7f3m2qa")

GOOD = """\
version: 1
tokens:
  - t-1
  - {token: t-2, provider: partner, reason: lost laptop, at: 2026-01-31T12:00:00Z}
subjects:
  - alice
  - subject: bob
    provider: corp
    reason: left the company
keys: [k7f3m2qa, {key: "00000001", reason: found in a repository}]
"""


def wrong(folder: Path, text: str) -> list[str]:
    file = folder / "revoked.yaml"
    file.write_text(text)
    with pytest.raises(Mistakes) as caught:
        load(file, PROVIDERS)
    return [str(mistake).removeprefix(f"{file}:") for mistake in caught.value.mistakes]


def test_a_good_file_gives_what_is_revoked(tmp_path: Path) -> None:
    (tmp_path / "revoked.yaml").write_text(GOOD)
    assert load(tmp_path / "revoked.yaml", PROVIDERS) == Revoked(
        tokens=frozenset({("", "t-1"), ("partner", "t-2")}),
        subjects=frozenset({("", "alice"), ("corp", "bob")}),
        keys=frozenset({"k7f3m2qa", "00000001"}),
    )


@pytest.mark.parametrize("text", ["version: 1\n", "version: 1\ntokens: []\nsubjects: []\nkeys: []\n"])
def test_a_file_may_revoke_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "revoked.yaml").write_text(text)
    assert load(tmp_path / "revoked.yaml", PROVIDERS) == Revoked()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version: 1", "version: 1.0", "1:1: expected 1"),
        ("tokens:", "token:", "2:1: unknown setting 'token'; did you mean 'tokens'?"),
        ("- t-1", "- 17", "3:5: expected a name: text in one line, of 1 to 512 characters; put it in quotes"),
        ("- t-1", "- ''", "3:5: expected a name"),
        ("- t-1", "- [t-1]", "3:5: expected a name"),
        ("token: t-2", "jti: t-2", "4:5: the setting 'token' is missing"),
        ("provider: partner", "provider: partnr", "4:18: no identity provider is called 'partnr'; there is api_keys"),
        ("at: 2026-01-31T12:00:00Z", "at: yesterday", "4:58: expected a time in UTC"),
        ("- alice", "- 'alice '", "6:5: begins or ends with a space"),
        ("reason: left", "raison: left", "9:5: unknown setting 'raison'; did you mean 'reason'?"),
        ("k7f3m2qa,", "K7F3M2QA,", "10:8: expected the id of a key: the eight letters and digits behind nimgw_"),
        ("keys: [", "keys: [nimgw_k7f3m2qa_abc, ", "10:8: expected the id of a key"),
        ("- alice", "-", "6:4: expected a name"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    """One that was overlooked would revoke nothing."""
    assert old in GOOD
    lines = wrong(tmp_path, GOOD.replace(old, new))
    assert any(line.startswith(said) for line in lines), lines
    assert "nimgw_k7" not in str(lines)


def whole(**claims: str) -> str:
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({"alg": "ES256"}, claims)
    )
    return f"{header}.{body}.{'A' * 700}"


@pytest.mark.parametrize("form", ["- {}", "- {{token: {}, provider: corp}}"])
@pytest.mark.parametrize(
    ("token", "said"),
    [
        (whole(jti="t-17"), "this is a whole token; give its jti in place of it: its jti is t-17"),
        (whole(sub="bob"), "this is a whole token; give its jti in place of it: it has no jti, so revoke its subject"),
        (KEY, "this is an API key, not the jti of a token; write its id under keys"),
    ],
    ids=["token", "no name", "key"],
)
def test_a_credential_in_place_of_its_name_is_a_mistake_that_says_the_name(
    tmp_path: Path, form: str, token: str, said: str
) -> None:
    """It would revoke nothing, and whoever reads the file could call with it."""
    (line,) = wrong(tmp_path, GOOD.replace("- t-1", form.format(token)))
    assert line.endswith(f": {said}")
    assert line.startswith("3:")


@pytest.mark.parametrize("name", ["a.b.c", "eyJh.eyJh.x", "urn:x.y.z"])
def test_a_name_may_have_dots(tmp_path: Path, name: str) -> None:
    (tmp_path / "revoked.yaml").write_text(f"version: 1\ntokens: ['{name}']\n")
    assert load(tmp_path / "revoked.yaml", PROVIDERS).tokens == {("", name)}


@pytest.mark.parametrize("text", ["[]", "version: 1\ntokens: t-1\n", "version: 1\nkeys: {a: b}\n", "1", "x"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    assert wrong(tmp_path, text)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistakes, match="1:1: cannot be read: No such file"):
        load(tmp_path / "revoked.yaml", PROVIDERS)


@pytest.mark.parametrize(
    ("revoked", "principal", "why"),
    [
        (Revoked(), ALICE, ""),
        (Revoked(tokens=frozenset({("", "t-1")})), ALICE, "token=t-1 provider=corp"),
        (Revoked(tokens=frozenset({("corp", "t-1")})), ALICE, "token=t-1 provider=corp"),
        (Revoked(tokens=frozenset({("partner", "t-1")})), ALICE, ""),
        (Revoked(tokens=frozenset({("", "t-1")})), ANON, ""),
        (Revoked(subjects=frozenset({("", "alice")})), ALICE, "subject=alice provider=corp"),
        (Revoked(subjects=frozenset({("corp", "alice")})), ANON, "subject=alice provider=corp"),
        (Revoked(subjects=frozenset({("partner", "alice")})), ALICE, ""),
        (Revoked(subjects=frozenset({("", "Alice")})), ALICE, ""),
        (Revoked(subjects=frozenset({("", "batch")})), KEYED, "subject=batch provider=api_keys"),
        (Revoked(keys=frozenset({"k7f3m2qa"})), KEYED, "key=k7f3m2qa"),
        (Revoked(tokens=frozenset({("", "k7f3m2qa")})), KEYED, ""),
        (Revoked(keys=frozenset({"t-1"})), ALICE, ""),
    ],
)  # fmt: skip
def test_exactly_what_is_listed_is_revoked(revoked: Revoked, principal: Principal, why: str) -> None:
    assert revoked.why(principal) == why


words = st.sampled_from(["a", "b", "c"])
pairs = st.frozensets(st.tuples(st.sampled_from(["", "corp", "partner"]), words))


@given(tokens=pairs, subjects=pairs, subject=words, jti=st.none() | words)
def test_a_longer_list_never_lets_more_in(
    tokens: frozenset[tuple[str, str]], subjects: frozenset[tuple[str, str]], subject: str, jti: str | None
) -> None:
    principal = Principal(subject, "i", "corp", credential=jti)
    each = [Revoked(tokens=frozenset({one})) for one in tokens]
    each += [Revoked(subjects=frozenset({one})) for one in subjects]
    assert bool(Revoked(tokens, subjects).why(principal)) == any(one.why(principal) for one in each)


async def refused(first: FirstOf, call: Call) -> Unidentified:
    with pytest.raises(Unidentified) as caught:
        await first.identify(call)
    assert caught.value.status == 401
    assert first.recall(call) is None
    return caught.value


async def test_a_revoked_token_is_refused_also_where_it_was_remembered(bench: Bench) -> None:
    token = bench.token(jti="t-1")
    before = FirstOf([bench.identity])
    call = bearing(token)
    for _ in range(2):
        assert (await before.identify(call)).credential == "t-1"
    assert before.recall(call) is not None
    # The identity itself still remembers it; what a reload builds asks the list as well.
    after = FirstOf([bench.identity], revoked=Revoked(tokens=frozenset({("", "t-1")})), count=bench.count)
    for _ in range(2):
        error = await refused(after, call)
    assert error.message == "The bearer token is not accepted: it does not hold."
    assert error.detail == "revoked token=t-1 provider=corp"
    assert bench.counts["corp", "revoked"] == 2
    assert (await after.identify(bearing(bench.token(jti="t-2")))).subject == "alice"


@pytest.mark.parametrize("jti", [..., None, 7, "", ["t-1"], "a\nb"])
async def test_a_token_without_a_plain_jti_can_be_revoked_by_its_subject_only(bench: Bench, jti: object) -> None:
    principal = await bench.identify(bench.token(jti=jti))
    assert principal.credential is None
    first = FirstOf([bench.identity], revoked=Revoked(subjects=frozenset({("corp", "alice")})))
    await refused(first, bearing(bench.token(jti=jti)))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ((b"x-api-key", KEY.encode()), "The API key is not accepted: it does not hold."),
        ((b"authorization", f"Bearer {KEY}".encode()), "The API key is not accepted: it does not hold."),
        (
            (b"authorization", b"Basic " + base64.b64encode(f"x:{KEY}".encode())),
            "The name or the password is not accepted.",
        ),
    ],
)
async def test_a_revoked_key_is_refused_like_an_unknown_one(field: tuple[bytes, bytes], message: str) -> None:
    counts: Counter[tuple[str, str]] = Counter()

    def count(provider: str, result: str) -> None:
        counts[provider, result] += 1

    keys = ApiKeys([kept(KEY)], Clock(EPOCH), count, lambda *_: None)
    first = FirstOf([keys], revoked=Revoked(keys=frozenset({KEY[6:14]})), count=count)
    error = await refused(first, call_with(field))
    assert error.message == message
    assert error.detail == f"revoked key={KEY[6:14]}"
    assert counts["api_keys", "revoked"] == 1
