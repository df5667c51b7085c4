"""What a browser brings back from a provider: the answer to an authorization request (RFC 6749 section 4.1, RFC 9207).

Knows: which answers count, how the others are said to a person. Must not know: HTTP, what a code is good for.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

from gateway.errors import IdentityUnavailable
from gateway.identity.contracts import Begun
from gateway.identity.refused import NotLoggedIn, Result

# RFC 6749 section 4.1.2.1: printable ASCII; all that are registered look like this, and no others are repeated.
_ERROR: Final = re.compile(r"[a-z][a-z_]{0,39}")
_LATER: Final = frozenset({"temporarily_unavailable", "server_error"})
_LATER_SECONDS: Final = 5


def code_in(answer: Mapping[str, str], begun: Begun, issuer: str, *, says_who: bool) -> str:
    """The code in `answer`. `says_who`: the provider announced that it names itself in each.

    Raises `NotLoggedIn`, or `IdentityUnavailable` where the provider says that it cannot at the moment.
    """
    if not hmac.compare_digest(answer.get("state", "").encode(), begun.state.encode()):
        text = "This login was begun in another window, or too long ago. Begin again."
        raise NotLoggedIn(Result.MALFORMED, text, "another state than the one that was sent")
    if (says_who or "iss" in answer) and answer.get("iss") != issuer:  # RFC 9207 section 2.4: compared as text
        text = "The answer came from another provider than the one that was asked. Begin again."
        raise NotLoggedIn(Result.BAD_ISSUER, text, "another issuer than the one that was asked")
    if "error" in answer:
        raise _denied(known(answer["error"]))
    if not answer.get("code"):
        raise NotLoggedIn(Result.MALFORMED, "The provider's answer cannot be read. Begin again.", "no code")
    return answer["code"]


def known(error: str) -> str:
    """An error code of OAuth, fit for a page and a log line."""
    return error if _ERROR.fullmatch(error) else "unknown"


def _denied(code: str) -> NotLoggedIn | IdentityUnavailable:
    """What the provider says instead of giving a code. Its description is its own text: it is not shown."""
    detail = f"the provider says {code}"
    if code in _LATER:
        return IdentityUnavailable(retry_after=_LATER_SECONDS, detail=detail)
    if code == "access_denied":
        text = "The login was cancelled, or your provider does not let you in here."
        return NotLoggedIn(Result.REFUSED_ACCOUNT, text, detail)
    text = f"Your provider refused the login ({code}). Tell your administrator."
    return NotLoggedIn(Result.MALFORMED, text, detail)
