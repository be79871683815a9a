"""The decisions of one transaction in the order of asking, and which of them may count.

The log keeps the order of asking, and the first decision in it counts. So what counts follows from
the fate of each: one that has surely failed is passed over, and one that is stored ends the search.
Before that each may be the first that is on its way, or of whose fate nobody knows.
"""

from dataclasses import dataclass, field
from typing import Protocol

from halfhitch.core.model import Resolution
from halfhitch.errors import OutcomeUnknown


class Elsewhere(Protocol):
    """A decision that went another way through this process, as that way tells it."""

    @property
    def number(self) -> int:
        """Of all that went that way; one that is told of no more has surely failed."""
        ...

    @property
    def is_commit(self) -> bool:
        """Else it is a roll-back."""
        ...

    @property
    def is_stored(self) -> bool | None:
        """None: it is on its way; False: nobody knows."""
        ...

    @property
    def op_offset(self) -> int | None:
        """Where it is stored, if that is known."""
        ...


@dataclass(slots=True, eq=False)
class UnderWay:
    """A decision that was asked for before and has perhaps not been read by its owner yet."""

    resolution: Resolution
    #: How it went, once known. Records of one partition arrive in the order of asking: whoever was
    #: asked later and is confirmed can look here.
    is_stored: bool | None = None
    error: BaseException | None = None
    #: Where it is stored, if that is known.
    op_offset: int | None = None
    #: The first one of its transaction that is remembered, and (there) those that were asked for
    #: behind it and may count. One alone refers to nothing: hundreds a second must not wait for
    #: Python's collector of cycles.
    head: "UnderWay | None" = field(default=None, repr=False)
    followers: "list[UnderWay] | None" = field(default=None, repr=False)

    @classmethod
    def elsewhere(cls, told: Elsewhere) -> "UnderWay":
        """One that went another way through this process."""
        found = cls(Resolution.COMMIT if told.is_commit else Resolution.ROLLBACK)
        found.hear(told)
        return found

    def hear(self, told: Elsewhere) -> None:
        """How it went, since it was asked about last."""
        if told.is_stored is False:
            self.fail(OutcomeUnknown("Kafka did not say whether it was stored"))
        else:
            self.is_stored, self.op_offset = told.is_stored, told.op_offset

    @property
    def has_surely_failed(self) -> bool:
        """It is not in the log, and will not be."""
        return self.is_stored is False and not isinstance(self.error, OutcomeUnknown)

    @property
    def order(self) -> "list[UnderWay]":
        """All of its transaction that are remembered, in the order of asking."""
        head = self.head or self
        return [head, *(head.followers or ())]

    def follow(self, first: "UnderWay") -> bool:
        """It is asked for behind that one and its followers; whether it may count, then."""
        head = self.head = first.head or first
        if any(one.is_stored for one in may_count(head.order)):
            return False  # it has lost, or says the same
        head.followers = head.followers or []
        head.followers.append(self)
        return True

    def fail(self, error: BaseException) -> None:
        """It was not stored, or nobody knows.

        Where nobody knows of an equal one before it either, this one says nothing new: whoever
        repeats a request for hours must not fill the memory.
        """
        self.is_stored, self.error = False, error
        followers = None if self.head is None else self.head.followers
        if followers and self in followers and (self.has_surely_failed or self._is_said_before()):
            followers.remove(self)

    def _is_said_before(self) -> bool:
        before = self.order[: self.order.index(self)]
        return any(
            one.resolution is self.resolution
            and one.is_stored is False
            and not one.has_surely_failed
            for one in before
        )


def is_read(order: list[UnderWay], read_to: int | None) -> bool:
    """Whether the owner here knows all that may count of it, and so which one does.

    `read_to`: it has read what lies below this op offset; None: no owner works here.
    """
    found = may_count(order)
    last = found[-1].op_offset if found else None
    return read_to is not None and last is not None and last < read_to


def may_count(order: list[UnderWay]) -> list[UnderWay]:
    """One of these counts, if any does."""
    found: list[UnderWay] = []
    for one in order:
        if not one.has_surely_failed:
            found.append(one)
            if one.is_stored:
                break
    return found
