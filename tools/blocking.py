"""Writes the blocking shell of each asyncio module: the same text, without `await`.

    python tools/blocking.py        writes those anew that differ (`make format` does)

A source names its shell in its first line. What is not the same for both stands there side by side:

    # asyncio only: why         the statement below is left out of the shell
    #| x = Lock()               stands in the shell, without the mark

The rest follows from `WORDS`. Whatever is left of asyncio in a shell is an error; types and style
are looked at there as everywhere (`make check`).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = ROOT / "sidecar" / "halfhitch"

_SOURCE: Final = re.compile(r"# (\w+\.py) is made of this by tools/blocking\.py\b.*\n")
_SHELL: Final = re.compile(r"# Made of (\w+\.py) by tools/blocking\.py\b.*\n")
_HEADING: Final = "# Made of {} by tools/blocking.py: change that one, then `make format`.\n"

_ASYNCIO_ONLY: Final = re.compile(r" *# asyncio only\b")
_BLOCKING_ONLY: Final = re.compile(r"^( *)#\| ?", re.MULTILINE)
_EACH_OTHER: Final = re.compile(r"\b(asyncio|blocking)(?=\s+producer)")
_LEFT_OVER: Final = re.compile(r"\bawait|\basync\b|\basyncio\.|\bloop\b|\btasks?\b")

#: One after the other.
WORDS: Final = (
    # What is called at once in the one, and noted until it is awaited in the other.
    (r"self\._counted\(\s*\"[\w.]+\", lambda: (.+)\)\n", r"\1\n"),
    (r"\bawait self\._turns\.taken\(\)", "self._lock"),
    (r"\b(?:Awaitable|Coroutine)\[(?:Any, Any, )?([\w.]+)\]", r"\1"),
    (r"\ban `async with`", "a `with`"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\b(_?)Async(?=[A-Z])", r"\1"),
    (r"\basync(?=contextmanager\b)", ""),
    (r"\bAbstractAsync(?=ContextManager\b)", "Abstract"),
    (r"\baio_(?=\w)", "sync_"),
    (r"\bclient\.aio\b", "client.sync"),
    (r"(?<=\w)_aio\b", ""),
    # SQLAlchemy's ways from a task to blocking code.
    (r"(\w+)\.run_sync\(([\w.]+)", r"\2(\1"),
    (r"\.sync_(?:engine|session)\b", ""),
    (r"\brun_task\b", "run"),
    (r"\bimport asyncio\b", "import threading"),
    (r"\basyncio\.Lock\b", "threading.Lock"),
)


class NotBlocking(Exception):
    """A shell cannot be made; says where."""


def sources(folder: Path = PACKAGE) -> Iterator[tuple[Path, Path]]:
    """Each source and its shell."""
    for path in sorted(folder.rglob("*.py")):
        named = _SOURCE.match(path.read_text(encoding="utf-8"))
        if named:
            yield path, path.with_name(named[1])


def stale(folder: Path = PACKAGE) -> Iterator[tuple[Path, str]]:
    """Shells that are not what their sources make of them, and what would be."""
    for source, shell in sources(folder):
        text = source.read_text(encoding="utf-8")
        made = in_form(_HEADING.format(source.name) + blocking(text, source.name), shell)
        if not shell.exists() or shell.read_text(encoding="utf-8") != made:
            yield shell, made


def orphans(folder: Path = PACKAGE) -> Iterator[Path]:
    """What says that it is a shell, and no source knows it."""
    known = {shell for _, shell in sources(folder)}
    for path in sorted(folder.rglob("*.py")):
        if path not in known and _SHELL.match(path.read_text(encoding="utf-8")):
            yield path


def blocking(text: str, name: str) -> str:
    """A source without its first line, as it is for threads. Raises NotBlocking."""
    text = _SOURCE.sub("", _without_asyncio_only(text, name), count=1)
    text = _EACH_OTHER.sub(lambda word: "asyncio" if word[1] == "blocking" else "blocking", text)
    parts = re.split(r"^((?: *#\|.*\n)+)", text, flags=re.MULTILINE)
    for index, part in enumerate(parts):
        is_blocking = index % 2 == 1
        parts[index] = _BLOCKING_ONLY.sub(r"\1", part) if is_blocking else _in_words(part, name)
    return "".join(parts)


def _in_words(text: str, name: str) -> str:
    for word, other in WORDS:
        text = re.sub(word, other, text)
    for line in text.splitlines():
        if _LEFT_OVER.search(line):
            raise NotBlocking(f"{name}: not for threads: {line.strip()}")
    return text


def _without_asyncio_only(text: str, name: str) -> str:
    """The marks go, and with each the statement that begins on the next line."""
    lines = text.splitlines(keepends=True)
    ends: dict[int, int] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            decorators = getattr(node, "decorator_list", [])
            begin = min([node.lineno, *(decorator.lineno for decorator in decorators)])
            ends[begin] = max(ends.get(begin, 0), node.end_lineno or 0)
    for number, line in enumerate(lines, 1):
        if _ASYNCIO_ONLY.match(line):
            if number + 1 not in ends:
                raise NotBlocking(f"{name}:{number}: no statement begins below this mark")
            end = ends[number + 1]
            lines[number - 1 : end] = [""] * (end - number + 1)
    return "".join(lines)


def in_form(text: str, path: Path) -> str:
    """As `make format` leaves it, and without the imports that nothing needs any more."""
    for words in (("check", "--fix-only", "--select", "F401,I"), ("format",)):
        command = [sys.executable, "-m", "ruff", *words, "--quiet", "--stdin-filename", path, "-"]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True, text=True)
        text = done.stdout
    return text


def main() -> None:
    """Write them."""
    for shell, text in stale():
        shell.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{shell.relative_to(ROOT)} made anew\n")


if __name__ == "__main__":
    main()
