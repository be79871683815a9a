"""An application process of the soak: as apps.py, but for what it writes down (slots.py).

`python -m chaos.kit.soak_app`, with the plan's `history` naming a folder.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.kit.apps import AppProcess
from chaos.kit.slots import Books, SlotFates, SlotHistory, content_of

if TYPE_CHECKING:
    import random

    from halfhitch.client import Message


class SoakProcess(AppProcess):
    """Its books are slots, and its messages follow from their ids."""

    def open_books(self) -> None:
        """See AppProcess."""
        books = Books(Path(self.plan.history).parent)
        self.history, self.fates = SlotHistory(books), SlotFates(books)

    def message(self, rng: random.Random, transaction_id: str, number: int) -> Message:
        """See AppProcess."""
        return content_of(transaction_id, number, self.plan.topics)

    def described(self, message: Message) -> Any:
        """See AppProcess: nobody reads it."""
        return message


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    SoakProcess(json.loads(sys.argv[1])).run()
