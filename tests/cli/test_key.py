"""`nim-gateway key`: the key alone on standard output, once; the file changed whole or not at all."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.identity.apikeys.keyedit import stamp
from gateway.identity.apikeys.keyfile import Entry, written
from gateway.identity.apikeys.keytext import DIGEST_PREFIX, PATTERN, digest_of, id_of
from tests.parts.process import ROOT

DAY = 86400.0
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], file: Path) -> Run:
    """`run("create", "--owner", "batch")`: exit code, output and errors of the command, on a file of this test."""

    def call(action: str, *words: str, file: Path = file) -> tuple[int, str, str]:
        try:
            code = main(["key", action, *words, "--file", str(file)])
        except SystemExit as refused:  # by the reader of the command line
            code = int(refused.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def made(run: Run, *words: str) -> str:
    """A new key."""
    code, out, _ = run("create", *words)
    assert code == 0
    return out.strip()


def kept(file: Path, key: str) -> Entry:
    (entry,) = [entry for entry in written(file) if entry.id == id_of(key)]
    return entry


def test_a_key_is_printed_alone_and_the_file_holds_its_digest_only(run: Run, file: Path) -> None:
    code, out, err = run("create", "--owner", "batch", "--groups", "data-science,nightly", "--expires", "90d")
    assert code == 0
    key = out.removesuffix("\n")
    assert re.fullmatch(PATTERN, key)
    entry = kept(file, key)
    assert (entry.owner, entry.groups) == ("batch", ("data-science", "nightly"))
    assert entry.digest == DIGEST_PREFIX + digest_of(key).hex()
    assert entry.expires == entry.created + 90 * DAY
    assert key not in file.read_text() + err
    assert key[15:] not in file.read_text() + err
    assert entry.expires is not None
    told = f"key {entry.id} of batch (groups data-science, nightly; expires {stamp(entry.expires)}) is in {file}."
    assert err == f"{told} It is shown only now:\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_key_may_have_no_end_and_no_groups(run: Run, file: Path) -> None:
    entry = kept(file, made(run, "--owner", "batch", "--note", "until #7 is done"))
    assert (entry.expires, entry.groups, entry.note) == (None, (), "until #7 is done")


def test_what_an_operator_wrote_into_the_file_stays(run: Run, file: Path) -> None:
    made(run, "--owner", "batch")
    text = "# ours; ask the platform team\n" + file.read_text().replace("  - id", "  # the nightly run\n  - id")
    file.write_text(text)
    file.chmod(0o640)
    key = made(run, "--owner", "alice")
    assert file.read_text().startswith(text)
    assert run("revoke", kept(file, key).id)[0] == 0
    assert file.read_text().startswith(text)
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_key_is_rotated_with_an_overlap(run: Run, file: Path) -> None:
    old = made(run, "--owner", "batch", "--groups", "data-science", "--expires", "90d")
    code, new, err = run("create", "--replaces", kept(file, old).id, "--overlap", "36h")
    assert code == 0
    before, after = kept(file, old), kept(file, new.strip())
    assert (after.owner, after.groups, after.expires) == ("batch", ("data-science",), after.created + 90 * DAY)
    assert before.expires == after.created + 1.5 * DAY
    assert f"key {before.id} holds until " in err
    assert kept(file, made(run, "--replaces", after.id)).owner == "batch"
    assert kept(file, new.strip()).expires == pytest.approx(after.created + 7 * DAY, abs=60)


def test_an_overlap_never_lets_a_key_hold_longer_than_it_would_have(run: Run, file: Path) -> None:
    old = made(run, "--owner", "batch", "--expires", "1h")
    ends = kept(file, old).expires
    made(run, "--replaces", kept(file, old).id, "--overlap", "7d", "--groups", "other")
    assert kept(file, old).expires == ends


@pytest.mark.parametrize("whole", [False, True])
def test_a_revoked_key_stays_in_the_file_for_the_record(run: Run, file: Path, whole: bool) -> None:
    """Whoever finds a leaked key may paste it as it is."""
    key = made(run, "--owner", "batch")
    name = key if whole else kept(file, key).id
    code, out, err = run("revoke", name)
    assert (code, out) == (0, "")
    assert err == f"key {kept(file, key).id} of batch is revoked; a running gateway refuses it within two seconds\n"
    since = kept(file, key).revoked
    assert since is not None
    code, _, err = run("revoke", name)
    assert (code, err) == (0, f"key {kept(file, key).id} of batch is revoked already, since {stamp(since)}\n")
    assert kept(file, key).revoked == since
    assert run("create", "--replaces", kept(file, key).id)[0] == 2


def test_the_list_shows_each_key_and_how_it_stands(run: Run, file: Path) -> None:
    keys = [made(run, "--owner", owner, "--groups", "a,b") for owner in ("batch", "alice", "bob")]
    run("revoke", kept(file, keys[1]).id)
    file.write_text(file.read_text().replace('owner: "bob"', 'owner: "bob"\n    expires: 2020-01-01T00:00:00Z'))
    code, out, err = run("list")
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.splitlines()]
    assert head == ["ID", "OWNER", "GROUPS", "CREATED", "EXPIRES", "STATE", "NOTE"]
    assert [(row[0], row[1], row[2], row[5]) for row in rows] == [
        (kept(file, key).id, owner, "a,b", state)
        for key, owner, state in zip(keys, ("batch", "alice", "bob"), ("active", "revoked", "expired"), strict=True)
    ]
    assert not any(key in out for key in keys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create",), "nim-gateway: say whose key it is: --owner NAME, or --replaces ID"),
        (("create", "--owner", "a", "--overlap", "7d"), "nim-gateway: --overlap goes with --replaces ID"),
        (("create", "--replaces", "k7f3m2qa"), "nim-gateway: there is no key with this id"),
        (("revoke", "k7f3m2qa"), "nim-gateway: there is no key with this id; nim-gateway key list shows those"),
        (("create", "--owner", "a", "--expires", "90"), "argument --expires: expected a time: a whole number with m"),
        (("create", "--owner", "a", "--expires", "0d"), "argument --expires: expected a time"),
        (("create", "--owner", "a", "--expires", "9999d"), "argument --expires: expected a time"),
        (("create", "--owner", " a"), "argument --owner: begins or ends with a space, and names are compared exactly"),
        (("create", "--owner", ""), "argument --owner: expected a name"),
        (("create", "--owner", "a\nb"), "argument --owner: expected a name"),
        (("create", "--owner", "a", "--groups", "a,,b"), "argument --groups: expected a name"),
        (("create", "--owner", "a", "--groups", "a, b"), "argument --groups: begins or ends with a space"),
    ],
)  # fmt: skip
def test_a_bad_call_is_one_line_that_says_what_to_do_and_changes_nothing(
    run: Run, file: Path, words: tuple[str, ...], said: str
) -> None:
    file.write_text("version: 1\nkeys: []\n")
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert file.read_text() == "version: 1\nkeys: []\n"


@pytest.mark.parametrize("action", [("create", "--owner", "a"), ("list",), ("revoke", "k7f3m2qa")])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"version: 1\nkeys:\n- {id: x}\n", ":3:4: expected the id of a key"),
        (b"version: 1\nkeys: [\n", ": not valid YAML"),
        (b"version: 1\nkeys: []\n# \xff\n", ":3:3: the file is not UTF-8"),
    ],
)
def test_a_bad_file_is_told_with_its_places_and_never_overwritten(
    run: Run, file: Path, action: tuple[str, ...], text: bytes, said: str
) -> None:
    file.write_bytes(text)
    code, out, err = run(*action)
    assert (code, out) == (2, "")
    assert any(line.startswith(str(file)) and said in line for line in err.splitlines()), err
    assert file.read_bytes() == text


def test_a_form_that_cannot_be_kept_is_left_alone(run: Run, file: Path) -> None:
    made(run, "--owner", "a")
    (entry,) = written(file)
    one = f"{{id: '{entry.id}', digest: '{entry.digest}', owner: a, created: 2026-01-31T12:00:00Z}}"
    text = f"version: 1\nkeys: [{one}] # x\n"
    file.write_text(text)
    code, out, err = run("create", "--owner", "b")
    assert (code, out, file.read_text()) == (2, "", text)
    assert err.startswith(f"nim-gateway: {file} cannot be changed without losing its comments;")


def test_a_file_that_cannot_be_written_is_said_in_one_line(run: Run, tmp_path: Path) -> None:
    code, out, err = run("create", "--owner", "a", file=tmp_path / "nowhere" / "keys.yaml")
    assert (code, out, err) == (1, "", f"nim-gateway: {tmp_path}/nowhere: No such file or directory\n")
    assert run("list", file=tmp_path / "none.yaml")[::2] == (
        2,
        f"{tmp_path}/none.yaml:1:1: does not exist; nim-gateway key create makes it\n",
    )


def test_a_new_key_holds_as_long_as_the_one_that_it_replaces_was_made_for(run: Run, file: Path) -> None:
    old = kept(file, made(run, "--owner", "batch", "--expires", "90d"))
    code, out, err = run("create", "--replaces", old.id)
    new = kept(file, out.strip())
    assert code == 0
    assert new.expires == new.created + 90 * DAY
    assert f"the new key holds as long as key {old.id} was made for; give --expires for another time\n" in err
    code, out, err = run("create", "--replaces", new.id, "--expires", "1d")
    last = kept(file, out.strip())
    assert last.expires == last.created + DAY
    assert "give --expires" not in err


def test_the_file_is_the_one_that_the_configuration_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also before there is one: the first key makes it, whatever else is still to be put right."""
    words = ["key", "create", "--owner", "a", "--config", "gateway.yaml", "--root", str(tmp_path)]
    config = tmp_path / "gateway.yaml"
    config.write_text("identity: {oidc: []}\nlisten: {tls: {certificate: none.crt, key: none.key}}\nx: 1\n")
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.endswith("gateway.yaml names no file of API keys: add identity.api_keys.file, or give --file\n")
    config.write_text(config.read_text().replace("oidc: []", "api_keys: {file: keys.yaml}"))
    assert main(words) == 0
    assert [entry.owner for entry in written(tmp_path / "keys.yaml")] == ["a"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("identity: [", "2:1: not valid YAML"),
        ("identity: {api_keys: {file: 7}}", "1:23: expected the path of a file or folder"),
        ("identity: {api_keys: {file: '${NIMGW_NOT_SET}'}}", "1:23: the environment variable NIMGW_NOT_SET is not set"),
    ],
)
def test_a_configuration_that_cannot_tell_the_file_is_told_with_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    (tmp_path / "gateway.yaml").write_text(text)
    assert main(["key", "list", "--config", "gateway.yaml", "--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/gateway.yaml:{said}")


def test_many_at_once_lose_no_key_also_where_some_come_by_a_link(file: Path) -> None:
    (file.parent / "linked").mkdir()
    link = file.parent / "linked" / "keys.yaml"
    link.symlink_to(file)

    def create(number: int) -> str:
        words = ["key", "create", "--owner", f"owner-{number}", "--file", str(link if number % 2 else file)]
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *words], cwd=ROOT, check=True, capture_output=True, text=True, timeout=120
        )
        return done.stdout.strip()

    with ThreadPoolExecutor(4) as pool:
        keys = [*pool.map(create, range(8))]
    assert {entry.id for entry in written(file)} == {id_of(key) for key in keys}
    assert {entry.owner for entry in written(file)} == {f"owner-{number}" for number in range(8)}


@pytest.mark.parametrize("words", [(), ("create",), ("list",), ("revoke",)])
def test_help_has_an_example(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["key", *words, "--help"])
    assert done.value.code == 0
    assert "  nim-gateway key create --owner batch --groups data-science --expires 90d\n" in capsys.readouterr().out
