"""What may stand behind a name never leads from the model that was granted to another one."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.errors import Refusal
from gateway.resolve.likeness import Likeness, Names, likenesses
from gateway.settings import Model
from tests.resolve.asking import JSON, asked, call, chat, pool, resolver

URLENCODED = ((b"content-type", b"application/x-www-form-urlencoded"),)

names = st.sampled_from(["e", "f", "g", "e-query", "f-passage", "e.x", "e.x.y"])
models = st.lists(
    st.builds(
        lambda name, aliases, sent: Model(name, aliases=tuple(aliases), backend_name=sent),
        names,
        st.lists(names, max_size=1),
        st.one_of(st.just(""), names),
    ),
    min_size=2,
    max_size=3,
)


@given(models, names)
@example([Model("e"), Model("f", backend_name="e-query")], "e-query")
@example([Model("e"), Model("f", backend_name="e.x")], "e.x")
def test_a_call_never_runs_a_model_whose_backend_name_only_another_one_has(served: list[Model], asking: str) -> None:
    """Whatever configuration is taken and whatever name is asked for, by embeddings and by voices."""
    try:
        site = resolver(pool("p", ("openai", "speech-http"), served))
    except ValueError:
        return
    owners: dict[str, set[str]] = {}
    for model in served:
        owners.setdefault(model.backend_name or model.name, set()).add(model.name)
    for path, fields, body in (
        ("/v1/embeddings", JSON, chat(model=asking)),
        ("/v1/audio/synthesize", URLENCODED, urlencode({"voice": asking}).encode()),
    ):
        try:
            found = asked(site, call(path, fields=fields), body)
        except Refusal:
            continue
        payload = (found.payload or b"").decode()
        granted = found.needs[0].name
        sent = payload.rpartition("=")[2] if fields is URLENCODED else payload.split('"model": "')[-1].split('"')[0]
        assert granted in owners.get(sent, {granted})


def test_both_models_and_both_names_are_told() -> None:
    pair = [Names("secret", (), "e-query"), Names("x", ("e",), "y")]
    assert list(likenesses(["nim-mgmt", "openai"], pair)) == [Likeness(0, "e-query", 1, "e")]


@pytest.mark.parametrize("protocols", [[], ["kserve"], ["retriever", "nim-mgmt"]])
def test_where_nothing_may_stand_behind_a_name_every_name_is_its_own(protocols: list[str]) -> None:
    pair = [Names("e", (), "e"), Names("e-query", ("e.x",), "e.y")]
    assert list(likenesses(protocols, pair)) == []


def test_a_voice_does_not_lead_to_a_model_that_is_called_like_a_speaker_of_another() -> None:
    pair = [Names("Magpie", (), "Magpie"), Names("secret", (), "Magpie.Secret.One")]
    assert list(likenesses(["speech-http"], pair)) == [Likeness(1, "Magpie.Secret.One", 0, "Magpie")]


def test_a_model_may_have_its_own_name_in_a_role_as_an_alias() -> None:
    assert list(likenesses(["openai"], [Names("e", ("e-query",), "e-query"), Names("f", (), "f")])) == []
