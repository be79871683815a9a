"""`halfhitch dev` as a process of its own, and the second terminal beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

from harness.kafka import wait_until

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

START_S = 90.0
STOP_S = 60.0
SOON_S = 60.0
#: What differs from run to run: times of day, places in logs, host and process, ages.
_VARYING = (
    (re.compile(r"(\b\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ?"), "TIME"),
    (re.compile(r"\(half \d+@\d+\)"), "(half HERE)"),
    (re.compile(r"(orders/0@|points/0@)\d+"), r"\1N"),
    (re.compile(r"asked \S+ \("), "asked SOMEBODY ("),
    (re.compile(r"operator: \S+: "), "operator: SOMEBODY: "),
    (re.compile(r"\b\d+(\.\d+)?s\b"), "AGE"),
    (re.compile(r" {2,}"), "  "),
)


def plain(text: str) -> str:
    """A terminal's text without what differs from run to run."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


class Dev:
    """One run of `halfhitch dev`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "halfhitch_cli", "dev", "--data", str(folder)),
                *("--http-port", "0", "--admin-port", "0", *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._threads = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors)),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: object, lines: list[str]) -> None:
        for line in stream:  # type: ignore[attr-defined]
            lines.append(line)  # noqa: PERF402 - read by the test while the process runs

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_S)
        for thread in self._threads:
            thread.join(STOP_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        if error is not None:
            print("".join(self.lines + self.errors))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_until_ready(self) -> None:
        wait_until(
            lambda: "Ctrl-C stops" in self.text or self.process.poll() is not None,
            START_S,
            what="the banner of halfhitch dev",
        )
        assert self.process.poll() is None, "".join(self.errors)

    def named(self, label: str) -> str:
        found = re.search(rf"^  {label} +(\S+)", self.text, re.MULTILINE)
        assert found is not None, self.text
        return found[1]

    def interrupt(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)  # as a terminal does: the whole group
        return self.process.wait(STOP_S)


class Terminal:
    """The second one: `halfhitch` is on its path, and the doors have other ports than usual."""

    def __init__(self, folder: Path, dev: Dev) -> None:
        self.folder = folder
        for name, command in (("halfhitch", "-m halfhitch_cli "), ("python", "")):
            shim = folder / name
            shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}"$@"\n')
            shim.chmod(0o755)
        usual = {k: v for k, v in os.environ.items() if not k.startswith("HALFHITCH_")}
        self.environment = usual | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HALFHITCH_ADDRESS": dev.named("data door"),
            "HALFHITCH_ADMIN_PORT": dev.named("admin door").rpartition(":")[2],
        }

    def run(self, *command: str, may_fail: bool = False) -> str:
        """Both streams, as a terminal shows them."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert may_fail or done.returncode == 0, done.stdout
        return done.stdout

    def paste(self, block: str) -> None:
        """Run each command; what it says stands below it. Nothing stands where it dies."""
        for part in block.split("$ ")[1:]:
            command, _, expected = part.partition("\n")

            def says(command: str = command, expected: str = expected) -> bool:
                said = self.run("/bin/sh", "-c", command, may_fail=not expected)
                return plain(said) == plain(expected)

            if "halfhitch t" in command:  # the commit is told as soon as it is stored
                wait_until(says, SOON_S, what=f"{command}: {expected}")
            else:
                said = self.run("/bin/sh", "-c", command, may_fail=not expected)
                assert plain(said) == plain(expected)
