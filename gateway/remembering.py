"""Keeping each policy that was put in force, beside the calls: they neither wait for it nor fail with it.

Knows: that files are written in a thread, and how a failure is told. Must not know: what a kept policy looks like.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.accounting.tallies import Tallies
from gateway.policy import history
from gateway.policy.files import Written
from gateway.settings import Policies

log = logging.getLogger(__name__)


async def remember(policies: Policies, policy: Written, in_force: Callable[[], str], tallies: Tallies) -> None:
    """Keep the policy where the settings say so. Never raises: what went wrong is logged and counted."""
    if policies.history is None:
        return
    try:
        await asyncio.to_thread(history.keep, policies.history, policy, policies.keep, in_force)
    except OSError as error:
        tallies.policies_not_kept += 1
        log.error("policy.not_kept folder=%s error=%s", policies.history, error)  # noqa: TRY400  the reason is all there is to know
    except Exception:  # a fault of ours; traffic goes on
        tallies.policies_not_kept += 1
        log.exception("policy.not_kept folder=%s", policies.history)
