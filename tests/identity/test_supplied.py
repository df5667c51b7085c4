"""Groups from a directory for the callers of another provider: never the token's, never for longer than they hold."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import GroupsUnknown, IdentityUnavailable
from gateway.identity.refused import BadLogin, BadToken, Result
from gateway.identity.tokens.identity import BearerIdentity
from gateway.identity.tokens.supplied import GroupsSupplied
from tests.identity.conftest import Bench, bearing


class Directory:
    """What a directory may say, word for word; `asked` is whom it was asked about."""

    def __init__(self) -> None:
        self.says: frozenset[str] | Exception = frozenset({"data-science"})
        self.holds = 300.0
        self.asked: list[str] = []

    async def groups_of(self, subject: str) -> frozenset[str]:
        self.asked.append(subject)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, None)
        await answer
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def groups_hold(self, subject: str) -> float:
        return self.holds


@pytest.fixture
def directory(bench: Bench) -> Directory:
    """That of the bench's issuer from now on."""
    made = Directory()
    voucher = GroupsSupplied(bench.issuer, made, bench.wall)
    bench.identity = BearerIdentity([voucher], bench.wall, bench.count)
    return made


@pytest.mark.parametrize("claims", [{}, {"groups": ...}, {"groups": ["admins"]}, {"groups": ..., "hasgroups": True}])
async def test_the_directorys_groups_count_and_the_tokens_do_not(
    bench: Bench, directory: Directory, claims: dict[str, object]
) -> None:
    """Also where the token leaves them out."""
    principal = await bench.identify(bench.token(jti="t-1", **claims))
    assert (principal.groups, principal.groups_known) == (frozenset({"data-science"}), True)
    assert (principal.subject, principal.provider, principal.credential) == ("alice", "corp", "t-1")
    assert directory.asked == ["alice"]


async def test_somebody_whom_the_directory_does_not_know_has_no_groups(bench: Bench, directory: Directory) -> None:
    directory.says = frozenset()
    principal = await bench.identify(bench.token())
    assert (principal.groups, principal.groups_known) == (frozenset(), True)


async def test_an_account_that_is_not_to_be_used_is_refused(bench: Bench, directory: Directory) -> None:
    directory.says = BadLogin(Result.REFUSED_ACCOUNT, "disabled")
    with pytest.raises(BadToken, match="its subject has no account that holds") as caught:
        await bench.identity.identify(bearing(bench.token()))
    assert caught.value.detail == "disabled"
    assert caught.value.__cause__ is None
    assert bench.counts == {("corp", "refused_account"): 1}


async def test_a_directory_that_cannot_be_asked_is_503_and_nothing_is_remembered(
    bench: Bench, directory: Directory
) -> None:
    token = bench.token()
    directory.says = IdentityUnavailable(retry_after=5)
    with pytest.raises(IdentityUnavailable):
        await bench.identity.identify(bearing(token))
    assert bench.counts == {("corp", "unavailable"): 1}
    directory.says = frozenset({"ops"})
    assert (await bench.identify(token)).groups == {"ops"}


async def test_too_many_groups_are_unknown_groups(bench: Bench, directory: Directory) -> None:
    """Rules that need none still let the caller in."""
    directory.says = GroupsUnknown()
    principal = await bench.identify(bench.token())
    assert (principal.groups, principal.groups_known) == (frozenset(), False)


async def test_what_a_directory_said_is_remembered_as_long_as_it_holds_and_no_longer(
    bench: Bench, directory: Directory
) -> None:
    token = bench.token()
    directory.holds = 100.0
    first = await bench.identify(token)
    directory.says = frozenset()
    bench.wall.at += 99.9
    assert await bench.identify(token) is first
    assert directory.asked == ["alice"]
    bench.wall.at += 0.1
    assert (await bench.identify(token)).groups == frozenset()
    directory.holds, directory.says = 0.0, frozenset({"ops"})
    bench.wall.at += 100
    assert (await bench.identify(token)).groups == {"ops"}
    directory.says = frozenset()
    assert (await bench.identify(token)).groups == frozenset()


async def test_a_token_that_ends_before_is_not_remembered_for_longer(bench: Bench, directory: Directory) -> None:
    token = bench.token(exp=bench.wall.at + 10)
    await bench.identify(token)
    bench.wall.at += 70
    assert await bench.refused(token) == "expired"


async def test_nobody_is_asked_about_the_subject_of_a_token_that_does_not_hold(
    bench: Bench, directory: Directory
) -> None:
    """Else anybody could make the gateway search for any name."""
    for token in (bench.token(exp=1), bench.token(aud="x"), bench.token()[:-8] + "AAAAAAAA"):
        await bench.refused(token)
    assert directory.asked == []
