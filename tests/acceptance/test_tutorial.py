"""docs/tutorial.md, pasted as it stands there, beside a real `halfhitch dev`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from harness.dev import STOP_S, Dev, Terminal, plain
from harness.kafka import wait_until
from harness.snippets import ROOT, fence_with

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PAGE = "docs/tutorial.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_tutorial_goes_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(fence_with(PAGE, "def place("))
    (servers,) = re.findall(r"^halfhitch dev (.*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    with Dev(tmp_path / "data", *servers.split()) as dev:
        dev.wait_until_ready()
        terminal = Terminal(tmp_path, dev)
        for language, text in _BLOCK.findall((ROOT / PAGE).read_text()):
            if language == "console":
                _paste(terminal, text)
            if language:
                continue

            def told(lines: str = text) -> bool:
                after = plain(dev.text.partition("Ctrl-C stops")[2])
                return all(line in after for line in plain(lines).splitlines())

            wait_until(told, 30, what=f"the events:\n{text}")
        dev.interrupt()
        assert dev.process.wait(STOP_S) == 0


def _paste(terminal: Terminal, text: str) -> None:
    if "tx trace" not in text:
        terminal.paste(text)
        return
    story = terminal.run("/bin/sh", "-c", text.removeprefix("$ "))
    for word in ("prepared", "check 1, commit", "It is committed, by check.", "forwarded"):
        assert word in story
