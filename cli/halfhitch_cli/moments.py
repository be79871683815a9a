"""Moments as they are given on a command line."""

import re
import time
from datetime import UTC, datetime

import typer

from halfhitch_cli import selection

_DURATION = re.compile(r"(\d+(\.\d+)?[smhd])+")


def since_ms(text: str) -> int:
    """30m, 2h: ago; else a date and time, UTC where it does not say. Raises BadParameter."""
    if _DURATION.fullmatch(text):
        return max(0, time.time_ns() // 1_000_000 - int(selection.seconds(text) * 1000))
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"--since takes a length of time (30m, 2h, 3d) or a date and time "
            f"(2026-11-21T16:00Z); not {text!r}"
        ) from None
    return max(0, int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000))
