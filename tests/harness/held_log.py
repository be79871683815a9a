"""A disk that hangs under InnoDB's log: a commit whose rows can be seen and are not safe.

MariaDB has no switch for it, so a library that it is started with (held_log.c) holds the writes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOURCE = Path(__file__).with_name("held_log.c")


class HeldLog:
    """Skips the test where there is no C compiler."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler (cc)")
        self._flag = folder / "held"
        self._library = folder / "held_log.so"
        command = [compiler, "-shared", "-fPIC", "-o", str(self._library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
        for path in (folder, self._library):  # the server may be another user's
            path.chmod(0o755)

    def environment(self) -> dict[str, str]:
        """For the server."""
        return {
            **os.environ,
            "LD_PRELOAD": str(self._library),
            "HALFHITCH_HELD": str(self._flag),
        }

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Nothing is written meanwhile."""
        self._flag.touch()
        try:
            yield
        finally:
            self._flag.unlink()
