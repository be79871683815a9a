"""Makes the picture of `halfhitch dev` in docs/tutorial.md: `make dev-picture`.

README's first five minutes are pasted beside a real one, and what it then has told is drawn.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from acceptance.test_first_minutes import SOON_S, blocks
from harness.dev import STOP_S, Dev, Terminal, plain
from harness.kafka import wait_until
from harness.places import ROOT

_PICTURE: Final = ROOT / "docs" / "pictures" / "dev.svg"
_COLUMNS: Final = 118
_CODES: Final = re.compile(r"\x1b\[[0-9;]*m")


def told(folder: Path) -> str:
    """The banner, and the events of the first five minutes."""
    *steps, (_, events) = blocks()
    expected = plain(events).splitlines()
    os.environ["FORCE_COLOR"] = "1"  # as on a terminal
    with Dev(folder / "data") as dev:
        del os.environ["FORCE_COLOR"]  # what is pasted beside it is compared
        dev.wait_until_ready()
        terminal = Terminal(folder, dev)
        for language, text in steps:
            if language == "console":
                terminal.paste(text)
            else:
                terminal.run(sys.executable, "-c", text)
        wait_until(
            lambda: all(line in plain(_CODES.sub("", dev.text)) for line in expected),
            SOON_S,
            what=f"the events:\n{events}",
        )
        dev.interrupt()
        dev.process.wait(STOP_S)
        return dev.text.replace(str(folder), "~")


def drawn(text: str) -> str:
    """As SVG, like a terminal of a width that no line needs."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in text.rstrip().splitlines():
        console.print(Text.from_ansi(line), soft_wrap=False)
    picture = console.export_svg(title="halfhitch dev", unique_id="dev")
    # Fonts are the reader's own: nothing is loaded from elsewhere.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"


def main() -> int:
    """The picture anew."""
    with tempfile.TemporaryDirectory() as folder:
        _PICTURE.write_text(drawn(told(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
