"""Policy files that people and programs write and that must not be taken, and odd ones that mean what they say."""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
version: 1
rules:
  - id: all
    effect: allow
    subjects: {groups: [ds]}
    models: ["*"]
  - id: not-n
    effect: deny
    subjects:
      groups: [ds]
    models:
      - n
"""


@dataclass(frozen=True)
class Bad:
    """What stands in a file, and how the first mistake in it is told: `line:column`, and words that help."""

    text: bytes
    place: str
    words: str


def cut_before(words: str) -> bytes:
    """The good file as far as a writer came who stopped at the end of a line."""
    text = GOOD[: GOOD.index(words)]
    return text[: text.rindex("\n") + 1].encode()


def bad(text: str, place: str, words: str) -> Bad:
    return Bad(text.encode(), place, words)


LINES = GOOD.encode().splitlines(keepends=True)
PAIRS = zip("abcdefgh", "bcdefghi", strict=True)
BOMB = "a: &a [x, x]\n" + "".join(f"{new}: &{new} [*{old}, *{old}]\n" for old, new in PAIRS)
FIRST_RULE = GOOD[GOOD.index("  - id: all") : GOOD.index("  - id: not-n")]

BAD: dict[str, Bad] = {
    "a rule twice": bad(GOOD + FIRST_RULE, "13:5", "this id is taken: the rule at"),
    "rules twice": bad(GOOD + GOOD.partition("\n")[2], "13:1", "'rules' stands twice, first in line 2"),
    "a key twice": bad(
        GOOD.replace("    models:\n", "    models: ['*']\n    models:\n"), "12:5", "'models' stands twice, first in"
    ),
    "a list that opens further down": bad(
        GOOD.replace("groups: [ds]}", 'groups: [ds], groups: ["**"]}'), "5:30", "'groups' stands twice, first in line 5"
    ),
    "numbers as versions": bad(GOOD + "    versions: [010]\n", "13:16", "without leading zeros"),
    "numbers as groups": bad(GOOD.replace("groups: [ds]}", "groups: [7]}"), "5:25", "put it in quotes"),
    "a switch as a group": bad(GOOD.replace("groups: [ds]}", "groups: [true]}"), "5:25", "put it in quotes"),
    "an alias bomb": bad(BOMB + GOOD, "1:4", "an anchor (&a) is not taken"),
    "an alias": bad(GOOD.replace("groups: [ds]}", "groups: *them}"), "5:24", "write the value again"),
    "a list in itself": bad("version: 1\nrules: &r [*r]\n", "2:8", "an anchor (&r) is not taken"),
    "a merge that takes a deny away": bad(GOOD + "    <<: {effect: allow}\n", "13:5", "merge"),
    "5,000 lists": bad("[" * 5000, "1:1001", "maximum nesting depth"),
    "a mapping of mappings": bad("version: 1\nrules: " + "{a: " * 5000, "2:260", "deeper than 64"),
    "two documents": bad(GOOD + "---\n" + GOOD, "13:1", "one file holds one"),
    "an empty file": bad("", "1:1", "the file is empty"),
    "only comments": bad("# rules come here\n", "1:1", "the file is empty"),
    "only the version": bad("version: 1\n", "1:1", "the setting 'rules' is missing"),
    "rules without one": bad("version: 1\nrules:\n", "2:1", "expected a list"),
    "no rules in the list": bad("version: 1\nrules: []\n", "2:1", "at least one is needed here"),
    "cut in a rule": Bad(cut_before("    models: "), "3:5", "the setting 'models' is missing"),
    "cut before a list": Bad(cut_before("      - n"), "11:5", "expected a list"),
    "cut in the subjects": Bad(cut_before("      groups"), "7:5", "the setting 'models' is missing"),
    "cut in the effect": Bad(GOOD[: GOOD.index("ny\n")].encode(), "7:5", "the setting 'models' is missing"),
    "the end of a longer file": Bad(GOOD.encode() + LINES[-1][4:] + LINES[-2][2:], "14:3", "not valid YAML"),
    "a byte order mark": Bad(b"\xef\xbb\xbf" + GOOD.encode(), "1:1", "save it as UTF-8 without one"),
    "UTF-16": Bad(GOOD.encode("utf-16"), "1:1", "save it as UTF-8"),
    "Latin-1": Bad(GOOD.replace("ds", "caf\xe9").encode("latin-1"), "5:28", "the file is not UTF-8"),
    "tabs": bad(GOOD.replace("    models", "\tmodels"), "6:1", "use spaces"),
    "zeros of a crashed disk": Bad(GOOD.encode()[:90] + bytes(64), "6:14", "U+0000"),
    "a tag of Python": bad('version: 1\nrules: !!python/object/apply:os.system ["true"]\n', "2:8", "a tag (!) is not"),
    "a tag": bad(GOOD.replace("groups: [ds]}", "groups: !!set {ds}}"), "5:24", "a tag (!) is not taken"),
    "a key of another name": bad(GOOD.replace("    effect: deny", "    efect: deny"), "7:5", "'effect' is missing"),
    "a key too many": bad(GOOD + "    model: [m]\n", "13:5", "did you mean 'models'?"),
    "a key that looks the same": bad(GOOD.replace("models: [", "mod\u0435ls: ["), "3:5", "'models' is missing"),
    "an operation of another case": bad(GOOD + "    operations: [Infer]\n", "13:18", "expected 'infer'"),
    "HTML": bad("<!doctype html>\n<title>Not found</title>\n", "1:1", "expected a mapping"),
    "a merge conflict": bad(GOOD.replace("  - id: not-n\n", "<<<<<<< HEAD\n  - id: not-n\n"), "8:7", "not valid YAML"),
}  # fmt: skip

#: What YAML 1.1 would read as something else, or what looks alike: a group as it is written, and one that it is not.
MEANT: dict[str, tuple[str, str, str]] = {
    "Norway": ("no", "no", "false"),
    "on": ("on", "on", "true"),
    "octal": ("'010'", "010", "8"),
    "sexagesimal": ("12:30:45", "12:30:45", "45045"),
    "hexadecimal": ("0x1F", "0x1F", "31"),
    "a date": ("2026-01-01", "2026-01-01", "2026-01-01 00:00:00"),
    "null in capitals": ("NULL", "NULL", "None"),
    "composed": ("caf\u00e9", "caf\u00e9", "cafe\u0301"),
    "decomposed": ("cafe\u0301", "cafe\u0301", "caf\u00e9"),
    "Cyrillic": ("d\u0455", "d\u0455", "ds"),
}
