"""Checks on their way: found by transaction, and by the time at which they have waited too long.

One check is one `Question` from its arrival to its one report. Used on the event loop only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halfhitch.core.model import Identity
    from halfhitch.ports import DoubtIndex
    from halfhitch.service.checking.ways import Link
    from halfhitch.wire.check import Check

logger = logging.getLogger(__name__)


async def last_delivered(index: DoubtIndex, check: Check) -> int:
    """The number that was delivered last of this very copy; 0: none, or the index is away."""
    try:
        return await index.delivered(check.partition, check.identity, check.half_offsets)
    except Exception:  # without the index a producer is asked twice, and that is all
        logger.exception("the index cannot be asked", extra={"action": "check_bug"})
        return 0


@dataclass(slots=True, eq=False)
class Question:
    """A check and where it is: nowhere, waiting for room, at a link, or at another instance."""

    check: Check
    accepted_s: float
    sent_s: float = 0.0  # handed over last
    generation: int = 0  # of the group's breaker when it left
    asker: str = ""  # another instance, that wants to hear of it; empty: an owner here

    link: Link | None = None
    instance: str = ""
    is_waiting: bool = False
    is_settled: bool = False
    reason: str | None = None  # of the answer that settled it
    is_unread: bool = False  # its halves could not be read here: no fault of the producers

    #: Some way took it and then broke: nobody can say that it did not arrive.
    is_perhaps_delivered: bool = False
    is_retried: bool = False
    #: Somebody is there, and did not take it: says something of the group.
    was_refused: bool = False
    #: Links and instances that are not to be tried (again).
    shunned: tuple[object, ...] = ()

    slot: int = -1  # of `Deadlines`
    older: Question | None = None  # of `Questions`

    @property
    def is_out(self) -> bool:
        """Whether it is on its way to a producer."""
        return self.link is not None or self.instance != ""


class Questions:
    """By transaction. Two of the same are rare (an owner left and came back) but must both end."""

    def __init__(self) -> None:
        self._newest: dict[Identity, Question] = {}

    def add(self, question: Question) -> None:
        """Until `remove`."""
        identity = question.check.identity
        question.older = self._newest.get(identity)
        self._newest[identity] = question

    def remove(self, question: Question) -> None:
        """It has ended."""
        identity = question.check.identity
        newest = self._newest.get(identity)
        if newest is question:
            if question.older is None:
                del self._newest[identity]
            else:
                self._newest[identity] = question.older
        else:
            while newest is not None and newest.older is not question:
                newest = newest.older
            if newest is not None:
                newest.older = question.older
        question.older = None

    def of(self, identity: Identity) -> list[Question]:
        """All that ask about this transaction."""
        found = []
        question = self._newest.get(identity)
        while question is not None:
            found.append(question)
            question = question.older
        return found

    def __bool__(self) -> bool:
        return bool(self._newest)

    def all(self) -> list[Question]:
        """Every one, in no order."""
        return [question for identity in self._newest for question in self.of(identity)]

    def __len__(self) -> int:
        return len(self.all())


class Deadlines:
    """A wheel: questions in slots of `tick_s`; never early, late by up to one tick."""

    def __init__(self, tick_s: float) -> None:
        self._tick_s = tick_s
        self._slots: dict[int, dict[Question, None]] = {}

    def put(self, question: Question, deadline_s: float) -> None:
        """From now on this deadline holds, and no other."""
        slot = int(deadline_s / self._tick_s) + 1
        if slot == question.slot:
            return
        if question.slot >= 0:
            self.drop(question)
        question.slot = slot
        questions = self._slots.get(slot)
        if questions is None:
            questions = self._slots[slot] = {}
        questions[question] = None

    def drop(self, question: Question) -> None:
        """No deadline any more."""
        questions = self._slots.get(question.slot)
        if questions is not None:
            questions.pop(question, None)
            if not questions:
                del self._slots[question.slot]
        question.slot = -1

    def due(self, now_s: float, count_max: int) -> list[Question]:
        """Up to so many whose deadline has passed; they have none from now on."""
        found: list[Question] = []
        for slot in sorted(slot for slot in self._slots if slot * self._tick_s <= now_s):
            for question in list(self._slots[slot]):
                if len(found) == count_max:
                    return found
                self.drop(question)
                found.append(question)
        return found
