"""Every log line can be searched for by its action, and docs/logs.md has them all."""

from __future__ import annotations

import ast
import importlib.util
import sys

import pytest

from harness.places import ROOT

_SPEC = importlib.util.spec_from_file_location("logs_tool", ROOT / "tools" / "logs_page.py")
assert _SPEC is not None
assert _SPEC.loader is not None
tool = importlib.util.module_from_spec(_SPEC)
sys.modules["logs_tool"] = tool  # its dataclasses look themselves up there
_SPEC.loader.exec_module(tool)


def test_every_line_names_its_action() -> None:
    assert list(tool.unnamed()) == []


def test_the_page_has_what_the_calls_say() -> None:
    assert tool.PAGE.read_text() == tool.page(), "python tools/logs_page.py"


def test_actions_that_come_as_arguments_are_found() -> None:
    found = tool.actions()
    for name in ("barrier_too_old", "newer_release", "no_check", "rocketmq_request_failed"):
        assert name in found


def test_exceptions_are_still_needed() -> None:
    for path in tool.LINES_OF_OTHERS:
        assert any(not line.actions for line in tool.lines(path, tool.trees()[path]))


@pytest.mark.parametrize(
    ("call", "level", "actions"),
    [
        ("logger.info('x')", "info", ()),
        ("logger.info('x', extra={'action': 'a', 'b': 1})", "info", ("a",)),
        ("log.exception('x', extra=_BUG)\n_BUG = {'action': 'b'}", "error", ("b",)),
        ("logger.log(logging.INFO if x else logging.ERROR, 'x')", "info or error", ()),
        ("logging.getLogger('a').warning('x')", "warning", ()),
        (
            "logger.info('x', extra={'action': 'a' if x else 'b'})",
            "info",
            ("a", "b"),
        ),
    ],
)
def test_a_line_is_read(call: str, level: str, actions: tuple[str, ...]) -> None:
    (line,) = tool.lines("x.py", ast.parse(call))
    assert (line.level, line.actions) == (level, actions)


def test_what_logs_nothing_is_passed_over() -> None:
    assert list(tool.lines("x.py", ast.parse("math.log(2)\nsay.info('x')"))) == []
