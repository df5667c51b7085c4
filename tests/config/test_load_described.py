"""A configuration is described where nothing of what it names is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.load import described
from gateway.config.mistakes import Mistakes
from tests.config.conftest import MINIMAL


def test_neither_certificates_nor_secrets_nor_policies_need_to_be_there(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(MINIMAL + "    credential: {header: X-Key, value: {file: /run/secrets/nowhere}}\n")
    (pool,) = described(file, tmp_path).pools
    assert pool.models[0].name == "llama"


def test_what_is_wrong_in_the_file_itself_is_said_and_what_is_not_there_is_not(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = MINIMAL.replace("[openai]", "[opnai]").replace("name: corp", "name: ${CORP}")
    file.write_text(text + "    credential: {header: X-Key, value: {env: NOWHERE}}\n")
    with pytest.raises(Mistakes) as caught:
        described(file, tmp_path, environment={})
    first, second = caught.value.mistakes
    assert first.message == "the environment variable CORP is not set"
    assert second.message.startswith("unknown protocol")
