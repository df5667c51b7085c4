"""The files that the demo writes are files that the gateway takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import devcerts
from gateway.config import load as config
from gateway.demo import layout
from gateway.demo.layout import Parts, Places
from gateway.policy import files as policyfile

PARTS = Parts(("http://127.0.0.1:1", "http://127.0.0.1:2"), "http://127.0.0.1:3", "http://127.0.0.1:4", 8443, 9090)


@pytest.fixture(params=["plain", "with space, comma: 'and' \"quote\" #"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    here = tmp_path / request.param
    here.mkdir()
    return layout.places(here, 8443)


def test_the_gateway_takes_the_configuration_and_policies(where: Places) -> None:
    made = devcerts.make(where.certificates)
    layout.write(where, PARTS, made.certificate, made.key)
    settings = config.load(where.config, None, environment={}).settings
    assert {backend.url for pool in settings.pools for backend in pool.backends} == {
        "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3",
    }  # fmt: skip
    assert (settings.listen.address, settings.listen.port) == ("127.0.0.1", 8443)
    rules = policyfile.load(settings.policies.enforce)
    assert [rule.id for rule in rules] == ["data-science", "guests"]


def test_each_port_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert layout.places(tmp_path, 1).folder != layout.places(tmp_path, 2).folder


def test_certificates_are_those_of_the_checkout_where_there_is_one(tmp_path: Path) -> None:
    assert layout.places(tmp_path, 1).certificates.is_relative_to(tmp_path / ".demo")
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "make_dev_certs.py").touch()
    assert layout.places(tmp_path, 1).certificates == tmp_path / "certs"


def test_where_nothing_can_be_written_a_temporary_folder_serves(tmp_path: Path) -> None:
    (tmp_path / ".demo").touch()  # not a folder: nothing can be put into it, not even by root
    folder = layout.places(tmp_path, 1).folder
    assert folder.is_dir()
    assert not folder.is_relative_to(tmp_path)
    folder.rmdir()


def test_a_token_is_for_its_owner_only_also_when_it_is_replaced(where: Places) -> None:
    where.token("alice").write_text("old")
    where.token("alice").chmod(0o644)
    layout.keep_token(where, "alice", "new")
    assert where.token("alice").read_text() == "new"
    assert where.token("alice").stat().st_mode & 0o777 == 0o600
