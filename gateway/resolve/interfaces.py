"""Whose words the body of a route is written in, as far as limits on what a call asks for have to know.

Knows: the rows of the table. Must not know: bodies, limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.resolve.rules import Default, Row, Source
from gateway.seams import Interface

_BY_PATTERN: Final[Mapping[str, Interface]] = {
    "/v1/chat/completions": Interface.CHAT,
    "/v1/completions": Interface.COMPLETIONS,
    "/v1/responses": Interface.RESPONSES,
    "/v1/messages": Interface.MESSAGES,
    "/v1/images/edits": Interface.PICTURE_FORM,
    "(/v1)?/tokenize": Interface.PLAIN,
    "(/v1)?/detokenize": Interface.PLAIN,
    "/v1/(chat/completions|completions|messages|responses)/render": Interface.PLAIN,
}

# Protocols whose routes generate no tokens, although the rows leave their bodies unread.
_TOKENLESS: Final = frozenset(("retriever", "generic-infer"))


def interface(row: Row, path: str) -> Interface:
    """The interface of a row, at this path behind the prefix. `UNKNOWN` unless it is sure what a body means."""
    found = _BY_PATTERN.get(row.pattern.pattern)
    if found is not None:
        return found
    if row.set == "kserve":
        tail = path.rpartition("/")[2]
        return Interface.GENERATE if tail in {"generate", "generate_stream"} else Interface.UNKNOWN
    if row.default is not Default.GRANT:
        return Interface.UNKNOWN
    if row.source is Source.FORM:
        return Interface.FORM
    if row.source is Source.JSON or row.set in _TOKENLESS:
        return Interface.PLAIN
    return Interface.UNKNOWN
