"""The states of a transaction, and what leads from one to another: a table.

- PENDING    halves, no decision.
- COPYING    undecided, and part of the Kafka transaction now under way, which appends its halves
  anew: with a higher check number, or because they are old. Then PENDING again.
- AWAITING   commit decided, but a half that the decision covers has not been read yet.
- READY      decided and whole: its outcome can be written. A commit is whole when every covered
  half is there; dropping or parking what is there asks for no more than that.
- ASIDE      ready, but a target is away: no step takes it until it is taken back.
- RENEWING   aside for long, and part of the Kafka transaction now under way: its halves are
  appended anew with the decision in them. Then AWAITING until they were read back.
- WRITING    part of the Kafka transaction now under way.
- WRITTEN    that one is committed; its done mark lies in the op log and was not read back yet.
- FINISHED   a done mark for it was read. Only its memory stays (see finished.py).
"""

from enum import Enum, auto
from typing import Final


class State(Enum):
    """Where a transaction is; the module's text says how one gets in and out."""

    __hash__ = object.__hash__  # Enum's own is Python code, on the path of every record

    PENDING = auto()
    COPYING = auto()
    AWAITING = auto()
    READY = auto()
    ASIDE = auto()
    RENEWING = auto()
    WRITING = auto()
    WRITTEN = auto()
    FINISHED = auto()


class Trigger(Enum):
    """What happens to a transaction."""

    __hash__ = object.__hash__  # Enum's own is Python code, on the path of every record

    DECIDED = auto()  # a decision was read; covered halves are missing
    DECIDED_WHOLE = auto()  # a decision was read and nothing is missing
    COMPLETED = auto()  # the last missing half was read
    EXTENDED = auto()  # an equal commit was read that covers halves which are missing
    INCOMPLETE = auto()  # a missing half has not come within the horizon: it is to be parked
    COPY_PLANNED = auto()  # taken into a step to be appended anew
    PUT_ASIDE = auto()  # one of its targets is away
    TAKEN_BACK = auto()  # and is there again, or is to be tried
    PLANNED = auto()  # taken into a step
    CONFIRMED = auto()  # the step's Kafka transaction is committed
    ABORTED = auto()  # the step's Kafka transaction is surely not committed
    DONE_READ = auto()  # a done mark was read: ours, or of an owner before us


TRANSITIONS: Final[dict[tuple[State, Trigger], State]] = {
    (State.PENDING, Trigger.DECIDED): State.AWAITING,
    (State.PENDING, Trigger.DECIDED_WHOLE): State.READY,
    (State.PENDING, Trigger.DONE_READ): State.FINISHED,
    (State.PENDING, Trigger.COPY_PLANNED): State.COPYING,
    (State.COPYING, Trigger.CONFIRMED): State.PENDING,
    (State.COPYING, Trigger.ABORTED): State.PENDING,
    (State.AWAITING, Trigger.COMPLETED): State.READY,
    (State.AWAITING, Trigger.INCOMPLETE): State.READY,
    (State.AWAITING, Trigger.DONE_READ): State.FINISHED,
    (State.READY, Trigger.EXTENDED): State.AWAITING,
    (State.READY, Trigger.PLANNED): State.WRITING,
    (State.READY, Trigger.DONE_READ): State.FINISHED,
    (State.READY, Trigger.PUT_ASIDE): State.ASIDE,
    (State.ASIDE, Trigger.EXTENDED): State.AWAITING,
    (State.ASIDE, Trigger.TAKEN_BACK): State.READY,
    (State.ASIDE, Trigger.COPY_PLANNED): State.RENEWING,
    (State.ASIDE, Trigger.DONE_READ): State.FINISHED,
    (State.RENEWING, Trigger.CONFIRMED): State.AWAITING,
    (State.RENEWING, Trigger.ABORTED): State.ASIDE,
    (State.WRITING, Trigger.CONFIRMED): State.WRITTEN,
    (State.WRITING, Trigger.ABORTED): State.READY,
    (State.WRITTEN, Trigger.DONE_READ): State.FINISHED,
}
