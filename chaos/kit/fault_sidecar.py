"""A sidecar of a scene: started as a scenario wants it, paused, asked, given orders.

Nothing here knows what a scenario does with it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from harness.native import way_of_process
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from pathlib import Path


class FaultSidecar(Sidecar):
    """A sidecar that a scenario may start in unusual ways, and pause."""

    command: tuple[str, ...] = ("halfhitch_cli", "serve")

    dies_on_purpose = False  # a crash point is armed
    is_wanted = False  # it shall run now; one that ends nevertheless did so by itself
    release: str | None = None  # of the next life; None: this tree

    def __init__(self, bootstrap: str, folder: Path, **settings: str) -> None:
        super().__init__(bootstrap, folder, **settings)
        #: Of all lives that were of this tree, as the processes themselves say.
        self.ways: set[str] = set()

    def kill(self) -> None:
        self.is_wanted = False
        super().kill()

    def terminate(self, deadline_s: float = 30.0) -> int:
        self.is_wanted = False
        return super().terminate(deadline_s)

    def start(self) -> Self:
        self.is_wanted = True
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self.command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._admin_port: int | None = None
        self._log_start = self.log.stat().st_size
        return self

    @property
    def admin_port(self) -> int:
        """Of this life; 0 while it is not known."""
        if self._admin_port is None:
            words = self.told().split("admin on port ")
            self._admin_port = int(words[-1].split()[0]) if len(words) > 1 else None
            if self._admin_port is not None and self.release is None:
                self._note_way()
        return self._admin_port or 0

    def _note_way(self) -> None:
        assert self.process is not None
        try:
            self.ways.add(way_of_process(self.process.pid))
        except OSError:
            return  # it has gone in between, or this system does not tell

    def told(self) -> str:
        """Its log of this life."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        """Whether the process exists (a paused one does)."""
        return self.process is not None and self.process.poll() is None

    def partitions(self) -> list[dict[str, Any]]:
        """What it owns, as it says; nothing while nobody answers."""
        if not self.is_alive or not self.admin_port:
            return []
        status, answer = self.ask("/v1/partitions")
        return list(answer["partitions"]) if status == 200 else []

    def working(self) -> list[int]:
        """The half partitions it works on."""
        return [p["partition"] for p in self.partitions() if p["phase"] == "working"]

    def order(self, path: str, body: dict[str, Any], wait_s: float = 30.0) -> int:
        """POST to the admin door; the status, 0 when nobody answers."""
        request = Request(
            f"http://127.0.0.1:{self.admin_port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=wait_s) as answer:
                return int(answer.status)
        except HTTPError as error:
            with error:
                print(f"{path}: {error.code} {error.read()[:300]!r}")
                return error.code
        except OSError:
            return 0

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
