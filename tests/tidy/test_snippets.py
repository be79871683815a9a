"""What the texts show can be typed: commands and options are there, names are, JSON is JSON.

Programs are run elsewhere where they can be (tests/acceptance, tests/spark and others, by
harness/snippets.py). This is the look at all of them, in every text: a command that was renamed, an
option that went, an import that moved.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import typer
import yaml

from halfhitch.extras import MissingExtra
from halfhitch_cli import root
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "deploy").rglob("README.md")),
]
#: Of what lies between fences; "" is a terminal's or a program's output.
LANGUAGES = {
    *("", "console", "sh", "python", "java", "go", "js", "sql", "json", "yaml", "toml"),
    *("ini", "promql", "xml", "properties", "text"),
}
_FENCE = re.compile(r"^( *)```([\w-]*)[^\n]*\n(.*?)^\1```\s*$", re.MULTILINE | re.DOTALL)
_OURS = ("halfhitch", "halfhitch_spark", "halfhitch_cli")
#: Names that begin as a command does, and are none.
SPANS = {f"halfhitch {name}" for name in ("prepare", "waiting", "check", "forward")}
#: Texts of the past name what may be gone.
OF_THE_PAST = {"CHANGELOG.md"}


def fences(text: str) -> Iterator[tuple[int, str, str]]:
    """First line, language and text of each block."""
    for found in _FENCE.finditer(text):
        indent = found[1]
        lines = [line.removeprefix(indent) for line in found[3].split("\n")]
        yield text.count("\n", 0, found.start(3)) + 1, found[2], "\n".join(lines)


# -- commands ------------------------------------------------------------------------------------


def typed(language: str, block: str) -> Iterator[str]:
    """What a reader types, a command of several lines as one."""
    lines = iter(block.split("\n"))
    for line in lines:
        if language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]  # noqa: PLW2901
        while line.endswith("\\"):
            line = line[:-1] + next(lines, "")  # noqa: PLW2901
        yield line


def calls(command: str) -> Iterator[list[str]]:
    """The words of each call of `halfhitch` in a line of shell, and in what it substitutes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quote that goes on in the next line
        words = command.split()
    call: list[str] | None = None
    begins = True
    for word in [*words, ";"]:
        if set(word) <= set("();<>|&`"):
            if call is not None:
                yield call
            call, begins = None, True
        elif call is not None:
            call.append(word)
        elif begins and word == "halfhitch":
            call = []
        else:  # a variable may stand before a command
            begins = begins and re.match(r"\w+=", word) is not None


@cache
def command_line() -> Any:
    return typer.main.get_command(root.app)


def wrong_call(words: list[str]) -> str | None:
    """What of these words is no command or option of ours."""
    command, path = command_line(), "halfhitch"
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0]
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            if name not in known | {"--help", "--version"}:
                return f"`{path}` has no {name}"
        elif hasattr(command, "list_commands") and re.fullmatch(r"[a-z][a-z-]*", word):
            below = command.get_command(None, word)
            if below is None:
                return f"`{path}` has no command {word}"
            command, path = below, f"{path} {word}"
    return None


def wrong_calls(text: str) -> Iterator[str]:
    for line, language, block in fences(text):
        if language in ("sh", "console"):
            for command in typed(language, block):
                for words in calls(command):
                    wrong = wrong_call(words)
                    if wrong is not None:
                        yield f"block at line {line}: {wrong}"
    prose = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for found in re.finditer(r"`(halfhitch [^`]+)`", prose):
        for words in () if found[1] in SPANS else calls(" ".join(found[1].split())):
            wrong = wrong_call(words)
            if wrong is not None:
                yield f"line {prose.count(chr(10), 0, found.start()) + 1}: {wrong}"


# -- programs and data ---------------------------------------------------------------------------


def wrong_imports(block: str) -> Iterator[str]:
    """Names of ours that a program imports, and that are not there."""
    try:
        tree = ast.parse(block)
    except SyntaxError:
        return  # tests/tidy/test_tidy.py says so, of all but what awaits at the top
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _OURS:
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                try:
                    is_there = hasattr(module, alias.name)
                except MissingExtra:
                    is_there = True  # and says what to install
                if not is_there:
                    yield f"{node.module} has no {alias.name}"


def wrong_data(language: str, block: str) -> str | None:
    """Why it is not what it says it is."""
    try:
        if language == "json":
            json.loads(block)
        elif language == "yaml" and "{{" not in block:  # of Helm
            list(yaml.safe_load_all(block))
        elif language == "toml":
            tomllib.loads(block)
    except (ValueError, yaml.YAMLError) as error:
        return f"is no {language}: {error}"
    return None


def wrong_blocks(text: str) -> Iterator[str]:
    for line, language, block in fences(text):
        if language not in LANGUAGES:
            yield f"block at line {line}: nobody looks at {language!r}"
        wrong = wrong_data(language, block)
        if wrong is not None:
            yield f"block at line {line} {wrong}"
        if language == "python":
            yield from (f"block at line {line}: {wrong}" for wrong in wrong_imports(block))


def missing_targets(text: str, targets: set[str]) -> Iterator[str]:
    """What `make` is told to make, and does not know."""
    named = re.findall(r"`make ([a-z][a-z-]*)", text)
    for _, language, block in fences(text):
        if language in ("sh", "console", ""):
            named += re.findall(r"^(?:\$ )?make ([a-z][a-z-]*)", block, re.MULTILINE)
    yield from (f"the Makefile has no {name}" for name in named if name not in targets)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_text_shows_can_be_typed(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    wrong = list(wrong_blocks(text))
    if path.name not in OF_THE_PAST:
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        wrong += [*wrong_calls(text), *missing_targets(text, set(targets))]
    assert not wrong, "\n".join(["", *wrong])


# -- the checks can fail -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```sh\nhalfhitch gone\n```", "block at line 2: `halfhitch` has no command gone"),
        ("```sh\nA=b halfhitch tx \\\n  gone\n```", "block at line 2: `halfhitch tx` has no"),
        ("```console\nhalfhitch gone\n$ x | halfhitch tx list --gone\n```", "has no --gone"),
        ("```console\n$ H=$(halfhitch serve --gone=1) y\n```", "`halfhitch serve` has no --gone"),
        ("so `halfhitch serve\n--gone` does", "line 1: `halfhitch serve` has no --gone"),
    ],
)
def test_a_wrong_command_is_found(text: str, says: str) -> None:
    (wrong,) = wrong_calls(text)
    assert says in wrong


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nhalfhitch tx commit first --reason 'gone --x' # --gone\nother --gone\n```",
        "```console\n$ halfhitch serve --kafka-bootstrap k:1 --http-port=1 && other --gone\n```",
        "```sh\nhelm install halfhitch x --gone\n```",
        "`halfhitch parked list|show|resume|export`, `halfhitch tx explain ID`, `halfhitch --help`",
    ],
)
def test_a_right_command_is_left_alone(text: str) -> None:
    assert list(wrong_calls(text)) == []


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("python\nfrom halfhitch import Gone", "halfhitch has no Gone"),
        ('json\n{"a": }', "is no json"),
        ("yaml\na: [", "is no yaml"),
        ("toml\na = ", "is no toml"),
        ("cobol\nx", "nobody looks at 'cobol'"),
    ],
)
def test_a_wrong_block_is_found(block: str, says: str) -> None:
    (wrong,) = wrong_blocks(f"text\n\n```{block}\n```\n")
    assert says in wrong


def test_names_of_spans_still_stand_somewhere() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in TEXTS)
    assert [name for name in SPANS if f"`{name}`" not in texts] == []


def test_a_target_that_is_not_there_is_found() -> None:
    text = "`make gone`, `make it so`\n```\n$ make away\n```"
    assert list(missing_targets(text, {"it"})) == [
        "the Makefile has no gone",
        "the Makefile has no away",
    ]
