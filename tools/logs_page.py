"""Makes docs/logs.md: every action that a log line can name, out of the calls that write them.

Each call that logs at INFO or above names its `action`, a word that stays when the sentence is
reworded. `unnamed` tells those that do not; tests/tidy/test_logs.py has it empty. Lines of others
(Kafka's client, through us) are LINES_OF_OTHERS.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "logs.md"
#: Spark's jobs log JSON of their own (docs/spark.md).
FOLDERS: Final = ("sidecar/halfhitch", "cli/halfhitch_cli")
LINES_OF_OTHERS: Final = frozenset(
    {
        "sidecar/halfhitch/adapters/kafka/clients.py",
        "sidecar/halfhitch/adapters/native/carrier.py",
    }
)
#: Where an action comes as an argument: the class that brings it along.
_BROUGHT: Final = {"error.action": "Undecidable"}
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_METHODS: Final = {**{level: level for level in _LEVELS}, "exception": "error", "log": "by case"}

_HEAD: Final = """\
# Logs

A process writes one line for each event, to stderr. `--log-format json` makes each an object:
`time`, `level`, `logger`, `message`, then fields. `--log-level` chooses from which level on.

```json
{
  "time": "2026-11-23T10:20:31.123Z",
  "level": "warning",
  "logger": "halfhitch.service.owner.feeding",
  "message": "half record 17 of partition 2 is passed over: ...",
  "action": "garbage_half"
}
```

**`action` names the event.** It stays when a sentence is reworded, so alerts and searches should go
by it. This page lists all actions. `tools/logs_page.py` makes it of the calls themselves. A
traceback comes in the field `exception`. Lines without an action are those of libraries, such as
Kafka's client (`halfhitch.adapters.kafka.clients`). What the Python client and the barrier say is
in your own process's log, by Python's `logging`.

Where the column is empty, all of the line is put together when it is written. Values and headers of
messages are in no line. Secrets that are settings are masked (`***`).

| action | level | logger | the line | further fields |
|---|---|---|---|---|
"""


@dataclass
class Action:
    """What is known of one."""

    levels: set[str] = field(default_factory=set)
    loggers: set[str] = field(default_factory=set)
    said: str = ""
    fields: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Line:
    """One call that writes a line."""

    path: str
    number: int
    level: str
    said: str
    actions: tuple[str, ...]
    fields: tuple[str, ...]


@cache
def trees() -> dict[str, ast.Module]:
    """Path -> source, of all that may log."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def lines(path: str, tree: ast.Module) -> Iterator[Line]:
    """Every call of a logger in a module."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        logger = ast.unparse(node.func.value)
        is_logger = logger in ("logger", "log", "_log") or "getLogger(" in logger
        if not is_logger or node.func.attr not in _METHODS:
            continue
        extra = next((word.value for word in node.keywords if word.arg == "extra"), None)
        given = extra if extra is None else _followed(extra, tree)
        actions, fields = _named(given, path, tree) if given is not None else ((), ())
        yield Line(path, node.lineno, _level(node), _said(node), actions, fields)


def _level(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "log":
        return _METHODS[call.func.attr]
    found = re.findall(r"logging\.([A-Z]+)", ast.unparse(call.args[0]))
    return " or ".join(dict.fromkeys(level.lower() for level in found)) or "by case"


def _said(call: ast.Call) -> str:
    """The sentence, with a gap for what differs; nothing where all of it does."""
    for one in call.args[:2]:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            said = re.sub(r"%[-.0-9]*[sdrfg]", "…", one.value)
            return said if re.search(r"[a-z]{3}", said) else ""
    return ""


def _followed(extra: ast.expr, tree: ast.Module) -> ast.expr:
    """The dictionary that a name stands for."""
    if isinstance(extra, ast.Name):
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == extra.id:
                    value = getattr(node, "value", None)
                    if isinstance(value, ast.Dict):
                        return value
    return extra


@cache
def calls_of(name: str) -> tuple[ast.Call, ...]:
    """Every call of a function or class of this name."""
    return tuple(
        node
        for path, tree in trees().items()
        if f"{name}(" in (ROOT / path).read_text(encoding="utf-8")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
    )


def _named(extra: ast.expr, path: str, tree: ast.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Actions and further fields of a dictionary."""
    if not isinstance(extra, ast.Dict):
        return (), ()
    actions: list[str] = []
    fields: list[str] = []
    for key, value in zip(extra.keys, extra.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        if name == "action":
            actions += _values(value, path, tree)
        elif isinstance(name, str):
            fields.append(name)
    return tuple(actions), tuple(fields)


def _values(value: ast.expr, path: str, tree: ast.Module) -> Iterator[str]:
    """What an action can be: itself, or what whoever calls the function gives."""
    if isinstance(value, ast.Constant):
        yield str(value.value)
        return
    if isinstance(value, ast.IfExp):
        yield from _values(value.body, path, tree)
        yield from _values(value.orelse, path, tree)
        return
    text = ast.unparse(value)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        is_brought = node.name == _BROUGHT.get(text)
        is_given = isinstance(node, ast.FunctionDef) and any(
            one.arg == text for one in (*node.args.args, *node.args.kwonlyargs)
        )
        if is_brought or is_given:
            yield from _given_to(node, "action" if is_brought else text)


def _given_to(function: ast.FunctionDef | ast.ClassDef, name: str) -> Iterator[str]:
    """Constants that calls of this name pass under that parameter, and its default."""
    made = function
    if isinstance(function, ast.ClassDef):
        made = next(
            one
            for one in function.body
            if isinstance(one, ast.FunctionDef) and one.name == "__init__"
        )
    assert isinstance(made, ast.FunctionDef)
    places = [one.arg for one in made.args.args if one.arg != "self"]
    for one, default in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True):
        if one.arg == name and isinstance(default, ast.Constant):
            yield str(default.value)
    for call in calls_of(function.name):
        passed = {word.arg: word.value for word in call.keywords}
        passed |= dict(zip(places, call.args, strict=False))
        found = passed.get(name)
        if isinstance(found, ast.Constant):
            yield str(found.value)


def unnamed() -> Iterator[str]:
    """Calls at INFO and above whose lines nobody can search for."""
    for path, tree in trees().items():
        if path not in LINES_OF_OTHERS:
            for line in lines(path, tree):
                if line.level != "debug" and not line.actions:
                    yield f"{path}, line {line.number}: give it extra={{'action': ...}}"


def actions() -> dict[str, Action]:
    """All of them, by name."""
    found: dict[str, Action] = {}
    for path, tree in trees().items():
        for line in lines(path, tree):
            for name in line.actions:
                one = found.setdefault(name, Action())
                one.levels.add(line.level)
                one.loggers.add(_logger(path))
                one.said = one.said or line.said
                one.fields.update(line.fields)
    return dict(sorted(found.items()))


def _logger(path: str) -> str:
    if path.startswith("sidecar/halfhitch/client/"):
        return "halfhitch.client"
    if path.startswith("sidecar/halfhitch/barrier/"):
        return "halfhitch.barrier"
    return path.partition("/")[2].removesuffix(".py").replace("/", ".")


def page() -> str:
    """docs/logs.md."""
    rows = [
        f"| `{name}` | {', '.join(sorted(one.levels))} "
        f"| {', '.join(f'`{logger}`' for logger in sorted(one.loggers))} "
        f"| {one.said.replace('|', chr(92) + '|')} "
        f"| {', '.join(f'`{named}`' for named in sorted(one.fields))} |"
        for name, one in actions().items()
    ]
    return _HEAD + "\n".join(rows) + "\n"


def main() -> int:
    """Write it, if it differs."""
    text = page()
    if not PAGE.is_file() or PAGE.read_text() != text:
        PAGE.write_text(text)
        print(f"{PAGE} is new")  # noqa: T201 - the command's own answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
