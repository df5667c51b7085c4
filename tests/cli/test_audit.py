"""`nim-gateway audit verify`: what an auditor reads, and the exit codes that a script goes by."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway import __main__ as command_line
from gateway.accounting.appender import Appender
from gateway.settings import Audit
from tests.operators.test_audit_chain import LIMIT, line, reopen, write
from tests.operators.test_audit_order import files_at

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def say(*words: object) -> tuple[int, str, str]:
        code = command_line.main(["audit", "verify", *map(str, words)])
        return code, *capsys.readouterr()

    return say


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three rotated ones and the last, in which the gateway ended in order."""
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path)))
    for number in (3, 2, 1):
        write(appender, [line(number), line(number + 10)])
        path.rename(tmp_path / f"audit.jsonl.{number}")
        reopen(appender)
    write(appender, [line(99)])
    assert appender.close(LIMIT)
    return sorted(tmp_path.iterdir())


def test_a_whole_record_is_told_in_a_few_lines_whatever_the_order_and_the_packing(
    said: Said, files: list[Path]
) -> None:
    packed = files[2].with_name(files[2].name + ".gz")
    packed.write_bytes(gzip.compress(files[2].read_bytes()))
    code, out, err = said("--complete", *files[:2], packed, files[3])
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [text.partition(":")[0] for text in lines[:4]] == [
        str(file) for file in (files[3], packed, files[1], files[0])
    ]
    assert re.fullmatch(r".*\.3: 4 lines, 20\S*Z to 20\S*Z", lines[0])
    assert lines[4:] == [f"head {lines[4][5:]}", "whole"]


def test_a_clock_that_was_set_back_between_rotations_is_no_tampering(said: Said, tmp_path: Path) -> None:
    texts = files_at(3000.0, 1000.0, 2000.0)
    paths = [tmp_path / name for name in ("b.jsonl.gz", "c.jsonl", "a.jsonl")]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    code, out, _ = said("--complete", *sorted(paths))
    assert code == 0
    assert [text.partition(":")[0] for text in out.splitlines()[:3]] == list(map(str, paths))
    assert said("--as-given", *reversed(paths))[0] == 1


def test_what_a_file_is_noted_for_is_said_in_words(said: Said, files: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(line(1))
    _, out, _ = said("--as-given", other, files[3], files[3])
    notes = [text.partition("; ")[2] for text in out.splitlines()[:3]]
    held = "nothing holds 1 audit line in it, and anybody may have written them"
    assert notes == [
        f"not chained: none of them says what stood before it; {held}",
        "new chain: it was a new file when the gateway started, and knows nothing of those before",
        "new chain: it was a new file when the gateway started, and knows nothing of those before",
    ]


def test_a_line_that_is_gone_is_told_by_file_and_line(said: Said, files: list[Path]) -> None:
    text = files[1].read_bytes().splitlines(keepends=True)
    files[1].write_bytes(b"".join((*text[:2], *text[3:])))
    code, out, _ = said(*files)
    assert code == 1
    assert f"{files[1]}:3: lines were removed, changed, added or moved (after {files[1]}:2)" in out.splitlines()
    assert out.endswith("\nNOT WHOLE\n")


def test_a_file_that_is_gone_is_told_by_those_around_it(said: Said, files: list[Path]) -> None:
    code, out, _ = said(files[0], *files[2:])
    assert code == 1
    assert f"{files[0]}:1: this does not continue {files[2]}: " in out


def test_what_cannot_be_known_is_said_and_fails_only_if_the_record_must_be_complete(
    said: Said, files: list[Path]
) -> None:
    text = files[0].read_bytes()
    files[0].write_bytes(text[: text.rindex(b"{")])
    code, out, _ = said(*files[:3])
    assert code == 0
    assert "\nbegins in the middle, behind " in out
    assert "\nends open: " in out
    assert said("--complete", *files[:3])[0] == 1
    assert said("--complete", *files[1:])[0] == 0


def test_a_check_goes_on_from_an_earlier_one(said: Said, files: list[Path]) -> None:
    _, out, _ = said("--json", *files[2:])
    head = json.loads(out)["head"]
    code, out, _ = said("--complete", "--after", head, *files[:2])
    assert code == 0
    assert "begins" not in out
    code, out, _ = said("--after", head, files[0])
    assert code == 1
    assert f"{files[0]}:1: this does not continue what was checked before" in out


def test_a_program_is_told_the_same(said: Said, files: list[Path]) -> None:
    code, out, _ = said("--json", *files)
    told = json.loads(out)
    assert (code, told["whole"], told["closed"], told["from_start"], told["found"]) == (0, True, True, True, [])
    assert [(one["lines"], one["closed"], one["lost"], one["torn"], one["crashes"]) for one in told["files"]] == [
        (4, True, 0, 0, 0)
    ] * 3 + [(3, True, 0, 0, 0)]


def test_lines_without_a_chain_are_not_whole(said: Said, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(line(1) + line(2))
    code, out, _ = said(path)
    assert code == 1
    assert "not chained: " in out


def without_links(file: Path) -> None:
    """As somebody leaves it who has something to change in it."""
    kept = re.sub(rb',"prev":"[0-9a-f]{64}"', b"", file.read_bytes())
    file.write_bytes(b"".join(each for each in kept.splitlines(keepends=True) if b'"audit":"' not in each))


@pytest.mark.parametrize("number", range(4))
def test_whoever_takes_all_links_out_of_a_file_takes_it_out_of_what_is_whole(
    said: Said, files: list[Path], number: int
) -> None:
    """Else the newest, and the oldest that is there, could be written anew by anybody."""
    without_links(files[number])
    assert b'"request_id"' in files[number].read_bytes()
    for words in ([], ["--as-given"]):
        code, out, _ = said(*words, *reversed(files))
        assert code == 1
        assert out.endswith("\nNOT WHOLE\n")
        assert re.search(rf"^{files[number]}: .*nothing holds \d audit line", out, re.MULTILINE)


def test_a_file_without_links_that_the_next_link_holds_is_as_it_was_written(said: Said, tmp_path: Path) -> None:
    """As of a write that went on in the next file."""
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "a.jsonl"
    appender = Appender(Audit(str(whole)))
    write(appender, [line(1), line(2)])
    write(appender, [line(3)])
    assert appender.close(LIMIT)
    text = whole.read_bytes().splitlines(keepends=True)
    at = text.index(line(2))
    for name, part in (("a", text[:at]), ("b", text[at : at + 1]), ("c", text[at + 1 :])):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(part))
    three = [cut, tmp_path / "b.jsonl", tmp_path / "c.jsonl"]
    assert said("--as-given", "--complete", *three)[0] == 0
    three[1].write_bytes(line(9))
    assert said("--as-given", *three)[0] == 1


def test_a_file_of_others_beside_the_record_is_none_of_it(said: Said, files: list[Path], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b'{"time":"2026-01-31T10:15:00.000Z","level":"info","event":"ready"}\n')
    code, out, _ = said("--as-given", *reversed(files), log)
    assert code == 0
    assert f"{log}: 1 line, 2026" in out


def test_many_breaks_are_counted_and_not_listed_without_end(said: Said, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    appender = Appender(Audit(str(path), fsync="never"))
    for number in range(150):
        write(appender, [line(number)])
    assert appender.close(LIMIT)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(reversed(lines)))
    code, out, _ = said(path)
    assert code == 1
    assert re.search(r"\nand \d+ more\n", out)


@pytest.mark.parametrize("content", [None, b"no gzip", gzip.compress(b"x" * 9999)[:20]])
def test_a_file_that_cannot_be_read_is_one_line_and_no_verdict(
    said: Said, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "audit.jsonl.gz"
    if content is not None:
        path.write_bytes(content)
    code, out, err = said(path)
    assert (code, out) == (2, "")
    assert err.startswith("nim-gateway: ")
    assert err.count("\n") == 1
    assert "audit.jsonl.gz" in err


@pytest.mark.parametrize("words", [(), ("--as-given",), ("--complete", "--json")])
@pytest.mark.parametrize("name", ["audit.jsonl", "audit.jsonl.gz"])
def test_a_file_that_is_not_there_is_one_line_and_no_verdict(
    said: Said, files: list[Path], words: tuple[str, ...], name: str
) -> None:
    gone = files[0].parent / "gone" / name
    code, out, err = said(*words, files[0], gone)
    assert (code, out, err) == (2, "", f"nim-gateway: {gone} cannot be read: No such file or directory\n")


def test_a_name_that_a_terminal_would_obey_is_written_out(said: Said, files: list[Path]) -> None:
    odd = files[0].with_name("\x1b[2Jaudit")
    files[0].rename(odd)
    code, out, _ = said(odd)
    assert code == 0
    assert "\\x1b[2Jaudit: 3 lines" in out
    assert "\x1b" not in out


@pytest.mark.parametrize("words", [[], ["--after", "short", "file"]])
def test_a_bad_call_is_2(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["audit", "verify", *words])


def test_a_file_of_audit_lines_and_log_lines_is_whole_and_that_is_said(said: Said, files: list[Path]) -> None:
    """Whoever collects standard output and standard error in one file has both."""
    text = files[0].read_bytes().splitlines(keepends=True)
    log = b'{"time":"2026-01-31T10:15:00.000Z","level":"info","event":"ready"}\n'
    files[0].write_bytes(log + text[0] + log + b"".join(text[1:]))
    code, out, _ = said(*files)
    assert code == 0
    assert "; 1 that are no audit lines, and without which the chain holds" in out or "; 2 that are no audit" in out
    files[0].write_bytes(log + text[0] + log + b"".join(text[2:]))
    code, out, _ = said(*files)
    assert code == 1
    assert "; 1 break" in out
