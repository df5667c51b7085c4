"""Names lead to exactly one model, or nowhere."""

from __future__ import annotations

import pytest

from gateway.call import Operation
from gateway.errors import BadRequest, UnknownModel
from gateway.resolve.models import Catalogue
from gateway.settings import Model
from tests.resolve.asking import SITE, built, pool

CATALOGUE = Catalogue(built(*SITE))
TOP = CATALOGUE.face("/v1/x")


@pytest.mark.parametrize(
    ("asked", "name", "sent"),
    [("small", "small", "small"), ("tiny", "small", "small"), ("inner", "inner", "engine/inner")],
)
def test_names_and_aliases_lead_to_the_model_and_to_what_the_backend_calls_it(asked: str, name: str, sent: str) -> None:
    served = TOP.named("openai", asked)
    assert (served.name, served.sent, served.pool.name) == (name, sent, "llama")
    assert served.needs[Operation.INFER][0].name == name


LOOK_ALIKES = [
    "small ",
    " small",
    "small\x00",
    "small\n",
    "SMALL",
    "ｓmall",
    "sma\u200bll",
    "smаll",
    "small/",
    "./small",
    "small:latest",
    "engine/inner",
    "resnet50",
    "",
]


@pytest.mark.parametrize("asked", LOOK_ALIKES)
def test_names_are_compared_code_point_by_code_point_and_per_protocol(asked: str) -> None:
    """B054"""
    with pytest.raises(UnknownModel) as caught:
        TOP.named("openai", asked)
    assert caught.value.message == UnknownModel.default


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("nv/embed", "nv/embed"),
        ("nv/embed-query", "nv/embed-query"),
        ("inner-passage", "engine/inner-passage"),
        ("tiny-query", "small-query"),
    ],
)
def test_the_role_of_an_embedding_is_set_aside_for_the_grant_and_sent_on(asked: str, sent: str) -> None:
    served = TOP.in_role("openai", asked)
    assert served.sent == sent
    assert served.needs[Operation.INFER][0].name == served.name


def test_a_model_whose_own_name_ends_like_a_role_is_itself() -> None:
    face = Catalogue(built(pool("p", ("openai",), (Model("e-query"), Model("f"))))).face("/")
    assert face.in_role("openai", "e-query").name == "e-query"
    with pytest.raises(UnknownModel):
        face.in_role("openai", "e-query-query-passage")


def test_an_absent_name_means_the_only_model_of_the_only_pool() -> None:
    assert TOP.default(TOP.speakers["generic-infer"]).name == "cosmos-1"
    for protocol in ("kserve", "openai"):
        with pytest.raises(BadRequest) as caught:
            TOP.default(TOP.speakers[protocol])
        assert caught.value.param == "model"


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/seeing/v1/infer", "/seeing"),
        ("/seeingv1/infer", ""),
        ("/seeing", ""),
        ("/v1/infer", ""),
        ("", ""),
        ("/Seeing/v1", ""),
    ],
)
def test_a_prefix_is_matched_in_whole_segments(path: str, prefix: str) -> None:
    assert CATALOGUE.face(path).prefix == prefix


def test_the_longest_prefix_wins() -> None:
    pools = [pool(name, ("openai",), (Model("m"),), prefix=prefix) for name, prefix in (("a", "/x"), ("b", "/x/y"))]
    assert Catalogue(built(*pools)).face("/x/y/v1/models").prefix == "/x/y"


@pytest.mark.parametrize("models", [(Model("a"), Model("b", aliases=("a",))), (Model("a"), Model("a"))])
def test_a_name_that_means_two_models_is_a_mistake(models: tuple[Model, ...]) -> None:
    with pytest.raises(ValueError, match="'a'"):
        Catalogue(built(pool("p", ("openai",), models)))


@pytest.mark.parametrize(
    "models",
    [
        (Model("e"), Model("secret", backend_name="e-query")),
        (Model("secret", backend_name="e-passage"), Model("e")),
        (Model("e", aliases=("a",)), Model("e-query")),
        (Model("x", aliases=("e",)), Model("secret", backend_name="e-query")),
        (Model("x", backend_name="e"), Model("secret", backend_name="e-query")),
        (Model("x", backend_name="e"), Model("e-query", backend_name="y")),
    ],
)
def test_a_model_that_another_ones_grant_would_reach_in_a_role_is_a_mistake(models: tuple[Model, ...]) -> None:
    with pytest.raises(ValueError, match="under the grant"):
        Catalogue(built(pool("p", ("openai",), models)))
    Catalogue(built(pool("p", ("kserve",), models)))  # no roles there


def test_one_name_may_serve_two_protocols_or_stand_under_two_prefixes() -> None:
    pools = (
        pool("a", ("openai",), (Model("m"),)),
        pool("b", ("kserve",), (Model("m"),)),
        pool("c", ("openai",), (Model("m"),), prefix="/c"),
    )
    catalogue = Catalogue(built(*pools))
    assert catalogue.face("/v1").named("openai", "m").pool.name == "a"
    assert catalogue.face("/v2").named("kserve", "m").pool.name == "b"
    assert catalogue.face("/c/v1").named("openai", "m").pool.name == "c"
