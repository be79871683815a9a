"""README's first five minutes, pasted as they stand there, beside a real `halfhitch dev`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.dev import STOP_S, Dev
from harness.kafka import wait_until
from harness.snippets import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
SOON_S = 30.0
_BLOCK = re.compile(r"^```(console|python|)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: What differs from run to run: times of day, places in logs, host and process.
_VARYING = (
    (re.compile(r"(\b\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ?"), "TIME"),
    (re.compile(r"\(half \d+@\d+\)"), "(half HERE)"),
    (re.compile(r"(orders/0@)\d+"), r"\1N"),
    (re.compile(r"asked \S+ \("), "asked SOMEBODY ("),
    (re.compile(r"operator: \S+: "), "operator: SOMEBODY: "),
)


def blocks() -> list[tuple[str, str]]:
    """Language and text, in their order."""
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("\n### The first five minutes\n")[2].partition("\n### ")[0]
    return _BLOCK.findall(section)


def plain(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


class Terminal:
    """The second one: `halfhitch` is on its path, and the doors have other ports than usual."""

    def __init__(self, folder: Path, dev: Dev) -> None:
        shim = folder / "halfhitch"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m halfhitch_cli "$@"\n')
        shim.chmod(0o755)
        usual = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")}
        self.environment = usual | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HALFHITCH_ADDRESS": dev.named("data door"),
            "HALFHITCH_ADMIN_PORT": dev.named("admin door").rpartition(":")[2],
        }

    def run(self, *command: str) -> str:
        """Both streams, as a terminal shows them."""
        done = subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def paste(self, block: str) -> None:
        """Run each command; what it says stands below it."""
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")

            def says(command: str = command, expected: str = expected) -> bool:
                return plain(self.run("/bin/sh", "-c", command)) == plain(expected)

            if "tail" in command:  # the commit is told as soon as it is stored
                wait_until(says, SOON_S, what=f"{command}: {expected}")
            else:
                assert plain(self.run("/bin/sh", "-c", command)) == plain(expected)


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
