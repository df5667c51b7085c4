"""Another model takes a call that its own cannot serve: when, which one, and what is told of it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from gateway.call import AnswerHead
from gateway.drive import Moment
from gateway.errors import (
    ClientGone,
    ConnectFailed,
    Overloaded,
    Refusal,
    Truncated,
    UpstreamBroke,
    UpstreamBusy,
    UpstreamTimeout,
)
from gateway.seams import Answer
from gateway.wires.connection import Stale
from tests.path.fakes import Act, answers, refuses
from tests.path.standins import Standing

BY_B = ["start 200 X-Gateway-Model: b", "send hi", "end"]
BY_C = ["start 200 X-Gateway-Model: c", "send hi", "end"]

#: How a backend may fail before anything was executed.
FAILING: dict[str, Act] = {
    "no connection": refuses(ConnectFailed()),
    "closed as the call came": refuses(Stale()),
    "502": answers(502),
    "503": answers(503),
    "504": answers(504),
    "nothing left to connect with": refuses(Overloaded()),
}


@pytest.mark.parametrize("fault", FAILING)
def test_a_call_that_its_model_cannot_serve_is_served_by_the_next(fault: str) -> None:
    stage = Standing({"a": {1: FAILING[fault], 2: FAILING[fault]}, "b": {3: answers()}})

    assert stage.play() == BY_B
    assert stage.served == ("b", "a", "pool-b")
    assert stage.tallies.fallbacks == {("a", "b"): 1}
    grant = stage.done[0].grant
    assert grant is not None
    assert grant.rule == "rule-b"


def test_a_model_without_any_backend_is_stood_in_for_at_once() -> None:
    stage = Standing({"a": {1: answers()}, "b": {2: answers()}}, down=["a"])

    assert stage.play() == BY_B
    assert (stage.wire.went_to, stage.done[0].attempts) == ([2], 1)


def test_a_model_that_can_be_served_is_served_and_nothing_is_told() -> None:
    stage = Standing({"a": {1: answers()}, "b": {2: answers()}})

    assert stage.play() == ["start 200", "send hi", "end"]
    assert stage.served == ("a", "", "pool-a")
    assert stage.policy.asked == ["a"]


def test_other_backends_of_the_model_come_first() -> None:
    stage = Standing({"a": {1: answers(503), 2: answers(503), 3: answers()}, "b": {4: answers()}})

    assert stage.play() == ["start 200", "send hi", "end"]


@pytest.mark.parametrize("fault", FAILING)
def test_one_that_the_caller_is_not_granted_is_passed_over_in_silence(fault: str) -> None:
    models = {"a": {1: FAILING[fault]}, "b": {2: answers()}, "c": {3: answers()}}
    stage = Standing(models, granted=["a", "c"])

    assert stage.play() == BY_C
    assert 2 not in stage.wire.went_to


def test_who_is_granted_no_other_model_is_told_what_would_be_told_without_any() -> None:
    for act, story in ((refuses(ConnectFailed()), ["refuse upstream_error"]), (answers(503), ["start 503"])):
        stage = Standing({"a": {1: act}, "b": {2: answers()}}, granted=["a"])
        assert stage.play()[:1] == story
        assert (stage.served, stage.wire.went_to) == (("a", "", "pool-a"), [1])
        assert stage.tallies.fallbacks == {}


def test_the_model_asked_for_must_be_granted_whatever_else_is() -> None:
    stage = Standing({"a": {1: answers()}, "b": {2: answers()}}, granted=["b"])

    assert stage.play() == ["refuse model_not_allowed"]
    assert stage.wire.went_to == []


@pytest.mark.parametrize("lacking", ["large", "down", "refusing"])
def test_one_that_the_call_does_not_fit_is_passed_over(lacking: str) -> None:
    """Its limits, its backends and the terms of its own grant count, as if it had been asked for."""
    models = {"a": {1: refuses(ConnectFailed())}, "b": {2: answers()}, "c": {3: answers()}}

    assert Standing(models, **{lacking: ["b"]}).play() == BY_C  # type: ignore[arg-type]  # each is a list of names


@pytest.mark.parametrize("refusal", [UpstreamBroke(), UpstreamTimeout()])
def test_what_may_have_been_executed_is_not_given_to_another_model(refusal: Refusal) -> None:
    """M14, B016."""
    stage = Standing({"a": {1: refuses(refusal)}, "b": {2: answers()}})

    assert stage.play() == [f"refuse {refusal.code}"]
    assert stage.wire.went_to == [1]


@pytest.mark.parametrize("refusal", [Truncated(), ConnectFailed(detail="even one that says retry")])
def test_an_answer_that_has_begun_is_never_begun_again_by_another_model(refusal: Refusal) -> None:
    """M14, B003."""
    stage = Standing({"a": {1: answers(then=refusal)}, "b": {2: answers()}})

    story = stage.play()
    assert story[:2] == ["start 200", "send hi"]
    assert story[-1].startswith("cut")
    assert stage.wire.went_to == [1]


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_an_answer_that_is_the_callers_is_not_replaced_by_another_models(status: int) -> None:
    stage = Standing({"a": {1: answers(status)}, "b": {2: answers()}})

    assert stage.play()[0] == f"start {status}"
    assert stage.wire.went_to == [1]


def test_the_last_answer_goes_through_where_every_model_is_busy() -> None:
    stage = Standing({name: {port: answers(503)} for port, name in enumerate("abc")})

    assert stage.play()[0] == "start 503 X-Gateway-Model: c"
    assert stage.wire.went_to == [0, 1, 2]


def test_retries_are_counted_over_all_models_together() -> None:
    """M14: one attempt for each model, and two more in all."""
    dead = {
        name: {10 * place + port: refuses(ConnectFailed()) for port in range(4)} for place, name in enumerate("abc")
    }
    stage = Standing(dead)

    assert stage.play() == ["refuse upstream_error"]
    assert [port // 10 for port in stage.wire.went_to] == [0, 0, 0, 1, 2]
    assert stage.done[0].attempts == 5


def test_calls_that_one_pool_is_too_busy_for_do_not_fill_the_next() -> None:
    stage = Standing({"a": {1: answers(503)}, "b": {2: answers()}, "c": {3: answers()}})
    taken = [stage.pools[1].budget.try_take() for _ in range(stage.pools[1].budget.limit)]

    drive, reply = stage.begin()
    assert drive.done
    assert reply.story == BY_C
    for retry in taken:
        assert retry is not None
        retry.release()
    stage.check_level()


def test_calls_that_reached_nobody_are_not_held_back_by_the_budget_of_retries() -> None:
    stage = Standing({"a": {1: refuses(ConnectFailed())}, "b": {2: answers()}})
    taken = [stage.pools[1].budget.try_take() for _ in range(stage.pools[1].budget.limit)]

    assert stage.begin()[1].story == BY_B
    assert all(taken)


def test_a_call_that_is_stopped_at_the_other_model_gives_everything_back() -> None:
    """M16."""
    stage = Standing({"a": {1: answers(503)}, "b": {2: answers(then=Moment())}})
    drive, _ = stage.begin()
    assert [backend.in_flight for backend in stage.pools[1].backends] == [1]
    assert (stage.admission.in_flight["pool-a"], stage.admission.in_flight["pool-b"]) == (0, 1)
    drive.stop(ClientGone())

    stage.check_level()


def test_a_call_that_is_stopped_before_its_turn_comes_gives_everything_back() -> None:
    """M16: the place in the other pool's budget was taken, since the busy answer was already dropped for it."""

    def busy(answer: Answer) -> Moment:
        with suppress(UpstreamBusy):
            answer.head(AnswerHead(503, (), None))
        return Moment()

    stage = Standing({"a": {1: busy}, "b": {2: answers()}})
    drive, _ = stage.begin()
    assert stage.pools[1].budget.taken == 1
    drive.stop(ClientGone())

    stage.check_level()
    assert stage.wire.went_to == [1]


def test_the_backends_of_the_other_model_are_tried_one_after_the_other_too() -> None:
    stage = Standing({"a": {1: answers(503)}, "b": {2: answers(503), 3: answers()}})

    assert stage.play() == BY_B
    assert stage.wire.went_to == [1, 2, 3]


def test_what_the_terms_of_one_model_changed_is_not_told_of_another() -> None:
    """To the caller and in the audit line; those of a model that is passed over leave no trace."""
    models = {"a": {1: answers(503)}, "b": {2: answers(503)}, "c": {3: answers()}}
    for more, story, changed in (
        ({"telling": ["a", "b"]}, BY_C[0], ()),
        ({"telling": ["a", "c"]}, "start 200 X-Gateway-Model: c x-gateway-clamped: c", ("c",)),
        ({"telling": ["a"], "granted": ["a"]}, "start 503 x-gateway-clamped: a", ("a",)),
        ({"telling": ["a"], "refusing": ["b", "c"]}, "start 503 x-gateway-clamped: a", ("a",)),
    ):
        stage = Standing(models, **more)  # type: ignore[arg-type]  # each is a list of names
        assert stage.play()[0] == story
        assert stage.done[0].changed == changed


def test_a_shared_name_leads_to_the_best_that_is_granted_and_is_told() -> None:
    models = {"a": {1: answers()}, "b": {2: answers()}}

    assert Standing(models, shared=True).play()[0] == "start 200 X-Gateway-Model: a"
    stage = Standing(models, shared=True, granted=["b"])
    assert stage.play() == BY_B
    assert stage.served == ("b", "all", "pool-b")


def test_a_shared_name_of_which_nothing_is_granted_is_refused_like_a_model() -> None:
    stage = Standing({"a": {1: answers()}, "b": {2: answers()}}, shared=True, granted=[])

    assert stage.play() == ["refuse model_not_allowed"]
    assert stage.wire.went_to == []
    assert (stage.done[0].grant, stage.served) == (None, ("a", "all", "pool-a"))


def test_a_model_behind_a_shared_name_has_its_own_that_stand_in() -> None:
    stage = Standing({"a": {1: answers(503)}, "b": {2: answers()}, "c": {3: answers()}}, shared=True)

    assert stage.play() == BY_C
    assert stage.served == ("c", "all", "pool-c")
