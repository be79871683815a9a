"""README's first five minutes, pasted as they stand there, beside a real `halfhitch dev`."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from harness.dev import STOP_S, Dev, Terminal, plain
from harness.kafka import wait_until
from harness.snippets import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
SOON_S = 30.0
_BLOCK = re.compile(r"^```(console|python|)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Language and text, in their order."""
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("\n### The first five minutes\n")[2].partition("\n### ")[0]
    return _BLOCK.findall(section)


def test_the_first_five_minutes_are_as_the_readme_shows_them(tmp_path: Path) -> None:
    *steps, (_, events) = blocks()
    assert [language for language, _ in steps] == ["console", "console", "console", "python"]
    with Dev(tmp_path / "data") as dev:
        dev.wait_until_ready()
        terminal = Terminal(tmp_path, dev)
        for language, text in steps:
            if language == "console":
                terminal.paste(text)
            else:
                said = terminal.run(sys.executable, "-c", text)
                expected = text.partition("# ")[2].strip()
                assert plain(expected) in plain(said)

        def told() -> bool:
            after = plain(dev.text.partition("Ctrl-C stops")[2])
            return all(line in after for line in plain(events).splitlines())

        wait_until(told, SOON_S, what=f"the events:\n{events}")
        dev.interrupt()
        assert dev.process.wait(STOP_S) == 0
