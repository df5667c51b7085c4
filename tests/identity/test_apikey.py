"""Who an API key is, wherever it stands in a request; and that one that does not hold never is anybody."""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Call, Fields, Principal
from gateway.errors import Unidentified
from gateway.identity.apikeys.apikey import ApiKey, ApiKeys
from gateway.identity.apikeys.keytext import digest_of, new_key
from gateway.identity.first import FirstOf
from gateway.identity.refused import BadKey, BadLogin
from tests.identity.conftest import EPOCH, Bench, Clock, bearing, call_with, challenge

AUTHORIZATION, X_API_KEY = b"authorization", b"x-api-key"
KEY, OTHER, SHORT, GONE, STRANGER = (new_key(f"{name:0<8}") for name in ("good", "other", "short", "gone", "nobody"))


def kept(text: str, owner: str = "batch", *groups: str, **more: float) -> ApiKey:
    return ApiKey(text[6:14], digest_of(text), owner, frozenset(groups), EPOCH - 100, **more)


class Chest:
    """Keys of which one ends in a minute and one was revoked, and all that was counted."""

    def __init__(self) -> None:
        self.wall = Clock(EPOCH)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.used: dict[str, float] = {}
        keys = [
            kept(KEY, "batch", "data-science", "nightly"),
            kept(OTHER, "batch", "data-science"),
            kept(SHORT, "visitor", expires=EPOCH + 60),
            kept(GONE, "leaver", revoked=EPOCH - 1),
        ]
        self.identity = ApiKeys(keys, self.wall, self.count, self.used.__setitem__)
        self.first = FirstOf([self.identity])

    def count(self, provider: str, result: str) -> None:
        self.counts[provider, result] += 1

    def ask(self, call: Call) -> Principal | None:
        """One step is all there is: nothing waits."""
        try:
            self.identity.identify(call).send(None)
        except StopIteration as done:
            found: Principal | None = done.value
            return found
        raise AssertionError("it waits")

    def refused(self, *fields: tuple[bytes, bytes]) -> Unidentified:
        with pytest.raises(Unidentified) as caught:
            self.ask(call_with(*fields))
        assert caught.value.status == 401
        return caught.value


@pytest.fixture
def chest() -> Chest:
    return Chest()


def basic(password: str, name: str = "anybody") -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())


def in_every_way(key: str) -> list[Fields]:
    return [
        ((AUTHORIZATION, f"Bearer {key}".encode()),),
        ((AUTHORIZATION, f"bearer  {key} ".encode()),),
        ((X_API_KEY, key.encode()),),
        ((X_API_KEY, f" {key}\t".encode()),),
        ((AUTHORIZATION, basic(key)),),
        ((AUTHORIZATION, basic(key, "någon")),),
    ]


@pytest.mark.parametrize("fields", in_every_way(KEY))
def test_a_key_is_its_owner_in_the_owners_groups_however_it_is_sent(chest: Chest, fields: Fields) -> None:
    assert chest.ask(call_with(*fields)) == Principal(
        subject="batch",
        issuer="api_keys",
        provider="api_keys",
        groups=frozenset({"data-science", "nightly"}),
        client=KEY[6:14],
        credential=KEY[6:14],
    )
    assert chest.counts == {("api_keys", "ok"): 1}
    assert chest.used == {KEY[6:14]: EPOCH}


def test_two_keys_of_one_owner_hold_beside_each_other_and_are_told_apart(chest: Chest) -> None:
    """So that one can be brought in while the other is still in use."""
    found = [chest.ask(call_with((X_API_KEY, key.encode()))) for key in (KEY, OTHER)]
    assert [one and (one.subject, one.credential) for one in found] == [("batch", KEY[6:14]), ("batch", OTHER[6:14])]


@pytest.mark.parametrize(
    ("key", "reason"), [(STRANGER, "unknown_api_key"), (GONE, "revoked"), (new_key(KEY[6:14]), "unknown_api_key")]
)
def test_unknown_wrong_and_revoked_keys_are_refused_in_the_same_words(chest: Chest, key: str, reason: str) -> None:
    """Whoever tries learns nothing of which keys there are; operators are told."""
    for fields in in_every_way(key)[:4]:
        error = chest.refused(*fields)
        assert isinstance(error, BadKey)
        assert error.message == "The API key is not accepted: it does not hold."
        assert error.detail == f"{reason} key={key[6:14]}"
        assert b'error="invalid_token"' in challenge(error.headers)
    for fields in in_every_way(key)[4:]:
        error = chest.refused(*fields)
        assert isinstance(error, BadLogin)
        assert challenge(error.headers).startswith(b"Basic ")
    assert chest.counts == {("api_keys", reason): 6}
    assert chest.used == {}


def test_a_key_ends_at_its_expiry_also_where_it_was_remembered(chest: Chest) -> None:
    call = call_with((X_API_KEY, SHORT.encode()))
    chest.wall.at = EPOCH + 59
    assert chest.ask(call) is not None
    assert chest.identity.recall(call) is not None
    chest.wall.at = EPOCH + 60
    assert chest.identity.recall(call) is None
    error = chest.refused((X_API_KEY, SHORT.encode()))
    assert error.message == "The API key is not accepted: it has expired."
    assert chest.counts == {("api_keys", "ok"): 1, ("api_keys", "cached"): 1, ("api_keys", "expired"): 1}


def test_a_head_that_comes_again_is_the_same_caller_and_counts_as_a_use(chest: Chest) -> None:
    call = call_with((X_API_KEY, KEY.encode()))
    first = chest.ask(call)
    chest.wall.at += 10
    assert chest.identity.recall(call) is first
    assert chest.used == {KEY[6:14]: EPOCH + 10}
    assert chest.identity.recall(call_with((X_API_KEY, KEY.encode()))) is None


@pytest.mark.parametrize(
    "text",
    [KEY[:-1], KEY[:-1] + "-", KEY + "x", KEY.upper(), f"{KEY} {KEY}", f"{KEY},{KEY}", "sk-abc", "", "a.b.c", KEY[6:]],
)
def test_a_slip_of_the_hand_is_said_as_one(chest: Chest, text: str) -> None:
    """And no key is looked for."""
    error = chest.refused((X_API_KEY, text.encode()))
    assert error.message == "The API key is not accepted: it is not a whole key; copy it again."
    assert chest.counts == {("api_keys", "malformed"): 1}


JWT = b"Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA"
PAIRS = [
    ((AUTHORIZATION, f"Bearer {KEY}".encode()), (X_API_KEY, KEY.encode())),
    ((X_API_KEY, KEY.encode()), (X_API_KEY, KEY.encode())),
    ((AUTHORIZATION, f"Bearer {KEY}".encode()), (AUTHORIZATION, f"Bearer {KEY}".encode())),
    ((AUTHORIZATION, JWT), (X_API_KEY, KEY.encode())),
    ((AUTHORIZATION, b""), (X_API_KEY, KEY.encode())),
    ((AUTHORIZATION, f"Bearer {KEY}".encode()), (X_API_KEY, b"")),
    ((AUTHORIZATION, basic("hunter2")), (X_API_KEY, KEY.encode())),
]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_credentials_none_is_picked(chest: Chest, pair: Fields, turned: bool) -> None:
    """B076: the next hop could take the other one."""
    error = chest.refused(*(reversed(pair) if turned else pair))
    assert "one credential" in error.message
    assert chest.counts == {("unknown", "malformed"): 1}


@pytest.mark.parametrize(
    "value", [JWT, basic("hunter2"), basic("x" + KEY), b"Negotiate abc", b"DPoP " + KEY.encode(), b"", KEY.encode()]
)
def test_another_kind_of_credential_is_left_to_others(chest: Chest, value: bytes) -> None:
    assert chest.ask(call_with((AUTHORIZATION, value))) is None
    assert chest.ask(call_with((b"host", b"gw.test"))) is None
    assert not chest.counts


@pytest.mark.parametrize("value", [b"Bearer", b"Bearer a b", b"Basic", b"Basic !", basic("")[:-1]])
def test_an_odd_form_is_refused_and_counted_once(chest: Chest, value: bytes) -> None:
    """An identity behind this one would say the same."""
    chest.refused((AUTHORIZATION, value))
    assert chest.counts == {("unknown", "malformed"): 1}


async def test_keys_and_tokens_stand_beside_each_other(chest: Chest, bench: Bench) -> None:
    first = FirstOf([chest.identity, bench.identity])
    assert (await first.identify(bearing(KEY))).subject == "batch"
    assert (await first.identify(bearing(bench.token()))).subject == "alice"
    with pytest.raises(BadKey):
        await first.identify(bearing(STRANGER))
    with pytest.raises(Unidentified, match="bearer token"):
        await first.identify(bearing("nimgw_"[:5]))


def test_nothing_that_is_printed_or_said_holds_the_key_or_its_digest(chest: Chest) -> None:
    known = kept(KEY)
    for shown in (known, ApiKeys([known], chest.wall, chest.count, chest.used.__setitem__).__dict__):
        assert KEY not in repr(shown)
        assert repr(digest_of(KEY)) not in repr(shown)
    error = chest.refused((X_API_KEY, STRANGER.encode()))
    assert STRANGER[15:] not in f"{error.message} {error.detail} {error.headers!r}"


values = st.binary(max_size=120) | st.sampled_from(in_every_way(STRANGER)).map(lambda fields: fields[0][1])


@given(value=values, name=st.sampled_from([AUTHORIZATION, X_API_KEY]))
def test_any_bytes_are_nobody_and_never_a_fault(value: bytes, name: bytes) -> None:
    chest = Chest()
    try:
        assert chest.ask(call_with((name, value))) is None
    except Unidentified as error:
        assert sum(chest.counts.values()) == 1
        said = challenge(error.headers).decode()
        assert re.fullmatch(r'(Bearer|Basic) realm="nim-gateway", [ !#-\[\]-~"]+', said)


@given(st.integers(0, 31), st.integers(0, 7))
def test_a_digest_that_differs_in_one_bit_lets_nobody_in(byte: int, bit: int) -> None:
    wrong = bytearray(digest_of(KEY))
    wrong[byte] ^= 1 << bit
    chest = Chest()
    chest.identity = ApiKeys([replace(kept(KEY), digest=bytes(wrong))], chest.wall, chest.count, chest.used.__setitem__)
    chest.refused((X_API_KEY, KEY.encode()))
