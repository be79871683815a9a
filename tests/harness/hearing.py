"""What a child process says, line by line, to its last whole one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess


def said_before_its_end(process: subprocess.Popen[str]) -> list[str]:
    """The whole lines that nobody has taken from `stdout` yet, up to its end.

    Not `communicate`: with two pipes it reads from the descriptors themselves, so that it loses
    what the stream has read ahead while somebody took lines from it. Whoever is killed may leave
    half a line; nobody has heard that.
    """
    assert process.stdout is not None
    lines = process.stdout.read().splitlines(keepends=True)
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]
