"""The rules of the tree: which way imports point, who may import which library, how large things get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "gateway").rglob("*.py"))

# Who imports a library; a folder's name stands for its files.
IMPORTERS = {
    "jose": {"identity/signatures/jwt.py"},
    "authlib": {"identity/provider/oauth.py"},
    "httptools": {"http1"},
    "yaml": {"config"},
    "pydantic": {"config", "simulate"},
    "prometheus_client": {"accounting/metrics.py"},
    "aiohttp": {"fetch.py", "doors/admin.py", "portal", "simulate", "demo"},
    "jinja2": {"portal/pages.py"},
    "python_multipart": {"resolve/formbody.py"},
    "uvloop": {"cli/serve.py"},
    "joserfc": {"identity/provider/oauth.py", "simulate"},
    "ldap3": {"identity/ldap/session.py"},
    "tqdm": {"progress.py"},
    "h11": set(),
}


def inside(*names: str) -> set[str]:
    """Modules and packages of the gateway."""
    return {f"gateway.{name}" for name in names}


# What a module must not know, as the first lines of each say in words.
IGNORANT = {
    "pipeline.py": {"aiohttp", "httptools", "jose", *inside("doors", "wires", "config", "identity")},
    "policy/engine.py": {"aiohttp", "time", *inside("doors", "wires", "identity", "http1", "config")},
    "policy/holding.py": {"time", "socket", *inside("doors", "call", "identity", "config", "policy.engine")},
    "policy/conditions.py": {"time", "socket", *inside("call", "policy.rules", "policy.engine")},
    "relay.py": {"asyncio", *inside("doors", "wires", "http1")},
    "pools/balance.py": {"asyncio", "time", *inside("http1", "doors", "pools.health")},
    "resolve": {"asyncio", *inside("doors", "wires", "http1", "identity")},
    "seams.py": inside("doors", "wires", "identity", "resolve", "policy"),
    "identity": inside("doors", "wires", "resolve", "pools", "policy", "portal", "pipeline"),
    "portal": inside("doors", "wires", "resolve", "pools", "policy", "pipeline", "generation"),
    "http1": {"asyncio", "socket", *inside("doors", "wires", "identity", "policy")},
    "doors": inside("pipeline", "policy", "resolve", "pools", "identity", "config"),
    "wires": inside("pipeline", "policy", "resolve", "identity", "doors", "config"),
}

# The configuration is read by the assembly alone; everybody else is given values.
CONFIG_READERS = {"generation.py", "app.py", "cli"}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT / "gateway").as_posix()


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module.split(".")[0] == "gateway":
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_the_architecture_page_names_every_room_there_is_and_no_other() -> None:
    rooms = {
        path.name for path in (ROOT / "gateway").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    table = (ROOT / "ARCHITECTURE.md").read_text().split("\n## The rooms\n", 1)[1].split("\n## ", 1)[0]
    named = re.findall(r"^\| `([a-z0-9_]+)(\.py|/)` \| .+ \| .+ \|$", table, re.MULTILINE)

    assert sorted(name + end.removesuffix("/") for name, end in named) == sorted(rooms - {"__init__.py"})


def test_imports_form_no_cycle() -> None:
    modules = {module_of(file): file for file in FILES}
    graph = {name: {found for found in imports(file) if found in modules} - {name} for name, file in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("library", IMPORTERS)
def test_a_library_is_imported_in_its_place_only(library: str) -> None:
    importers = {name_of(file) for file in FILES if any(found.split(".")[0] == library for found in imports(file))}

    assert {name for name in importers if not within(name, IMPORTERS[library])} == set()


@pytest.mark.parametrize("place", IGNORANT)
def test_a_module_does_not_know_what_it_must_not(place: str) -> None:
    for file in FILES:
        if within(name_of(file), {place}):
            known = {
                found
                for found in imports(file)
                for banned in IGNORANT[place]
                if found == banned or found.startswith(f"{banned}.")
            }
            assert known == set(), file


def test_only_the_assembly_reads_the_configuration() -> None:
    readers = {name_of(file) for file in FILES if {"gateway.config.load", "gateway.config.watch"} & set(imports(file))}

    assert {name for name in readers if not within(name, CONFIG_READERS)} == set()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_is_small_and_says_what_it_is(file: Path) -> None:
    lines = file.read_text().count("\n")
    assert lines <= 400
    assert ast.get_docstring(tree(file)), "the first lines say what it is, knows, and must not know"
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name
            assert not [inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)], node.name
