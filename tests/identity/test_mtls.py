"""Callers known by their certificate: which name counts, and when none does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import Call, Channel, ClientCertificate, Principal
from gateway.errors import GroupsUnknown, IdentityUnavailable
from gateway.identity.first import FirstOf
from gateway.identity.mtls import CertificateIdentity, named
from gateway.identity.refused import BadCertificate, BadLogin, Result
from gateway.identity.revocation.revoked import Revoked
from gateway.settings import Mtls
from tests.identity.conftest import EPOCH, Clock, challenge
from tests.parts.people import Authority

SPIFFE = "spiffe://prod.example/ns/ml/sa/batch"
URI = x509.UniformResourceIdentifier(SPIFFE)
HOST = x509.DNSName("batch.example.com")
MAIL = x509.RFC822Name("alice@example.com")
Field = tuple[bytes, bytes]
#: Seconds for which the directory lets its word be remembered.
HELD = 60.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("people"))


class Directory:
    """Knows groups, or fails as told."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails = fails
        self.asked: list[str] = []

    async def groups_of(self, subject: str) -> frozenset[str]:
        self.asked.append(subject)
        if self.fails is not None:
            raise self.fails
        return frozenset({"ds"})

    def groups_hold(self, subject: str) -> float:
        return HELD


class Desk:
    """The identity under test, its clocks and its counts."""

    def __init__(self, which: str = "san_uri", directory: Directory | None = None) -> None:
        self.wall, self.steady = Clock(0.0), Clock(0.0)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.identity = CertificateIdentity(Mtls(which), directory, self.wall, self.steady, self.count)

    def count(self, provider: str, result: str) -> None:
        self.counts[provider, result] += 1

    async def identify(self, call: Call) -> Principal | None:
        return self.identity.recall(call) or await self.identity.identify(call)

    async def refused(self, der: bytes) -> BadCertificate:
        with pytest.raises(BadCertificate) as caught:
            await self.identity.identify(call_of(der))
        assert caught.value.status == 401
        assert challenge(caught.value.headers) == b'Bearer realm="nim-gateway"'
        return caught.value


def call_of(der: bytes | None, *fields: Field) -> Call:
    certificate = None if der is None else ClientCertificate(der)
    given = ((b"host", b"gw.test"), *fields)
    return Call("1", Channel.HTTP, "POST", "/v1/chat/completions", None, given, "127.0.0.1", 0.0, certificate)


@pytest.mark.parametrize(
    ("which", "subject"),
    [("san_uri", SPIFFE), ("san_dns", "batch.example.com"), ("san_email", "alice@example.com"), ("cn", "Alice Ω")],
)
async def test_a_caller_is_known_by_the_one_name_of_the_chosen_kind(
    authority: Authority, which: str, subject: str
) -> None:
    der = authority.issue(URI, HOST, MAIL, common=("Alice Ω",)).der
    desk = Desk(which)
    found = await desk.identify(call_of(der))
    assert found is not None
    assert (found.subject, found.issuer, found.provider, found.groups) == (subject, "mtls", "mtls", frozenset())
    assert found.credential == ClientCertificate(der).thumbprint
    assert found.expires == x509.load_der_x509_certificate(der).not_valid_after_utc.timestamp()


NAMELESS: dict[str, tuple[str, tuple[x509.GeneralName, ...], tuple[str, ...]]] = {
    "no URI": ("san_uri", (HOST, MAIL), (SPIFFE,)),
    "no host": ("san_dns", (URI,), ("batch.example.com",)),
    "no mailbox": ("san_email", (HOST,), ("alice@example.com",)),
    "no common name": ("cn", (URI, HOST), ()),
    "no names at all": ("san_uri", (), ("x",)),
    "two URIs": ("san_uri", (URI, x509.UniformResourceIdentifier("spiffe://prod.example/admin")), ()),
    "the same URI twice": ("san_uri", (URI, URI), ()),
    "two hosts": ("san_dns", (HOST, x509.DNSName("other.example.com")), ()),
    "two mailboxes": ("san_email", (MAIL, x509.RFC822Name("root@example.com")), ()),
    "two common names": ("cn", (), ("alice", "root")),
    "a host that stands for many": ("san_dns", (x509.DNSName("*.example.com"),), ()),
    "a line break": ("cn", (), ("alice\nroot",)),
    "a zero byte": ("san_dns", (x509.DNSName("a\0.evil.test"),), ()),
    "a very long one": ("san_uri", (x509.UniformResourceIdentifier("spiffe://x/" + "a" * 600),), ()),
}


@pytest.mark.parametrize("name", NAMELESS)
async def test_a_certificate_that_does_not_name_exactly_one_owner_is_nobodys(authority: Authority, name: str) -> None:
    which, names, common = NAMELESS[name]
    desk = Desk(which)
    refused = await desk.refused(authority.issue(*names, common=common).der)
    assert refused.detail == "bad_claims"
    assert desk.counts == {("mtls", "bad_claims"): 1}


@given(st.binary(max_size=200))
def test_what_is_no_certificate_is_nobodys(der: bytes) -> None:
    with pytest.raises(BadCertificate):
        named(der, "cn")


@pytest.mark.filterwarnings("ignore")  # the library warns of serial numbers that are none
@given(st.data())
def test_no_bent_certificate_is_a_fault(authority: Authority, data: st.DataObject) -> None:
    good = bytearray(GOOD or authority.issue(URI, HOST, MAIL, common=("alice",)).der)
    GOOD[:] = good
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    for which in ("san_uri", "san_dns", "san_email", "cn"):
        try:
            name, _ = named(bytes(good), which)
        except BadCertificate:
            continue
        assert name.isprintable() or not name.isascii()


GOOD = bytearray()


def test_a_certificate_of_a_version_that_there_is_not_is_nobodys(authority: Authority) -> None:
    """Found by the search above."""
    der = authority.issue(URI).der
    version = b"\xa0\x03\x02\x01\x02"
    assert version in der
    with pytest.raises(BadCertificate):
        named(der.replace(version, b"\xa0\x03\x02\x01\x0c", 1), "san_uri")


async def test_a_call_without_a_certificate_is_left_to_others() -> None:
    desk = Desk()
    assert await desk.identify(call_of(None)) is None
    assert not desk.counts


@pytest.mark.parametrize("field", [b"authorization", b"x-api-key"])
@pytest.mark.parametrize("value", [b"Bearer x", b"Basic YTpi", b""])
async def test_a_certificate_does_not_speak_for_who_says_something_else(
    authority: Authority, field: bytes, value: bytes
) -> None:
    """The credential that was sent is the one that is judged."""
    assert await Desk().identify(call_of(authority.issue(URI).der, (field, value))) is None


async def test_fields_that_speak_of_a_certificate_are_none() -> None:
    """B113."""
    fields = [
        (b"x-forwarded-client-cert", f"Hash=x;URI={SPIFFE}".encode()), (b"x-ssl-client-verify", b"SUCCESS"),
        (b"client-cert", b":MIIB:"), (b"ssl-client-subject-dn", b"CN=root"),
    ]  # fmt: skip
    assert await Desk().identify(call_of(None, *fields)) is None


async def test_a_certificate_is_read_once_and_its_end_watched(authority: Authority) -> None:
    """Also on a connection that outlives it."""
    der = authority.issue(URI).der
    desk, call = Desk(), call_of(der)
    found = await desk.identify(call)
    assert found is not None
    assert await desk.identify(call) is found
    assert await desk.identify(call_of(der)) is found
    assert desk.counts == {("mtls", "ok"): 1, ("mtls", "cached"): 2}
    desk.wall.at = found.expires - 0.1
    assert await desk.identify(call) is found
    desk.wall.at = found.expires
    assert desk.identity.recall(call) is None
    assert (await desk.refused(der)).detail == "expired"


async def test_groups_come_from_a_directory_and_count_for_a_minute(authority: Authority) -> None:
    directory = Directory()
    desk, call = Desk("san_dns", directory), call_of(authority.issue(HOST).der)
    for _ in range(3):
        found = await desk.identify(call)
        assert found is not None
        assert (found.groups, found.groups_known) == (frozenset({"ds"}), True)
    assert directory.asked == ["batch.example.com"]
    desk.steady.at += 59.9
    await desk.identify(call)
    assert len(directory.asked) == 1
    desk.steady.at += 0.1
    await desk.identify(call)
    assert len(directory.asked) == 2


@pytest.mark.parametrize(
    ("fails", "raised"),
    [
        (IdentityUnavailable(retry_after=5), IdentityUnavailable),
        (BadLogin(Result.REFUSED_ACCOUNT, "off"), BadCertificate),
    ],
)
async def test_a_directory_that_says_no_or_nothing_is_heard(
    authority: Authority, fails: Exception, raised: type[Exception]
) -> None:
    """And asked again the next time: nothing of it is remembered."""
    directory = Directory(fails)
    desk, der = Desk("san_uri", directory), authority.issue(URI).der
    for _ in range(2):
        with pytest.raises(raised):
            await desk.identity.identify(call_of(der))
    assert len(directory.asked) == 2
    assert len(desk.counts) == 1
    directory.fails = None
    assert await desk.identify(call_of(der)) is not None


async def test_groups_that_are_too_many_are_unknown_and_not_none(authority: Authority) -> None:
    found = await Desk("san_uri", Directory(GroupsUnknown())).identify(call_of(authority.issue(URI).der))
    assert found is not None
    assert (found.groups, found.groups_known) == (frozenset(), False)


async def test_what_is_remembered_is_bounded(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.identity.mtls.REMEMBERED_LIMIT", 2)
    desk = Desk()
    ders = [authority.issue(URI).der for _ in range(3)]
    for der in (*ders, *ders[1:], ders[0]):
        await desk.identify(call_of(der))
    assert desk.counts == {("mtls", "ok"): 4, ("mtls", "cached"): 2}
    assert desk.identity.entries == 2


def test_the_time_that_counts_is_the_one_in_the_certificate(authority: Authority, tmp_path: Path) -> None:
    name, expires = named(authority.issue(URI).der, "san_uri")
    assert name == SPIFFE
    assert expires < EPOCH


async def test_a_certificate_of_somebody_revoked_is_refused_in_the_words_for_certificates(authority: Authority) -> None:
    desk, der = Desk("cn"), authority.issue(common=("al",)).der
    revoked = Revoked(subjects=frozenset({("mtls", "al")}))
    first = FirstOf([desk.identity], revoked=revoked, count=desk.count)
    with pytest.raises(BadCertificate, match="client certificate is not accepted: it does not hold") as caught:
        await first.identify(call_of(der))
    assert caught.value.detail == "revoked subject=al provider=mtls"
    assert first.recall(call_of(der)) is None
    assert desk.counts["mtls", "revoked"] == 1
