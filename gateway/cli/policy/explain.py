"""`nim-gateway policy explain`: why somebody may or may not, now or when it was logged.

Knows: arguments, exit codes. Must not know: how rules decide.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

from gateway.call import ModelRef, Operation
from gateway.cli.policy import asking
from gateway.cli.policy.asking import BadCall, Notes, Site
from gateway.cli.policy.place import rooted
from gateway.cli.policy.replaying import Policies, find, replay
from gateway.cli.policy.telling import members, words
from gateway.cli.saying import CannotSay, finished, say, say_json
from gateway.config.mistakes import Mistakes
from gateway.policy.asked import Asked
from gateway.policy.engine import Policy
from gateway.policy.explain import Explanation, explain, unserved
from gateway.policy.replay import Logged, NotReplayable, difference, logged, logged_for
from gateway.startup import CannotStart

TEXT: Final = "say why a caller may or may not, and what was missing; decide again what was logged"
EXAMPLE: Final = """examples:
  nim-gateway policy explain --user alice --groups data-science --model meta/llama-3.1-8b-instruct
  nim-gateway policy explain --token token.jwt --model llama-8b --at 2026-03-02T22:30:00+01:00 --from 10.20.0.7
  nim-gateway policy explain --decision ID --audit /var/log/nim-gateway/audit.log
  nim-gateway policy explain --audit audit.log.1 audit.log
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A question, or audit files with decisions that were made."""
    asking.add_arguments(parser)
    parser.add_argument("--decision", metavar="ID", help="the X-Decision-Id of an answer; needs --audit")
    parser.add_argument(
        "--audit", nargs="+", metavar="FILE", help="audit files; without --decision all is decided again"
    )
    parser.add_argument("--history", type=Path, help="folder of kept policies (default: policies.history)")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Exit 0: allowed, or all that was logged came out the same; 1: denied, or it did not; 2: a bad call or a bad file.

    A decision that comes out otherwise than it was logged is 1, whatever it is now.
    """
    try:
        _one_question(args)
        site = asking.site(args)
        if args.decision is not None:
            return _explain_logged(args, site)
        return _explain(args, site) if args.audit is None else _replay(args, site)
    except (Mistakes, CannotStart, CannotSay, OSError) as error:
        return finished(error)


def _one_question(args: argparse.Namespace) -> None:
    """No argument stands beside others that leave it without a meaning. Raises `BadCall`."""
    if args.audit is None:
        if args.decision is not None:
            raise BadCall("--decision needs the files to look in: --audit FILE")
        if args.history is not None:
            raise BadCall("--history is for what was logged; it needs the files to look in: --audit FILE")
        return
    given = asking.given(args)
    if args.decision is None and given:
        raise BadCall(f"--audit alone decides all lines again; leave out {', '.join(given)}, or add --decision ID")
    if spare := [option for option in given if option not in asking.OF_MODEL]:
        raise BadCall(f"--decision: the line says who asked, when and from where; leave out {', '.join(spare)}")


def _explain(args: argparse.Namespace, site: Site) -> int:
    note = Notes()
    asked, policy = asking.asked(args, site, note), site.policy()
    found = explain(policy, asked) if asking.served(args, site) else unserved(asked)
    return _answer(args, policy, found, asked, note, {})


def _explain_logged(args: argparse.Namespace, site: Site) -> int:
    facts = find(args.audit, args.decision)
    note = Notes()
    try:
        made, single = _made(args, facts, site, note)
        policies = _policies(args, site)
        policy = policies(made)
    except NotReplayable as why:
        raise BadCall(f"--decision: {why}") from None
    unlike = difference(policy, made) if single else ""
    if single:
        note(f"NOT as it was logged: it {unlike}" if unlike else "exactly as it was logged")
        if made.allowed and made.reason != "ok":
            note(f"the rules let it pass, and the caller got {made.status} {made.reason}: {made.detail}")
    if (kept := policies.kept(made)) is not None:
        note(f"decided by policy {made.policy}, not by what {site.place} says now: lines are those of {kept}")
    more = {"identical": not unlike} if single else {}
    code = _answer(args, policy, explain(policy, made.asked), made.asked, note, more)
    return 1 if unlike else code


def _made(args: argparse.Namespace, facts: dict[str, Any], site: Site, note: Notes) -> tuple[Logged, bool]:
    """What was logged, and whether it was one decision: of a list one of the many is asked for.

    Raises `NotReplayable`, `BadCall`.
    """
    if args.model and facts.get("model") is None:
        model = asking.model_of(args, site.settings, note)
        listed = Operation(args.operation or Operation.LIST)
        return logged_for(facts, ModelRef(model.name, listed, model.version, args.explicit)), False
    made = logged(facts)
    if given := asking.given(args):
        raise BadCall(f"--decision: this one was about {made.asked.model.name}; leave out {', '.join(given)}")
    return made, True


def _replay(args: argparse.Namespace, site: Site) -> int:
    tally = replay(args.audit, _policies(args, site))
    if args.json:
        say_json(tally.members())
    else:
        say(tally.words())
    return 0 if tally.good else 1


def _policies(args: argparse.Namespace, site: Site) -> Policies:
    if args.history is not None:
        return Policies(site, rooted(args, args.history))
    return Policies(site, None if site.settings is None else site.settings.policies.history)


def _answer(
    args: argparse.Namespace, policy: Policy, found: Explanation, asked: Asked, note: Notes, more: dict[str, Any]
) -> int:
    if args.json:
        say_json(members(found, asked, note.lines, policy.digest) | more)
    else:
        say(words(found, asked, note.lines))
    return 0 if found.allowed else 1
