"""What databases of the tests have in common: a folder, a port, a process, and an end to all."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, ClassVar, Self

from halfhitch.embedded.ports import HeldPorts

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded.processes import ServerProcess


class PrivateServer:
    """One server on loopback, in a temporary folder. Who derives says how it starts and answers."""

    start_s_max: ClassVar[float] = 30.0

    def __init__(self) -> None:
        self._ports = HeldPorts()
        self._folder: Path | None = None
        self._process: ServerProcess | None = None
        self.port = 0

    def start(self) -> Self:
        raise NotImplementedError

    def stop(self) -> None:
        """It, and all that it wrote."""
        if self._process is not None:
            self._end(self._process)
            self._process = None
        self._ports.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, process: ServerProcess) -> None:
        process.terminate(grace_s=20.0)

    def _answers(self) -> bool:
        raise NotImplementedError

    def _await_answer(self) -> None:
        """Ready once it answers in its own language, if only to say what it thinks of us."""
        assert self._process is not None
        end_s = time.monotonic() + self.start_s_max
        while not self._answers():
            assert self._process.is_running, f"it ended:\n{self._process.log_tail()}"
            assert time.monotonic() < end_s, f"it does not answer:\n{self._process.log_tail()}"
            self._process.wait(at_most_s=0.05)

    def _used_folder(self) -> Path:
        assert self._folder is not None, f"{type(self).__name__} has not been started"
        return self._folder
