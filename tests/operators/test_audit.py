"""Audit lines: one call, one line, whatever the caller is called."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.audit import Clock, Lines, printable
from gateway.accounting.auditfile import AuditFile
from gateway.call import Difference, Grant, ModelRef, Operation, Outcome, Principal, Rulebook
from gateway.errors import Forbidden
from gateway.settings import Audit
from tests.path.fakes import CALL, but
from tests.policy.work import lines_run

CONTRACT = (
    "time", "request_id", "subject", "issuer", "groups_used", "client", "model", "operation", "decision", "rule",
    "reason", "backend", "status", "tokens_in", "tokens_out", "bytes", "ttft_ms", "duration_ms", "attempts",
)  # fmt: skip
STAMP = b"2026-01-02T03:04:05.678Z"


def outcome(**changes: object) -> Outcome:
    principal = Principal("alice", "https://idp.test", "corp", frozenset({"ds"}), client="app")
    model = ModelRef("small", Operation.INFER)
    made = Outcome(but(CALL, started=10.0))
    facts = {
        "principal": principal, "pool": "p", "model": model,
        "grant": Grant(principal, model, "ds-chat", "p.yaml:3", ("ds",)),
        "backend": "10.0.0.1:8000", "attempts": 1, "status": 200, "sent": 370, "first_byte": 10.25,
        "tokens_in": 3, "tokens_out": 5,
    }  # fmt: skip
    for name, value in (facts | changes).items():
        setattr(made, name, value)
    return made


def test_a_line_holds_every_field_of_the_contract() -> None:
    facts = json.loads(Lines().write(outcome(), STAMP, 11.0))

    assert set(CONTRACT) <= set(facts)
    assert (facts["provider"], facts["credential"]) == ("corp", None)
    assert {name: facts[name] for name in CONTRACT} == {
        "time": STAMP.decode(), "request_id": CALL.id, "subject": "alice", "issuer": "https://idp.test",
        "groups_used": ["ds"], "client": "app", "model": "small", "operation": "infer", "decision": "allow",
        "rule": "ds-chat", "reason": "ok", "backend": "10.0.0.1:8000", "status": 200, "tokens_in": 3,
        "tokens_out": 5, "bytes": 370, "ttft_ms": 250.0, "duration_ms": 1000.0, "attempts": 1,
    }  # fmt: skip


def test_a_refusal_says_why() -> None:
    facts = json.loads(Lines().write(outcome(grant=None, refusal=Forbidden(detail="rule=x"), status=403), STAMP, 11.0))

    assert (facts["decision"], facts["reason"], facts["detail"], facts["rule"]) == (
        "deny",
        "model_not_allowed",
        "rule=x",
        None,
    )


@given(st.text(max_size=400), st.text(max_size=400), st.text(max_size=400))
def test_no_text_of_a_caller_can_forge_or_break_a_line(subject: str, client: str, path: str) -> None:
    """B138."""
    subject, client, path = (text.encode("utf-8", "replace").decode() for text in (subject, client, path))
    principal = Principal(subject, "i", "p", client=client)
    text = Lines().write(outcome(principal=principal, call=but(CALL, path=path)), STAMP, 11.0)

    assert text.count(b"\n") == 1
    assert text.endswith(b"\n")
    written = text.decode()
    assert all(character.isprintable() for character in written[:-1])
    assert len(json.loads(text)["path"]) <= 256 * 10


def test_a_line_says_which_credential_it_was_and_which_provider_vouched_for_it() -> None:
    principal = Principal("alice", "https://idp.test", "corp", credential="AT.x\n1")
    facts = json.loads(Lines().write(outcome(principal=principal), STAMP, 11.0))
    assert (facts["issuer"], facts["provider"], facts["credential"]) == ("https://idp.test", "corp", "AT.x\\n1")
    nobody = json.loads(Lines().write(outcome(principal=None, grant=None, refusal=Forbidden()), STAMP, 11.0))
    assert (nobody["provider"], nobody["credential"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"), ("élise", "élise"), ("a\nb", "a\\nb"), ("\x1b[2J", "\\x1b[2J"), ("a\u2028b", "a\\u2028b"),
        ("\u202egpj", "\\u202egpj"), ("x" * 300, "x" * 256), ("a\ud800b", "a\\ud800b"),
    ],
)  # fmt: skip
def test_what_is_not_visible_is_escaped_and_what_is_long_is_cut(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_the_clock_stamps_in_utc_with_milliseconds() -> None:
    times = iter([0.0, 0.9994, 61.5])
    clock = Clock(lambda: next(times))

    assert [clock.stamp() for _ in range(3)] == [
        b"1970-01-01T00:00:00.000Z", b"1970-01-01T00:00:00.999Z", b"1970-01-01T00:01:01.500Z"
    ]  # fmt: skip


async def test_lines_are_written_in_order_and_follow_a_rotation(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditFile(Audit(str(file), chain=False), lambda _: None)
    audit.add(b"one\n")
    audit.add(b"two\n")
    file.rename(tmp_path / "audit.log.1")
    audit.reopen()
    audit.add(b"three\n")
    audit.close()

    assert (tmp_path / "audit.log.1").read_bytes() == b"one\ntwo\n"
    assert file.read_bytes() == b"three\n"


async def test_a_line_is_on_disk_soon_without_being_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    audit = AuditFile(Audit(str(file), chain=False), lambda _: None)
    audit.add(b"one\n")
    async with asyncio.timeout(5):
        while file.read_bytes() != b"one\n":  # noqa: ASYNC110  a file tells nobody that it was written
            await asyncio.sleep(0.01)
    audit.close()


async def test_lines_that_cannot_be_kept_are_counted(tmp_path: Path) -> None:
    lost: list[int] = []
    audit = AuditFile(Audit("/dev/full", chain=False), lost.append)
    audit.add(b"one\n")
    audit.add(b"two\n")
    audit.close()
    audit.add(b"three\n")

    assert lost == [2, 1]


def test_a_line_that_was_written_before_is_written_anew_where_anything_differs() -> None:
    lines = Lines()
    call = but(CALL, started=10.0)
    first = outcome(call=call)
    usual = lines.write(first, STAMP, 11.0)
    assert first.grant is not None
    changes: list[dict[str, Any]] = [
        {"call": but(call, id="f" * 32)},
        {"backend": "10.0.0.2:8000"},
        {"grant": replace(first.grant, rule="other")},
        {"refusal": Forbidden(), "status": 403},
        {"terms_rule": "ds-chat"},
        {"terms_rule": "other"},
        {"terms_rule": "other", "changed": ("max_tokens=5",)},
        {"terms_rule": "other", "changed": ("max_tokens=5", "n=1")},
        {"shadow": Difference("would_deny", "new")},
        {"shadow": Difference("would_deny", "newer")},
    ]

    for change in changes * 2:
        made: dict[str, Any] = {"call": call, "grant": first.grant} | change
        written = lines.write(outcome(**made), STAMP, 11.0)
        assert written == Lines().write(outcome(**made | {"call": but(made["call"], derived={})}), STAMP, 11.0)
        assert written != usual


UNDER_LIMITS: list[dict[str, Any]] = [
    {"terms_rule": "r"},
    {"terms_rule": "r", "changed": ("max_tokens=5",)},
    {"shadow": Difference("would_deny", "s")},
]


@pytest.mark.parametrize("more", UNDER_LIMITS)
def test_the_line_of_a_call_under_limits_is_hardly_more_work_than_any_other(more: dict[str, Any]) -> None:
    lines, call = Lines(), but(CALL, derived={})
    usual, limited = outcome(call=call), outcome(call=call, **more)
    for made in (usual, limited):
        made.grant = usual.grant
        lines.write(made, STAMP, 11.0)

    def work(made: Outcome) -> int:
        return lines_run(lambda: lines.write(made, STAMP, 11.0))

    assert work(limited) <= work(usual) + 3


def _bytes_within(value: object) -> int:
    """The length of all bytes that `value` holds."""
    if isinstance(value, bytes):
        return len(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return sum(map(_bytes_within, inner))


def test_what_is_kept_to_write_lines_again_stays_small_whatever_callers_send() -> None:
    lines, call = Lines(), but(CALL, derived={})
    first = outcome(call=call)
    sizes = []
    for number in range(1000):
        lines.write(outcome(call=call, grant=first.grant, terms_rule="r", changed=(f"n={number}",)), STAMP, 11.0)
        sizes.append(_bytes_within(call.derived))
    assert max(sizes) < 64 * 1024


# What providers may call people (`identity.names.plain`).
NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029"), min_size=1, max_size=512
)


@given(NAMES, NAMES, st.frozensets(NAMES, max_size=4), st.frozensets(NAMES, max_size=4))
def test_a_line_gives_back_every_name_that_a_decision_hangs_on(
    subject: str, client: str, groups: frozenset[str], scopes: frozenset[str]
) -> None:
    principal = Principal(subject, "i", "corp", groups | {"unheard of"}, client, scopes | {"unheard of"})
    rulebook = Rulebook(3, "d" * 32, groups | {"others"}, scopes | {"others"})
    text = Lines().write(outcome(principal=principal, rulebook=rulebook, grant=None), STAMP, 11.0)

    facts = json.loads(text)
    assert (facts["subject"], facts["client"]) == (subject, client)
    assert (facts["groups"], facts["scopes"], facts["left_out"]) == (sorted(groups), sorted(scopes), 0)
    assert (facts["generation"], facts["policy"], facts["hide_models"]) == (3, "d" * 32, False)
    assert all(character.isprintable() for character in text.decode()[:-1]), "a terminal would obey it"


def test_a_line_says_when_it_could_not_hold_all_groups() -> None:
    groups = frozenset(f"{number:04}{'x' * 400}" for number in range(60))
    principal = Principal("alice", "i", "corp", groups)
    facts = json.loads(Lines().write(outcome(principal=principal, rulebook=Rulebook(groups=groups)), STAMP, 11.0))

    assert len(facts["groups"]) + facts["left_out"] == 60
    assert facts["left_out"] > 0
    assert facts["groups"] == sorted(groups)[: len(facts["groups"])]


def test_a_line_tells_the_decision_its_time_and_nothing_of_them_where_no_rule_was_asked() -> None:
    made = outcome(mark=b"abc.", decided_at=1764547200)
    facts = json.loads(Lines().write(made, STAMP, 11.0))
    assert (facts["decision_id"], facts["decided_at"]) == (f"abc.{CALL.id}", 1764547200)

    facts = json.loads(Lines().write(outcome(principal=None, grant=None), STAMP, 11.0))
    assert (facts["decision_id"], facts["decided_at"], facts["groups"], facts["policy"]) == (None, None, None, None)
