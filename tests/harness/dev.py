"""`halfhitch dev` as a process of its own."""

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
