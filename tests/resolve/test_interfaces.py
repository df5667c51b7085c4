"""Which words a body is written in, for each route of the shipped table."""

from __future__ import annotations

import pytest

from gateway.resolve.rules import Table, shipped
from gateway.seams import Interface

TABLE = Table(shipped())

ROUTES = [
    ("/v1/chat/completions", Interface.CHAT),
    ("/v1/completions", Interface.COMPLETIONS),
    ("/v1/responses", Interface.RESPONSES),
    ("/v1/messages", Interface.MESSAGES),
    ("/v1/messages/count_tokens", Interface.PLAIN),
    ("/v1/embeddings", Interface.PLAIN),
    ("/v1/images/generations", Interface.PLAIN),
    ("/v1/ranking", Interface.PLAIN),
    ("/v1/page-elements", Interface.PLAIN),
    ("/v1/infer", Interface.PLAIN),
    ("/tokenize", Interface.PLAIN),
    ("/v1/tokenize", Interface.PLAIN),
    ("/v1/chat/completions/render", Interface.PLAIN),
    ("/v1/audio/transcriptions", Interface.FORM),
    ("/v1/audio/synthesize", Interface.FORM),
    ("/v1/images/edits", Interface.PICTURE_FORM),
    ("/v2/models/m/generate", Interface.GENERATE),
    ("/v2/models/m/versions/1/generate_stream", Interface.GENERATE),
    ("/v2/models/m/infer", Interface.UNKNOWN),
    ("/v2/repository/models/m/load", Interface.UNKNOWN),
    ("/v1/chat/completions/batch", Interface.UNKNOWN),
    ("/generative_scoring", Interface.UNKNOWN),
    ("/v1/genai/pub/model", Interface.UNKNOWN),
    ("/biology/arc/evo2/generate", Interface.UNKNOWN),
    ("/generate", Interface.UNKNOWN),
    ("/inference/v1/generate", Interface.UNKNOWN),
    ("/what/ever", Interface.UNKNOWN),
]


@pytest.mark.parametrize(("path", "words"), ROUTES)
def test_a_route_is_known_by_its_words_or_not_at_all(path: str, words: Interface) -> None:
    found = TABLE.find("POST", path)
    assert found is not None
    assert found.row.interface is words
