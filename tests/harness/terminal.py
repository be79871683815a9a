"""`halfhitch top` without a terminal: what stands on its screen, and keys pressed on it."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from unittest import mock

from halfhitch_cli.client import AdminClient
from halfhitch_cli.top.app import TopApp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from textual.pilot import Pilot

#: The smallest that it is made for.
SMALL = (80, 24)
_DEADLINE_S = 15.0


class Seen:
    """One screen, and hands on it."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self.pilot = pilot
        self.app = pilot.app

    @property
    def lines(self) -> list[str]:
        """What a person sees, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def until(self, wanted: str | Callable[[], bool]) -> None:
        """Until it is to be read there, or so."""
        deadline_s = time.monotonic() + _DEADLINE_S
        while not (wanted in self.text if isinstance(wanted, str) else wanted()):
            assert time.monotonic() < deadline_s, f"{wanted!r} is not in\n{self.text}"
            await self.pilot.pause(0.02)

    async def until_focus(self, name: str) -> None:
        """Keys go there. A widget asks for the focus and has it later, after what it shows."""
        await self.until(lambda: self.app.focused is not None and self.app.focused.id == name)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def write(self, text: str) -> None:
        """Into the field that has the focus."""
        for char in text:
            await self.pilot.press("space" if char == " " else char)


@asynccontextmanager
async def top(
    port: int,
    token: str | None = None,
    *,
    size: tuple[int, int] = SMALL,
    interval_s: float = 0.2,
    colours: str = "terminal",
) -> AsyncIterator[Seen]:
    """On the admin door of this port."""
    app = TopApp(AdminClient("127.0.0.1", port, token), interval_s, colours)
    # The pilot would wait until this process rests, the door in it too, after every key.
    with mock.patch("textual.app.wait_for_idle", _breathe):
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Seen(pilot)


async def _breathe(*_: float) -> None:
    await asyncio.sleep(0.02)
