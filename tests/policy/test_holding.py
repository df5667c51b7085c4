"""Which rules hold when and for whom is what their conditions say, however little of it is worked out again."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.conditions import Window
from gateway.policy.engine import Policy
from gateway.policy.holding import PEERS_LIMIT, Holding
from gateway.policy.rules import Effect, Rule
from gateway.terms import Terms
from tests.policy.reference import PEERS, ZONES, Where, holds, some_rules, some_where, some_window
from tests.policy.rules import ANN, CHAT, rule
from tests.policy.work import lines_run

NOON = 1_796_126_400.0  # a Tuesday, in UTC
OFFICE = Window("UTC", frozenset(range(5)), 8 * 60, 20 * 60)


def networks(*texts: str) -> dict[str, Any]:
    return {"networks": tuple(map(ipaddress.ip_network, texts))}


@given(some_rules, st.lists(some_where, min_size=1, max_size=8))
def test_a_rule_holds_while_each_of_its_conditions_does(rules: list[Rule], asked: list[Where]) -> None:
    """Times go to and fro, and addresses come again."""
    policy = Policy(rules)
    for where in (*asked, *asked[::-1]):
        expected = sum(1 << number for number, each in enumerate(policy.rules) if holds(each, where))
        assert policy.holding(*where) == expected


@given(some_rules, st.sampled_from(PEERS), st.floats(NOON - 200_000, NOON + 200_000))
def test_a_clock_that_is_put_back_opens_and_closes_again(rules: list[Rule], peer: str | None, at: float) -> None:
    policy = Policy(rules)
    first = policy.holding(at, peer)
    policy.holding(at + 40_000, peer)
    assert policy.holding(at, peer) == first


def many(count: int) -> list[Rule]:
    """Each with hours of its own in one of several zones, and networks of its own of both kinds."""
    return [
        rule(
            f"r{n}",
            Effect.DENY if n % 7 == 0 else Effect.ALLOW,
            groups=frozenset({f"g{n}", "ds"} if n % 7 else {f"g{n}"}),
            models=(f"org{n % 9}/model-{n}", f"org{n % 9}/*-{n}"),
            window=Window(ZONES[n % len(ZONES)], frozenset({n % 7, (n + 1) % 7}), n, (n + 500) % 1440 + 1),
            **networks(f"10.{n // 256}.{n % 256}.0/{24 + n % 9}", f"2001:db8:{n:x}::/48"),
        )
        for n in range(count)
    ]


def test_what_holds_takes_no_more_steps_with_a_thousand_rules_than_with_ten() -> None:
    def steps(count: int) -> int:
        policy = Policy(many(count))
        policy.holding(NOON, "192.0.2.1")
        return lines_run(lambda: policy.holding(NOON + 1, "10.0.7.1"))

    assert steps(1000) <= steps(10) + 10


def test_what_held_for_a_client_a_moment_ago_is_not_worked_out_again() -> None:
    policy = Policy(many(1000))
    first = lines_run(lambda: policy.holding(NOON, "10.0.7.1"))
    again = lines_run(lambda: policy.holding(NOON + 59, "10.0.7.1"))
    assert again < first / 2


def test_a_minute_that_begins_takes_a_few_steps_for_each_zone_and_not_for_each_rule() -> None:
    def steps(count: int) -> int:
        policy = Policy(many(count))
        policy.holding(NOON, "10.0.7.1")
        return lines_run(lambda: policy.holding(NOON + 60, "10.0.7.1"))

    assert steps(1000) <= steps(10)


@given(st.lists(some_window, max_size=8), st.lists(st.integers(1_300_000_000, 1_800_000_000), min_size=1, max_size=9))
def test_windows_that_are_looked_up_together_are_those_that_are_open_by_themselves(
    windows: list[Window], times: list[int]
) -> None:
    holding = Holding(tuple(rule(f"r{number}", window=window) for number, window in enumerate(windows)))
    for at in times:
        assert holding.at(at, None) == sum(1 << n for n, window in enumerate(windows) if window.holds(at))


def test_without_conditions_nothing_is_asked_of_time_and_address() -> None:
    plain, conditional = Policy([rule(f"r{n}") for n in range(1000)]), Policy(many(1))
    conditional.holding(NOON, "10.0.7.1")
    remembered = lines_run(lambda: conditional.holding(NOON, "10.0.7.1"))
    assert (
        lines_run(lambda: plain.holding(NOON, "10.0.7.1")) <= remembered
    )  # both one where the lines of a compiled module are not seen


def test_addresses_that_are_remembered_are_bounded() -> None:
    """The one that was worked out first is worked out anew once there are too many; the last is not."""
    holding = Holding((rule(**networks("10.0.0.0/8")),))
    for number in range(PEERS_LIMIT // 2 + 1):
        assert holding.at(NOON, f"10.0.{number // 256}.{number % 256}") == 1
        assert holding.at(NOON, f"11.0.{number // 256}.{number % 256}") == 0
    last = lines_run(lambda: holding.at(NOON, f"11.0.{number // 256}.{number % 256}"))
    assert lines_run(lambda: holding.at(NOON, "10.0.0.0")) > last


@pytest.mark.parametrize(
    ("network", "peer", "inside"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.0.0.0/8", "9.255.255.255", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.1.2.3/32", "10.1.2.3", True),
        ("10.1.2.3/32", "10.1.2.2", False),
        ("0.0.0.0/0", "192.0.2.1", True),
        ("0.0.0.0/0", "::1", False),
        ("::/0", "::1", True),
        ("::/0", "192.0.2.1", False),
        ("::/0", "::ffff:192.0.2.1", False),
        ("::a00:0/104", "10.0.0.1", False),
        ("fe80::/64", "fe80::1%eth0", True),
        ("2001:db8::/32", "2001:db9::", False),
        ("2001:db8::1/128", "2001:db8::1", True),
    ],
)
def test_a_network_reaches_from_its_first_to_its_last_address(network: str, peer: str, *, inside: bool) -> None:
    for effect in Effect:
        policy = Policy([rule(effect=effect, **networks(network))])
        assert policy.holding(NOON, peer) == int(inside)


@pytest.mark.parametrize("peer", [None, "", "unix:", "not an address", "10.0.0.1, 10.0.0.2"])
def test_for_a_client_without_an_address_nothing_lets_in_by_it_and_everything_denies(peer: str | None) -> None:
    everywhere = networks("0.0.0.0/0", "::/0")
    allows, denies = rule(**everywhere), rule("no", Effect.DENY, line=8, **everywhere)
    assert not Policy([allows]).may(ANN, CHAT, Policy([allows]).holding(NOON, peer))
    policy = Policy([rule(line=6), denies])
    assert not policy.may(ANN, CHAT, policy.holding(NOON, peer))
    assert not policy.may(ANN, CHAT), "nor where nobody says when and from where"


def test_a_remembered_grant_ends_as_its_window_closes() -> None:
    policy = Policy([rule(window=OFFICE)])
    closes = NOON + 8 * 3600

    def may(at: float) -> bool:
        return policy.may(ANN, CHAT, policy.holding(at, None))

    assert [may(closes - 1), may(closes - 0.001), may(closes), may(closes - 1)] == [True, True, False, True]


def test_a_decision_takes_no_more_steps_with_a_thousand_conditional_rules_than_with_ten() -> None:
    def steps(count: int) -> int:
        policy = Policy(many(count))
        holding = policy.holding(NOON, "10.0.7.1")
        return lines_run(lambda: policy.decide(ANN, ModelRef("org0/model-9x", Operation.INFER), holding))

    assert steps(1000) <= steps(10) + 60


def test_terms_that_many_rules_share_are_gathered_once() -> None:
    def steps(count: int) -> int:
        rules = [rule(f"r{n}", line=n, terms=Terms(max_tokens=1 + n % 3)) for n in range(count)]
        policy = Policy(rules)
        assert [terms.max_tokens for _, terms in policy.decide(ANN, CHAT).terms] == [1, 2, 3]
        return lines_run(lambda: policy.decide(ANN, CHAT))

    assert steps(1000) <= steps(10) + 10


class TestGroupsAndScopesThatNarrow:
    ANN = Principal("ann", "https://idp.test", "corp", frozenset({"ds"}), scopes=frozenset({"chat", "openid"}))

    def may(self, caller: Principal, *rules: Rule) -> bool:
        return Policy(rules).may(caller, CHAT)

    @pytest.mark.parametrize(
        ("scopes", "allowed"), [({"chat"}, True), ({"train", "chat"}, True), ({"train"}, False), ({"Chat"}, False)]
    )
    def test_one_of_the_scopes_is_enough_and_needed(self, scopes: set[str], *, allowed: bool) -> None:
        assert self.may(self.ANN, rule(scopes=frozenset(scopes))) is allowed
        assert not self.may(self.ANN, rule(users=frozenset({"bob"}), scopes=frozenset(scopes)))
        assert self.may(self.ANN, rule(), rule("no", Effect.DENY, scopes=frozenset(scopes))) is not allowed

    def test_who_carries_no_scopes_has_none(self) -> None:
        assert not self.may(ANN, rule(scopes=frozenset({"chat"})))

    def test_one_of_the_groups_that_must_be_absent_is_enough_to_be_left_out(self) -> None:
        assert self.may(self.ANN, rule(not_groups=frozenset({"contractors"})))
        for groups in ({"ds"}, {"ds", "contractors"}):
            assert not self.may(self.ANN, rule(not_groups=frozenset(groups)))
            assert not self.may(self.ANN, rule(users=frozenset({"ann"}), not_groups=frozenset(groups)))
            assert not self.may(self.ANN, rule(issuers=frozenset({"corp"}), not_groups=frozenset(groups)))

    def test_where_groups_are_unknown_absence_is_never_taken_for_granted(self) -> None:
        """B074: neither to let somebody in nor to spare them a rule that denies."""
        unknown = Principal("ann", "https://idp.test", "corp", groups_known=False)
        ann: dict[str, Any] = {"users": frozenset({"ann"}), "not_groups": frozenset({"contractors"})}
        assert not self.may(unknown, rule(**ann))
        assert not self.may(unknown, rule(users=frozenset({"ann"})), rule("no", Effect.DENY, **ann))
        assert self.may(
            unknown,
            rule(users=frozenset({"ann"})),
            rule("no", Effect.DENY, users=frozenset({"bob"}), not_groups=frozenset({"contractors"})),
        )
