"""The pages on a port of this machine, and visitors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gateway.devcerts import Paths
from gateway.portal.services import Granted
from tests.browser.here import Around, People, Site, Visitor

GROUPS = frozenset({"data-science", "llm-users"})
PASSWORD = "correct horse"
MODELS = (Granted("meta/llama-3.1-8b-instruct", ("llama-8b",), ("openai",)), Granted("addsub", (), ("kserve",)))

StartSite = Callable[[Around], Site]


@pytest.fixture
def people() -> People:
    return People({"alice": (PASSWORD, GROUPS), "bob": (PASSWORD, frozenset({"guests"}))})


@pytest.fixture
def services(people: People) -> Around:
    return Around(directories=[people], models=MODELS)


@pytest.fixture
def start_site(certificates: Paths) -> Iterator[StartSite]:
    """`start_site(services)`: running, until the test ends."""
    with ExitStack() as stack:
        yield lambda services: stack.enter_context(Site(services, certificates))


@pytest.fixture
def site(start_site: StartSite, services: Around) -> Site:
    return start_site(services)


@pytest.fixture
def visitor(site: Site) -> Visitor:
    """Somebody who is not logged in."""
    return Visitor(site)


@pytest.fixture
def alice(visitor: Visitor) -> Visitor:
    """Logged in."""
    assert visitor.log_in("alice", PASSWORD).status == 303
    return visitor
