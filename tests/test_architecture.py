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
    "policy": {
        *("aiohttp", "httptools", "jose", "asyncio", "socket"),
        *inside("doors", "wires", "http1", "pipeline", "resolve", "pools", "portal", "generation", "config.load"),
    },
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

# What stands together in gateway/policy/: what each call needs, and the tools, which do without each other.
POLICY = {
    "decision": {"conditions", "rules", "holding", "engine", "shadow"},
    "form": {"files", "checks", "moments"},
    "lint": {"lint", "implication", "patterns", "likenames", "oddities", "fitting", "surroundings"},
    "cases": {"cases", "trial"},
    "record": {"asked", "explain", "mending", "replay", "history"},
    "diff": {"diff"},
}
_TOOLS = ("lint", "cases", "record", "diff")


def policies(*rooms: str) -> set[str]:
    return inside(*(f"policy.{name}" for room in rooms for name in POLICY[room]))


# What a room of gateway/policy/ must not know.
POLICY_IGNORANT = {
    "decision": {"time", *inside("config", "settings", "identity"), *policies("form", *_TOOLS)},
    "form": {"time", *inside("settings", "identity", "policy.holding", "policy.engine"), *policies(*_TOOLS)},
    **{tool: {"time", *inside("settings", "identity"), *policies(*{*_TOOLS} - {tool})} for tool in _TOOLS},
}

# The files that may all the same, and what: how old a kept policy is, what is configured around rules, where
# times and addresses part.
_EXCUSED = {
    "history": {"time"},
    "surroundings": inside("settings", "identity"),
    "mending": inside("policy.diff.times", "policy.diff.places"),
}

# The configuration is read by the assembly alone; everybody else is given values.
CONFIG_READERS = {"generation.py", "policyfiles.py", "reloading.py", "trying.py", "cli"}


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


def known(file: Path, banned: set[str]) -> set[str]:
    """What a file imports of what is banned, or from within it."""
    return {found for found in imports(file) for name in banned if found == name or found.startswith(f"{name}.")}


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
            assert known(file, IGNORANT[place]) == set(), file


def excused(name: str) -> set[str]:
    """What a file of the policy knows although its room must not."""
    return {
        found
        for file in FILES
        if name_of(file) == f"policy/{name}.py"
        for found in known(file, _EXCUSED.get(name, set()))
    }


def test_each_file_of_the_policy_stands_in_one_of_its_rooms() -> None:
    inside = [file.relative_to(ROOT / "gateway" / "policy") for file in FILES if within(name_of(file), {"policy"})]
    found = {path.parts[0].removesuffix(".py") for path in inside if path.parts[0][0] != "_"}

    assert sorted(name for room in POLICY.values() for name in room) == sorted(found)


@pytest.mark.parametrize("room", POLICY)
def test_a_room_of_the_policy_does_not_know_what_it_must_not(room: str) -> None:
    for name in POLICY[room]:
        for file in FILES:
            if within(name_of(file), {f"policy/{name}.py", f"policy/{name}"}):
                assert known(file, POLICY_IGNORANT[room]) - excused(name) == set(), file


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
