"""The decisions of one transaction in the order of asking, and which of them may count.

The log keeps the order of asking, and the first decision in it counts. So what counts follows from
the fate of each: one that has surely failed is passed over, and one that is stored ends the search.
Before that each may be the first that is on its way, or of whose fate nobody knows.
"""

from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import Resolution
from halfhitch.errors import OutcomeUnknown

#: Of one transaction no more are remembered, unless they say something new: whoever repeats a
#: request for hours while no fate is known must not fill the memory.
_ORDER_MAX: Final = 100


@dataclass(slots=True, eq=False)
class UnderWay:
    """A decision that was asked for before and has perhaps not been read by its owner yet."""

    resolution: Resolution
    #: How it went, once known. Records of one partition arrive in the order of asking: whoever was
    #: asked later and is confirmed can look here.
    is_stored: bool | None = None
    error: BaseException | None = None
    #: All of its transaction that may count, this one among them unless a stored one was before it.
    order: "list[UnderWay]" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.order = [self]

    @classmethod
    def elsewhere(cls, resolution: Resolution, *, is_stored: bool | None) -> "UnderWay":
        """One that went another way through this process; False: nobody knows."""
        found = cls(resolution, is_stored)
        if is_stored is False:
            found.error = OutcomeUnknown("Kafka did not say whether it was stored")
        return found

    @property
    def has_surely_failed(self) -> bool:
        """It is not in the log, and will not be."""
        return self.is_stored is False and not isinstance(self.error, OutcomeUnknown)

    def follow(self, order: "list[UnderWay]") -> None:
        """It is asked for behind these."""
        self.order = order
        found = may_count(order)
        if any(one.is_stored for one in found):
            return  # it has lost, or says the same
        if len(order) < _ORDER_MAX or all(one.resolution is not self.resolution for one in found):
            order.append(self)

    def fail(self, error: BaseException) -> None:
        """It was not stored, or nobody knows."""
        self.is_stored, self.error = False, error
        if self.has_surely_failed and self in self.order:
            self.order.remove(self)


def may_count(order: list[UnderWay]) -> list[UnderWay]:
    """One of these counts, if any does."""
    found: list[UnderWay] = []
    for one in order:
        if not one.has_surely_failed:
            found.append(one)
            if one.is_stored:
                break
    return found
