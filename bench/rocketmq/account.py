"""What became of the messages of one run, told from their bodies. Pure.

The benchmark writes into each body: its batch (8 bytes, one for each run), a number (8 bytes, of
which the lower half counts from 0), how the local transaction ends (1 byte), what each of up to 20
checks will be answered (20 bytes), and then random bytes. So a message that is there twice is known
again, whatever its id, one that must not be there is known, and those that are not there can be
counted. (Two threads may now and then give the same number: it is no identity.)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

#: RocketMQ's order of the three.
COMMIT: Final = 0
ROLLBACK: Final = 1
UNKNOWN: Final = 2

_HEAD: Final = struct.Struct("!qII")
_PLAN: Final = slice(_HEAD.size, _HEAD.size + 21)
#: Number, plan and some of the random bytes.
_IDENTITY: Final = slice(8, 64)


def fate(body: bytes) -> int:
    """How the transaction is to end at last: COMMIT, ROLLBACK, or UNKNOWN for ever."""
    return next((answer for answer in body[_PLAN] if answer != UNKNOWN), UNKNOWN)


@dataclass(frozen=True, slots=True)
class Told:
    """What Half Hitch says of a run when all is carried out."""

    prepared_count: int  # halves acknowledged
    rolled_back_count: int  # those that an earlier run has left included
    pending_count: int
    left_count: int  # pending before the run


@dataclass(frozen=True, slots=True)
class Forwarded:
    """The account: `faults` says whether all is well."""

    seen_count: int  # visible to read_committed, each counted once
    doubled_count: int  # visible more than once
    repeated_id_count: int  # visible messages whose UNIQ_KEY another one has
    forbidden_count: int  # visible although they were to be rolled back
    stranger_count: int  # visible, of another run
    unseen_count: int  # messages made up to the last visible one, and not visible
    told: Told
    #: A load that is ended in the middle has in each thread one message, at most, that had not
    #: been stored or had no end.
    unended_count_max: int
    commits_all: bool

    @property
    def lacking_count(self) -> int:
        """Prepared, and neither visible nor rolled back nor pending."""
        told = self.told
        gone = self.seen_count + told.rolled_back_count + told.pending_count
        return told.left_count + told.prepared_count - gone

    @property
    def faults(self) -> list[str]:
        """What must not be; nothing, one hopes."""
        told, bound = self.told, self.unended_count_max
        found = {
            "doubled": self.doubled_count,
            "of an id that another one has": self.repeated_id_count,
            "visible although rolled back": self.forbidden_count,
            "of another run": self.stranger_count,
            "lost": self.lacking_count if self.lacking_count > bound else 0,
            "more than were prepared": -self.lacking_count if self.lacking_count < -bound else 0,
        }
        if self.commits_all:
            # What Half Hitch says of them is no reason not to be visible.
            found["committed and rolled back"] = max(0, told.rolled_back_count - told.left_count)
            found["made and not visible"] = (
                # The number of the last one is that of a moment before it was counted itself.
                self.unseen_count if self.unseen_count > 2 * bound else 0
            )
        return [f"{count} {what}" for what, count in found.items() if count]


class Account:
    """Of one run."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._bodies: set[bytes] = set()
        self._ids: set[bytes] = set()
        self._doubled_count = self._repeated_id_count = 0
        self._forbidden_count = self._stranger_count = 0
        self._last = -1

    def seen(self, body: bytes, transaction_id: bytes) -> None:
        """A visible message."""
        batch, _, number = _HEAD.unpack_from(body)
        if batch != self._batch:
            self._stranger_count += 1
            return
        if transaction_id in self._ids:
            self._repeated_id_count += 1
        self._ids.add(transaction_id)
        known = body[_IDENTITY]
        if known in self._bodies:
            self._doubled_count += 1
            return
        self._bodies.add(known)
        self._last = max(self._last, number)
        if fate(body) != COMMIT:
            self._forbidden_count += 1

    def close(self, told: Told, *, unended_count_max: int, commits_all: bool) -> Forwarded:
        """The account, beside what is told."""
        return Forwarded(
            seen_count=len(self._bodies),
            doubled_count=self._doubled_count,
            repeated_id_count=self._repeated_id_count,
            forbidden_count=self._forbidden_count,
            stranger_count=self._stranger_count,
            unseen_count=self._last + 1 - len(self._bodies),
            told=told,
            unended_count_max=unended_count_max,
            commits_all=commits_all,
        )
