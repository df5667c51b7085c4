"""The pages name files, and things in them, that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATEWAY = ROOT / "gateway"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/README.md"), *(ROOT / "docs").rglob("*.md")])
#: Pages for whoever changes the code, which say `module.Name`; on others such words are settings and log events.
OF_THE_CODE = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs" / "decisions").iterdir()),
    GATEWAY / "seams.py",
]
CODE = re.compile(r"`([^`\n]+)`|\]\(([^)\n]+)\)")
PATH = re.compile(r"(?<![\w./-])(?:\.\./)*(?:[\w-]+/)*[\w-]+(?:\.(?:py|md|rules|txt|toml|lock|yaml)|/)(?![\w…-])")
#: `file.py` `Name`, `name`: what stands in that file.
THINGS = re.compile(r"`([\w/]+\.py)`( `[A-Za-z_]\w*`(?:, `[A-Za-z_]\w*`)*)")
#: `Class.method`
METHOD = re.compile(r"`([A-Z]\w*\.[a-z_]\w*)`")
DOTTED = re.compile(r"(?<![\w./-])([a-z_]+)\.([A-Za-z_]\w*)\b(?!/)")
ABSENT = {
    "doors/http2.py",  # how HTTP/2 will come
    "wires/http2.py",
    "config/my-gateway.yaml",  # the reader's own
    "config/api_keys.yaml",
    "config/revoked.yaml",
    "config/candidate/",
    "config/my-policies/",
    "config/my-policies/chat.yaml",
    "my-policies/",
    "my-policies/1-team.yaml",
    "my-policies/2-models.yaml",
    "my-policies/3-hours.yaml",
    "my-policies/4-cap.yaml",
    "my-policies/tests/cases.yaml",
    "policies/demo.yaml",  # written by the demo
    ".demo/PORT/",
}


def label(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def modules() -> dict[str, list[Path]]:
    """The files of the gateway by their short names; a package goes by its own."""
    found: dict[str, list[Path]] = {}
    for file in GATEWAY.rglob("*.py"):
        found.setdefault(file.parent.name if file.name == "__init__.py" else file.stem, []).append(file)
    return found


@cache
def names(file: Path) -> frozenset[str]:
    """Everything that is given a name in a file: classes, functions, variables, attributes, arguments."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


def test_there_are_pages_to_look_at() -> None:
    assert len(PAGES) > 15
    assert sum(len(THINGS.findall(page.read_text())) for page in PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_a_page_names_files_that_exist(page: Path) -> None:
    text = page.read_text()
    named = {path for code in CODE.findall(text) for path in PATH.findall(" ".join(code))}
    known = (ROOT, GATEWAY, ROOT / "tests", ROOT / "config", page.parent)
    missing = {path for path in named if not any((folder / path).exists() for folder in known)}
    assert {path for path in missing if "NAME" not in path} - ABSENT == set()


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_what_a_page_says_stands_in_a_file_stands_there(page: Path) -> None:
    for path, listed in THINGS.findall(page.read_text()):
        for thing in re.findall(r"`([^`]+)`", listed):
            assert thing in names((ROOT if path.startswith("tests/") else GATEWAY) / path), f"{path} has no {thing}"


@pytest.mark.parametrize("page", OF_THE_CODE, ids=label)
def test_a_page_of_the_code_says_names_with_the_module_that_has_them(page: Path) -> None:
    for code in CODE.findall(page.read_text()):
        for module, name in DOTTED.findall(code[0]):
            files = modules().get(module, [])
            inside = any(name in names(file) or (file.parent / f"{name}.py").exists() for file in files)
            assert not files or inside or name in {"py", "md"}, f"{module}.{name}"


@cache
def methods() -> frozenset[str]:
    """`Class.method` for each class of the gateway."""
    classes = (
        node
        for file in GATEWAY.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    return frozenset(
        f"{each.name}.{node.name}"
        for each in classes
        for node in each.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_the_steps_of_the_path_are_methods_that_exist() -> None:
    named = set(METHOD.findall((ROOT / "ARCHITECTURE.md").read_text()))
    assert len(named) >= 6
    assert named - methods() == set()
