"""What goes wrong between a program and its coordinator, at the very call a test has in mind.

It happens in the client, in this process: the error comes at once, where a real one would come
after the call's deadline. The next end of any producer here meets it, blocking or asyncio.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from math import inf
from typing import Any, Final
from unittest.mock import patch

from halfhitch.client import AsyncTransactionProducer, TransactionProducer
from halfhitch.client.calls import Call, Operation
from halfhitch.client.errors import DecisionUnknown

_ENDS: Final = (Operation.COMMIT, Operation.ROLLBACK)


class SimulatedCrash(BaseException):
    """The program ends here, between its database's commit and its message's.

    No `Exception`, as a real end is none: nothing that a program catches may go on from here.
    """


class Mishap(Enum):
    """What becomes of one end."""

    CRASH = auto()  # the program is gone before it is sent
    LOST = auto()  # it never arrives
    ANSWER_LOST = auto()  # it is carried out, and nobody hears of it


class Mishaps:
    """Those that are to come, in order. While it is installed, producers meet them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._coming: list[Mishap] = []

    def add(self, mishap: Mishap) -> None:
        """The next end that meets none before."""
        with self._lock:
            self._coming.append(mishap)

    def take_back(self, mishap: Mishap) -> bool:
        """Whether it was still to come; it is not any more."""
        with self._lock:
            if mishap not in self._coming:
                return False
            self._coming.remove(mishap)
            return True

    def _of(self, call: "Call[Any]") -> Mishap | None:
        with self._lock:
            if not self._coming or call.operation not in _ENDS:
                return None
            return self._coming.pop(0)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """For the length of the block."""
        blocking, aio = TransactionProducer.perform, AsyncTransactionProducer.perform

        def perform(
            producer: TransactionProducer, call: "Call[Any]", at_most_s: float = inf
        ) -> Any:
            mishap = self._of(call)
            before(mishap, call)
            result = blocking(producer, call, at_most_s)
            after(mishap, call)
            return result

        async def perform_aio(
            producer: AsyncTransactionProducer, call: "Call[Any]", at_most_s: float = inf
        ) -> Any:
            mishap = self._of(call)
            before(mishap, call)
            result = await aio(producer, call, at_most_s)
            after(mishap, call)
            return result

        with (
            patch.object(TransactionProducer, "perform", perform),
            patch.object(AsyncTransactionProducer, "perform", perform_aio),
        ):
            yield


def before(mishap: Mishap | None, call: "Call[Any]") -> None:
    """What happens instead of the call."""
    if mishap is Mishap.CRASH:
        raise SimulatedCrash(
            f"the program ends before its {call.operation.value} of {call.transaction_id or '?'} "
            "is sent"
        )
    if mishap is Mishap.LOST:
        raise _unknown(call, "a test has lost it on its way")


def after(mishap: Mishap | None, call: "Call[Any]") -> None:
    """What happens instead of its answer."""
    if mishap is Mishap.ANSWER_LOST:
        raise _unknown(call, "a test has lost the answer")


def _unknown(call: "Call[Any]", why: str) -> DecisionUnknown:
    return DecisionUnknown(
        why,
        requested=call.operation.value,
        handle=call.handle or "",
        transaction_id=call.transaction_id,
    )
