"""Makes the pictures of docs/top.md: `make top-pictures`.

The screen is the shipped one, on a real admin door; it shows what the console's pictures show.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from acceptance import console_pictures
from harness.admin_door import admin_door
from harness.terminal import top
from harness.told import stories_service

if TYPE_CHECKING:
    from harness.terminal import Seen

_SIZE: Final = (100, 30)


def _taken(seen: Seen, name: str, port: int) -> None:
    picture = seen.app.export_screenshot(title="halfhitch top")
    # Fonts are the reader's own: nothing is loaded from elsewhere.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = picture.replace(f":{port}", ":8341")  # of any run
    lines = (line.rstrip() for line in picture.splitlines())
    (console_pictures.PICTURES / f"{name}.svg").write_text("\n".join(lines) + "\n")


async def _all(port: int) -> None:
    async with top(port, size=_SIZE, interval_s=0.5, colours="dark") as seen:
        await seen.until("Ended in the last hour")
        await seen.until("0.0  ▁▁▁▁")
        _taken(seen, "top-overview", port)
        await seen.press("2")
        await seen.until("order-4711")
        await seen.press("j", "j")
        await seen.pilot.pause()
        _taken(seen, "top-undecided", port)


def main() -> int:
    """Every picture anew."""
    operations: Any = console_pictures.operations()
    info = {"version": "1", "instance": "shop-1"}
    stories = stories_service(console_pictures.log(), operations)
    system = console_pictures.Shop(info)
    with admin_door(operations, {}, info=info, stories=stories, system=system) as port:
        asyncio.run(_all(port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
