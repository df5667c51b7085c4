"""The path of a call, told as stories: what the caller saw, where the call went, what was accounted."""

from __future__ import annotations

import pytest

from gateway.call import AnswerHead, ModelRef, Operation
from gateway.drive import Moment
from gateway.errors import (
    ClientGone,
    ConnectFailed,
    Refusal,
    Stopping,
    Truncated,
    UnknownModel,
    UpstreamBroke,
    UpstreamTimeout,
)
from gateway.seams import Answer
from gateway.wires.connection import Stale
from tests.path.fakes import CALL, FakeBody, Stage, answers, but, refuses


def test_a_granted_call_is_answered_and_accounted() -> None:
    stage = Stage({1: answers()})

    assert stage.play() == ["start 200", "send hi", "end"]
    outcome = stage.done[0]
    assert (outcome.status, outcome.attempts, outcome.sent, outcome.refusal) == (200, 1, 2, None)
    assert outcome.grant is not None
    assert outcome.grant.rule == "rule-1"


@pytest.mark.parametrize(
    ("stage", "call", "story"),
    [
        (Stage({1: answers()}), but(CALL, fields=()), ["refuse invalid_api_key"]),
        (Stage({1: answers()}, refusal=UnknownModel()), CALL, ["refuse model_not_found"]),
        (Stage({1: answers()}, allow=False), CALL, ["refuse model_not_allowed"]),
        (Stage({1: refuses(ConnectFailed())}), CALL, ["refuse upstream_error"]),
        (Stage({1: refuses(UpstreamTimeout())}), CALL, ["refuse upstream_timeout"]),
    ],
)
def test_a_refused_call_never_starts(stage: Stage, call: object, story: list[str]) -> None:
    assert stage.play(call) == story  # type: ignore[arg-type]  # a Call, as pytest passes it


def test_nobody_reaches_a_backend_without_identity_and_grant() -> None:
    for stage, call in ((Stage({1: answers()}), but(CALL, fields=())), (Stage({1: answers()}, allow=False), CALL)):
        stage.play(call)
        assert stage.wire.went_to == []


@pytest.mark.parametrize("stage", [Stage({1: answers()}), Stage({1: answers()}, allow=False)])
def test_a_caller_is_told_the_name_of_the_decision_whatever_it_is(stage: Stage) -> None:
    _, reply = stage.begin()

    outcome = stage.done[0]
    assert (reply.mark, outcome.decision_id) == (b"0123456789ab.", b"0123456789ab." + CALL.id.encode())
    assert outcome.decided_at > 0


def test_an_unknown_model_has_a_decision_id_like_one_that_is_hidden_and_nobody_has_none() -> None:
    stage = Stage({1: answers()}, refusal=UnknownModel())
    _, reply = stage.begin()
    assert reply.mark == b"0123456789ab."
    assert stage.done[0].decided_at == 0

    _, reply = Stage({1: answers()}).begin(but(CALL, fields=()))
    assert reply.mark == b""


@pytest.mark.parametrize("refused", ["one", "two", "three"])
def test_a_call_for_several_models_is_accounted_for_the_one_that_is_refused(refused: str) -> None:
    needs = tuple(ModelRef(name, Operation.METADATA) for name in ("one", "two", "three"))
    stage = Stage({1: answers()}, needs=needs, denied=frozenset({refused}))

    assert stage.play() == ["refuse model_not_allowed"]
    assert (stage.done[0].model, stage.done[0].grant) == (ModelRef(refused, Operation.METADATA), None)
    assert stage.done[0].series is stage.tallies.series("p", refused, "metadata")


def test_a_call_for_several_models_that_are_granted_is_accounted_for_the_first() -> None:
    needs = tuple(ModelRef(name, Operation.METADATA) for name in ("one", "two"))
    stage = Stage({1: answers()}, needs=needs)

    assert stage.play()[-1] == "end"
    assert (stage.done[0].model, stage.done[0].series) == (needs[0], stage.tallies.series("p", "one", "metadata"))


def test_health_is_answered_to_anybody() -> None:
    stage = Stage({1: answers()})

    assert stage.play(but(CALL, fields=(), path="/v1/health/live")) == ["start 200", "send ", "end"]


def test_a_dead_backend_is_skipped_and_blamed() -> None:
    stage = Stage({1: refuses(ConnectFailed()), 2: answers(), 3: refuses(ConnectFailed())})

    assert stage.play()[-1] == "end"
    dead = {port for port in stage.wire.went_to if port != 2}
    blamed = {backend.port for backend in stage.pool.backends if sum(backend.failures.values())}
    assert blamed == dead


def test_two_retries_and_no_more() -> None:
    """M14."""
    stage = Stage({port: refuses(ConnectFailed()) for port in range(1, 6)})

    assert stage.play() == ["refuse upstream_error"]
    assert len(stage.wire.went_to) == len(set(stage.wire.went_to)) == 3


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_backend_that_cannot_serve_is_replaced_while_nothing_was_sent(status: int) -> None:
    stage = Stage({1: answers(status), 2: answers(status), 3: answers()})

    assert stage.play() == ["start 200", "send hi", "end"]


def test_a_backend_that_names_a_time_beyond_any_number_is_replaced_like_any_other() -> None:
    """Python makes no number of more than 4300 digits."""
    stage = Stage({1: answers(503, more=((b"retry-after", b"9" * 5000),)), 2: answers()})

    assert stage.play() == ["start 200", "send hi", "end"]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_when_nobody_else_is_left_the_backends_own_answer_goes_through(status: int) -> None:
    """B016, fourth try."""
    stage = Stage({1: answers(status)})

    assert stage.play() == [f"start {status}", "send hi", "end"]


@pytest.mark.parametrize("status", [400, 404, 429, 500])
def test_other_answers_are_not_retried(status: int) -> None:
    stage = Stage({1: answers(status), 2: answers(status)})

    assert stage.play() == [f"start {status}", "send hi", "end"]
    assert len(stage.wire.went_to) == 1


@pytest.mark.parametrize("refusal", [UpstreamBroke(), UpstreamTimeout()])
def test_what_may_have_been_executed_is_not_repeated(refusal: Refusal) -> None:
    """B016, first and second try."""
    stage = Stage({1: refuses(refusal), 2: refuses(refusal)})

    assert stage.play() == [f"refuse {refusal.code}"]
    assert len(stage.wire.went_to) == 1


def test_a_body_that_cannot_be_sent_again_is_not_retried() -> None:
    """M14."""
    for refusal in (ConnectFailed(), Stale()):
        stage = Stage({1: refuses(refusal), 2: refuses(refusal)}, payload=None)
        assert stage.play(body=FakeBody(replayable=False)) == ["refuse upstream_error"]
        assert len(stage.wire.went_to) == 1


@pytest.mark.parametrize("refusal", [Truncated(), ConnectFailed(detail="even one that says retry")])
def test_an_answer_that_breaks_off_is_cut_and_never_retried(refusal: Refusal) -> None:
    """M14, B003."""
    stage = Stage({1: answers(then=refusal), 2: answers(then=refusal)})

    story = stage.play()
    assert story[:2] == ["start 200", "send hi"]
    assert story[-1].startswith("cut")
    assert "end" not in story
    assert len(stage.wire.went_to) == 1


def test_an_event_stream_that_breaks_within_an_event_is_cut_without_a_word() -> None:
    stage = Stage({1: answers(content_type=b"text/event-stream", then=Truncated())})  # "hi" is no whole event

    story = stage.play()
    assert story[:3] == ["start 200", "send hi", "cut stream_truncated"]
    assert "last words" not in story
    assert "end" not in story


def test_a_broken_event_stream_ends_with_an_error_event_at_an_edge() -> None:
    def breaks(answer: Answer) -> Refusal:
        answer.head(AnswerHead(200, ((b"content-type", b"text/event-stream"),), None))
        answer.piece(b"data: x\n\n")
        return Truncated()

    stage = Stage({1: breaks})

    story = stage.play()
    assert story[:3] == ["start 200", "send data: x\n\n", "last words"]
    assert "end" not in story
    assert isinstance(stage.done[0].refusal, Truncated)


@pytest.mark.parametrize("reason", [ClientGone(), Stopping()])
def test_a_call_stopped_half_way_gives_everything_back(reason: Refusal) -> None:
    """M16."""
    stage = Stage({1: answers(then=Moment())})
    drive, reply = stage.begin()
    assert [backend.in_flight for backend in stage.pool.backends] == [1]
    drive.stop(reason)

    stage.check_level()
    assert ("end" in reply.story) is False
    assert stage.done[0].refusal is reason
    assert not any(sum(backend.failures.values()) for backend in stage.pool.backends)


def test_a_fault_of_ours_is_an_answer_and_is_accounted() -> None:
    def explode(_: object) -> None:
        raise ZeroDivisionError

    stage = Stage({1: explode})

    assert stage.play() == ["refuse internal_error"]
    assert stage.done[0].status == 500


def test_a_call_that_is_refused_before_a_backend_is_asked_takes_nobodys_turn() -> None:
    stage = Stage({1: answers(), 2: answers()}, payload=None)
    for length in (1, 10_000, 1):
        stage.done.clear()
        stage.play(body=FakeBody(length=length, received=0))
    assert stage.wire.went_to == [1, 2]
