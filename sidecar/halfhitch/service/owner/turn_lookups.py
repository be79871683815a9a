"""Questions that other threads have to an owner's ledger: answered by its own, in its next turn.

Invariant: every future is answered, or fails with one of our errors: when too many wait, when the
owner ends, and when it has ended between a caller's look at it and his question.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from halfhitch.core.ledger import Ledger
from halfhitch.errors import KafkaUnavailable, Overloaded

T = TypeVar("T")

#: More than people can have; a program that asks so much has to wait for answers.
WAITING_MAX: Final = 1_000


class TurnLookups:
    """Of one owner."""

    def __init__(self, partition: int, wake: Callable[[], None] = lambda: None) -> None:
        """`wake`: ends the owner's wait for records, where that can be done."""
        self._partition = partition
        self._wake = wake
        # Bounded: see WAITING_MAX.
        self._waiting: deque[tuple[Callable[[Ledger], Any], Future[Any]]] = deque()
        self._is_over = False

    def ask(self, question: Callable[[Ledger], T]) -> "Future[T]":
        """From any thread. Fails with Overloaded, KafkaUnavailable, or what the question raises."""
        future: Future[T] = Future()
        if len(self._waiting) >= WAITING_MAX:
            future.set_exception(
                Overloaded(
                    f"{WAITING_MAX} questions wait for half partition {self._partition}; try again "
                    "in a moment"
                )
            )
            return future
        self._waiting.append((question, future))
        if self._is_over:
            self._refuse()
        else:
            self._wake()
        return future

    def answer(self, ledger: Ledger) -> None:
        """A turn of the owner."""
        while self._waiting:
            question, future = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(question(ledger))
            except Exception as error:  # noqa: BLE001 - whoever asked gets it; the turn goes on
                future.set_exception(error)

    def end(self) -> None:
        """The owner goes."""
        self._is_over = True
        self._refuse()

    def _refuse(self) -> None:
        """By the owner's thread and perhaps by one that asks too late, at the same time."""
        while True:
            try:
                _, future = self._waiting.popleft()
            except IndexError:
                return
            if future.set_running_or_notify_cancel():
                future.set_exception(
                    KafkaUnavailable(
                        f"half partition {self._partition} is being taken over; try again in a "
                        "moment"
                    )
                )
