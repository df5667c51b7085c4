"""Cases of policies as JUnit XML, which every CI shows.

Knows: the elements that all readers of it share. Must not know: how a case is tried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from gateway.policy.rules import Rule
from gateway.policy.trial import Tried

#: What no XML may hold, not even as a reference (XML 1.0 section 2.2).
_IMPOSSIBLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Sequence[Tried], coverage: str, uncovered: Sequence[Rule] = ()) -> bytes:
    """The whole file. `coverage`: why the rules are not covered as is needed; "" where they are. `uncovered`: those."""
    failures = sum(not result.passed for result in results) + bool(coverage)
    counts = {"tests": str(len(results) + bool(coverage)), "failures": str(failures), "errors": "0", "skipped": "0"}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "nim-gateway policy test", **counts})
    for result in results:
        case = result.case
        _case(suite, case.name, case.file, f"{result.wrong} ({case.place})" if result.wrong else "", case.line)
    if coverage:
        rules = ", ".join(f"{rule.id} ({rule.place})" for rule in uncovered)
        _case(suite, "coverage of the rules", "coverage", f"{coverage}; not covered: {rules}")
    return bytes(ET.tostring(suites, encoding="utf-8", xml_declaration=True))


def _case(suite: ET.Element, name: str, file: str, wrong: str, line: int = 0) -> None:
    place = {"file": _fit(file), "line": str(line)} if line else {}
    element = ET.SubElement(suite, "testcase", {"name": _fit(name), "classname": _fit(file), "time": "0", **place})
    if wrong:
        ET.SubElement(element, "failure", {"message": _fit(wrong)}).text = _fit(wrong)


def _fit(text: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", text)
