"""Rules of every kind and questions that come near them, from few values, so that they meet often."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

from hypothesis import strategies as st

from gateway.call import ModelRef, Operation, Principal
from gateway.policy.asked import Asked
from gateway.policy.conditions import ALL_DAYS, Window
from gateway.policy.rules import DEFAULT_OPERATIONS, Effect, Rule

USERS, GROUPS, CLIENTS, PROVIDERS = ("ann", "bob"), ("g", "h", "i"), ("app", "job"), ("corp", "lab")
SCOPES, MODELS, VERSIONS = ("run", "read"), ("m", "n/x", "n/y"), ("1", "2")
NETWORKS = tuple(map(ip_network, ("10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32")))
PEERS = ("10.1.2.3", "10.9.9.9", "192.0.2.1", "2001:db8::1", "", "no address")
WINDOWS = (
    Window("Europe/Madrid", frozenset(range(5)), 8 * 60, 20 * 60),
    Window("Asia/Tokyo", frozenset({5, 6})),
    Window("UTC", ALL_DAYS, 22 * 60, 6 * 60),
)


def some(values: tuple[str, ...], least: int = 0) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), min_size=least, max_size=2)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    users, groups, clients = draw(some(USERS)), draw(some(GROUPS)), draw(some(CLIENTS))
    issuers = draw(some(PROVIDERS, 0 if users or groups or clients else 1))
    written = draw(st.frozensets(st.sampled_from(list(Operation)), max_size=3))
    return Rule(
        id=f"r{draw(st.integers(0, 999))}",
        file=draw(st.sampled_from(("a.yaml", "b.yaml"))),
        line=draw(st.integers(1, 999)),
        effect=draw(st.sampled_from([Effect.ALLOW, Effect.ALLOW, Effect.DENY])),
        models=tuple(draw(st.lists(st.sampled_from(("*", "m", "n/*", "n/x")), min_size=1, max_size=2, unique=True))),
        users=users,
        groups=groups,
        clients=clients,
        issuers=issuers,
        operations=written or DEFAULT_OPERATIONS,
        explicit_operations=written,
        versions=draw(some(VERSIONS)),
        not_groups=draw(some(GROUPS)),
        scopes=draw(some(SCOPES)),
        window=draw(st.none() | st.sampled_from(WINDOWS)),
        networks=tuple(draw(st.lists(st.sampled_from(NETWORKS), max_size=2, unique=True))),
    )


@st.composite
def many_rules(draw: st.DrawFn) -> list[Rule]:
    """Each with an id of its own, as files have them."""
    found = draw(st.lists(rules(), max_size=8))
    return [replace(rule, id=f"r{number}") for number, rule in enumerate(found)]


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    provider = draw(st.sampled_from(PROVIDERS))
    principal = Principal(
        subject=draw(st.sampled_from((*USERS, "eve"))),
        issuer=f"https://{provider}.test",
        provider=provider,
        groups=draw(some((*GROUPS, "others"))),
        client=draw(st.none() | st.sampled_from(CLIENTS)),
        scopes=draw(some((*SCOPES, "others"))),
        groups_known=draw(st.sampled_from((True, True, False))),
    )
    model = ModelRef(
        draw(st.sampled_from((*MODELS, "unheard/of"))),
        draw(st.sampled_from(list(Operation))),
        draw(st.sampled_from((None, None, "1", "2", "3", "02"))),
        draw(st.sampled_from((False, False, True))),
    )
    return Asked(principal, model, float(draw(st.integers(1_700_000_000, 1_800_000_000))), draw(st.sampled_from(PEERS)))
