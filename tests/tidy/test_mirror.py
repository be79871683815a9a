"""Every module has a test file of its name, and every unit test file has a module of its name.

`service/owner/turn.py` has `test_turn.py`, or several of which each says what about:
`test_turn_ages.py`. Modules that only declare (types, constants, protocols) need none; a package
may have `test_init.py`. A shell that tools/blocking.py makes shares the file of its source. An
adapter that does nothing without a server may have its file in tests/integration or tests/contract.
What is covered by another file only stands in covered_by.txt, and may not become more.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
#: Folder of modules -> folder of their tests.
FOLDERS = {
    "sidecar/halfhitch": "tests/unit",
    "cli/halfhitch_cli": "tests/unit/cli",
    "spark/halfhitch_spark": "tests/spark",
}
#: Where adapters meet real servers.
SERVERS = ("tests/integration", "tests/contract")
_TWIN = re.compile(r"# (?:(\w+\.py) is made of this|Made of (\w+\.py)) by tools/blocking\.py\b")
#: Tests of the harness, which is no part of what is shipped.
NOT_MIRRORED = "tests/unit/harness/"
#: Test file -> why no module has its name. May only shrink.
THEMES = {
    "tests/unit/client/test_answering_checks.py": "both producers answer checks",
    "tests/unit/client/test_producers.py": "the course of a transaction, with both producers",
    "tests/unit/client/test_producers_in_trouble.py": "a sidecar in trouble, with both producers",
    "tests/unit/doors/admin/test_openapi.py": "the admin door's contract, openapi.yaml",
    "tests/unit/doors/http/test_openapi.py": "the contract, openapi.yaml",
    "tests/unit/test_crates.py": "the list of crates, native/crates.lock",
}
COVERED_BY = ROOT / "tests" / "tidy" / "covered_by.txt"
#: May only be lowered.
COVERED_BY_MAX = 44


def where_tests_are(module: str) -> str:
    """How the paths of its tests begin: `tests/unit/wire/test_half` of `.../wire/half.py`."""
    for folder, tests in FOLDERS.items():
        if module.startswith(folder + "/"):
            inner, _, name = module.removeprefix(folder + "/").removesuffix(".py").rpartition("/")
            name = {"__init__": "init", "__main__": "main"}.get(name, name)
            return "/".join(filter(None, [tests, inner, f"test_{name}"]))
    raise ValueError(f"{module} is no module of ours")


def mirrors(test: str, module: str) -> bool:
    """Whether the test file has the module's name, or that and a theme."""
    begin = where_tests_are(module)
    return test == begin + ".py" or test.startswith(begin + "_")


def twin_of(module: str, text: str) -> str | None:
    """The other one of a source and its shell, by the first line of either."""
    found = _TWIN.match(text)
    return module.rpartition("/")[0] + "/" + (found[1] or found[2]) if found else None


def has_tests(module: str, text: str, tests: Collection[str]) -> bool:
    """Files of its own name, or its twin's; an adapter's may be where the servers are."""
    twin = twin_of(module, text)
    if any(mirrors(test, one) for test in tests for one in filter(None, (module, twin))):
        return True
    name = module.rpartition("/")[2]
    return "/adapters/" in module and any(f"{folder}/test_{name}" in tests for folder in SERVERS)


def acts(text: str) -> bool:
    """Whether anything in it can run: a function with more in it than what it promises."""
    return any(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(
            not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
            for each in node.body
        )
        for node in ast.walk(ast.parse(text))
    )


def read_covered_by(text: str) -> dict[str, str]:
    """Module -> the test file that covers it."""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return dict(lines)


def modules_without_tests(
    modules: Mapping[str, str], tests: Iterable[str], covered_by: Mapping[str, str]
) -> Iterator[str]:
    """`modules`: path -> text. What is wrong, each in one line."""
    known = set(tests)
    for module, text in modules.items():
        has_own = has_tests(module, text, known)
        if module not in covered_by:
            is_package = module.endswith(("/__init__.py", "/__main__.py"))
            if not has_own and not is_package and acts(text):
                yield f"{module} has no {where_tests_are(module)}.py"
        elif has_own:
            yield f"{module} has a test file of its name: take it out of {COVERED_BY.name}"
        elif not acts(text):
            yield f"{module} has nothing that runs: take it out of {COVERED_BY.name}"
    for module, test in covered_by.items():
        if module not in modules:
            yield f"{module} is not there: take it out of {COVERED_BY.name}"
        if test not in known and not (ROOT / test).is_file():
            yield f"{test}, which covers {module}, is not there"


def stray_tests(
    modules: Iterable[str], tests: Iterable[str], themes: Mapping[str, str]
) -> Iterator[str]:
    """The other way round."""
    known, present = list(modules), set(tests)
    for test in present:
        has_module = any(mirrors(test, module) for module in known)
        if not has_module and test not in themes:
            yield f"{test} has the name of no module: test_<module>.py or test_<module>_<theme>.py"
        elif has_module and test in themes:
            yield f"{test} has a module: take it out of THEMES"
    for test in set(themes) - present:
        yield f"{test} is not there: take it out of THEMES"


def _files(folder: str, pattern: str) -> list[Path]:
    return sorted(
        path for path in (ROOT / folder).rglob(pattern) if "__pycache__" not in path.parts
    )


def present_modules() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for folder in FOLDERS
        for path in _files(folder, "*.py")
    }


def present_tests() -> list[str]:
    found = (
        path.relative_to(ROOT).as_posix()
        for folder in ("tests/unit", "tests/spark")
        for path in _files(folder, "test_*.py")
    )
    return [test for test in found if not test.startswith(NOT_MIRRORED)]


def files_with_servers() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for folder in SERVERS
        for path in _files(folder, "test_*.py")
    ]


def test_every_module_has_a_test_file_of_its_name() -> None:
    covered_by = read_covered_by(COVERED_BY.read_text())
    wrong = list(
        modules_without_tests(
            present_modules(), [*present_tests(), *files_with_servers()], covered_by
        )
    )
    assert not wrong, "\n".join(["", *wrong])
    assert list(covered_by) == sorted(covered_by), "sorted, so that changes meet seldom"


def test_every_test_file_has_a_module_of_its_name() -> None:
    wrong = list(stray_tests(present_modules(), present_tests(), THEMES))
    assert not wrong, "\n".join(["", *sorted(wrong)])


def test_the_list_of_what_others_cover_only_shrinks() -> None:
    count = len(read_covered_by(COVERED_BY.read_text()))
    assert count <= COVERED_BY_MAX, "a new module has a test file of its own"
    assert count > COVERED_BY_MAX - 5, f"it has shrunk: lower COVERED_BY_MAX to {count}"


# -- both can fail -------------------------------------------------------------------------------

_ACTS = "def f():\n    return 1\n"
_AIO, _SOURCE = (
    "sidecar/halfhitch/barrier/block_aio.py",
    "# block.py is made of this by tools/blocking.py.\n",
)
_SHELL, _MADE = (
    "sidecar/halfhitch/barrier/block.py",
    "# Made of block_aio.py by tools/blocking.py: change that one, then `make format`.\n",
)
_TAIL = "sidecar/halfhitch/adapters/kafka/op_tail.py"
_HALF, _TEST = "sidecar/halfhitch/wire/half.py", "tests/unit/wire/test_half.py"


@pytest.mark.parametrize(
    ("modules", "tests", "covered_by", "says"),
    [
        ({_HALF: _ACTS}, [_TEST], {}, []),
        ({_HALF: _ACTS}, ["tests/unit/wire/test_half_limits.py"], {}, []),
        ({_HALF: "X = 1\n"}, [], {}, []),
        ({_HALF: _ACTS}, ["tests/unit/wire/test_halves.py"], {}, ["has no tests/unit/wire/test_"]),
        ({"cli/halfhitch_cli/a/b.py": _ACTS}, [], {}, ["has no tests/unit/cli/a/test_b.py"]),
        ({_HALF: _ACTS}, ["tests/unit/x.py"], {_HALF: "tests/unit/x.py"}, []),
        ({_HALF: _ACTS}, [_TEST], {_HALF: _TEST}, ["has a test file of its name"]),
        ({_HALF: _ACTS}, [], {_HALF: "tests/gone.py"}, ["tests/gone.py, which covers"]),
        ({_HALF: "X = 1\n"}, [_TEST[:-3]], {_HALF: _TEST[:-3]}, ["nothing that runs"]),
        ({}, ["tests/unit/x.py"], {_HALF: "tests/unit/x.py"}, ["half.py is not there"]),
        ({"sidecar/halfhitch/wire/__init__.py": _ACTS}, [], {}, []),
        ({_AIO: _SOURCE + _ACTS}, ["tests/unit/barrier/test_block.py"], {}, []),
        ({_AIO: _ACTS}, ["tests/unit/barrier/test_block.py"], {}, ["has no tests/unit/barrier/"]),
        ({_SHELL: _MADE + _ACTS}, ["tests/unit/barrier/test_block_aio.py"], {}, []),
        ({_TAIL: _ACTS}, ["tests/integration/test_op_tail.py"], {}, []),
        ({_HALF: _ACTS}, ["tests/integration/test_half.py"], {}, ["has no tests/unit/wire/test_"]),
    ],
)
def test_a_module_without_a_test_is_found(
    modules: dict[str, str], tests: list[str], covered_by: dict[str, str], says: list[str]
) -> None:
    found = list(modules_without_tests(modules, tests, covered_by))
    assert len(found) == len(says), found
    assert all(part in line for part, line in zip(says, found, strict=True)), found


@pytest.mark.parametrize(
    ("tests", "themes", "says"),
    [
        ([_TEST], {}, []),
        (["tests/unit/wire/test_half_limits.py"], {}, []),
        (["tests/unit/test_half.py"], {}, ["has the name of no module"]),
        (["tests/unit/test_half.py"], {"tests/unit/test_half.py": "why"}, []),
        ([_TEST], {_TEST: "why"}, ["has a module"]),
        ([], {"tests/unit/test_half.py": "why"}, ["is not there"]),
    ],
)
def test_a_test_without_a_module_is_found(
    tests: list[str], themes: dict[str, str], says: list[str]
) -> None:
    found = list(stray_tests([_HALF], tests, themes))
    assert len(found) == len(says), found
    assert all(part in line for part, line in zip(says, found, strict=True)), found


def test_what_only_declares_does_not_act() -> None:
    assert not acts('class P(Protocol):\n    def f(self) -> int:\n        """It."""\n')
    assert not acts("class P:\n    x: int = 1\n    def f(self): ...\n")
    assert acts("class P:\n    def f(self):\n        return 2\n")
