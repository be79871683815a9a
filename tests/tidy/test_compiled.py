"""The list of what is compiled, and what its modules owe to that (DESIGN.md, "Compiled")."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SIDECAR = ROOT / "sidecar"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOOK = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
MODULES = [path for pattern in HOOK["modules"] for path in sorted(SIDECAR.glob(pattern))]
#: What an interpreted base class is not: these mypyc knows, or they are gone when it is done.
HARMLESS_BASES = frozenset(
    {"object", "Protocol", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Exception"}
)


def test_nothing_is_compiled_unless_it_is_asked_for() -> None:
    assert HOOK["enable-by-default"] is False


@pytest.mark.parametrize("pattern", HOOK["modules"])
def test_every_line_of_the_list_names_a_module(pattern: str) -> None:
    assert list(SIDECAR.glob(pattern))


def test_nothing_compiled_lies_beside_its_source() -> None:
    assert [*SIDECAR.rglob("*.so"), *SIDECAR.rglob("*.pyd")] == []


def foreign_bases(text: str, compiled: frozenset[str]) -> Iterator[str]:
    """Classes of a compiled module whose base class is none of those; errors excepted."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                name = ast.unparse(base).partition("[")[0]
                if name not in HARMLESS_BASES and name not in compiled and not is_error(node.name):
                    yield f"{node.name} inherits from {name}"
            if node.keywords:
                yield f"{node.name} has options in its head"


def is_error(name: str) -> bool:
    """An error is made rarely, and may be half interpreted."""
    return name.endswith("Error")


def classes(text: str) -> Iterator[str]:
    """Of a module."""
    return (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(SIDECAR).as_posix())
def test_no_compiled_class_inherits_from_an_interpreted_one(module: Path) -> None:
    ours = frozenset(name for path in MODULES for name in classes(path.read_text()))
    assert list(foreign_bases(module.read_text(), ours)) == []


@pytest.mark.parametrize(
    ("text", "violations"),
    [
        ("class A(deque[int]): ...", ["A inherits from deque"]),
        ("class A(asyncio.Protocol): ...", ["A inherits from asyncio.Protocol"]),
        ("class A(msgspec.Struct): ...", ["A inherits from msgspec.Struct"]),
        ("class A(Ours, eq=False): ...", ["A has options in its head"]),
        ("class A(Ours): ...", []),
        ("class AError(Other): ...", []),
    ],
)  # fmt: skip
def test_a_wrong_base_is_found(text: str, violations: list[str]) -> None:
    assert list(foreign_bases(text, frozenset({"Ours"}))) == violations
