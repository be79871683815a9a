"""A check desk in memory, for the tests of doors and links: it notes what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.wire.check import Check, CheckMessage

if TYPE_CHECKING:
    from halfhitch.service.checking.api import CheckOutcome, ProducerLink


@dataclass
class FakeDesk:
    """Implements `halfhitch.service.checking.api.CheckDesk`."""

    #: Links that are connected now.
    links: list[ProducerLink] = field(default_factory=list)
    connected_count: int = 0
    disconnected_count: int = 0
    settled: list[tuple[Identity, CheckOutcome]] = field(default_factory=list)
    #: Offered as soon as a link is connected, from within `connect`.
    waiting: list[Check] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)  # of what is settled
    fail_with: Exception | None = None

    def connect(self, link: ProducerLink) -> None:
        assert link not in self.links
        self.links.append(link)
        self.connected_count += 1
        if self.fail_with is not None:
            raise self.fail_with
        for check in self.waiting:
            assert link.offer(check)

    def disconnect(self, link: ProducerLink) -> None:
        self.links.remove(link)
        self.disconnected_count += 1
        if self.fail_with is not None:
            raise self.fail_with

    def settle(self, identity: Identity, outcome: CheckOutcome, reason: str | None = None) -> bool:
        self.settled.append((identity, outcome))
        self.reasons.append(reason)
        return True


def a_check(number: int = 1, *, transaction_id: str = "order-1", value: bytes = b"v") -> Check:
    """A check of group g."""
    return Check(
        partition=0,
        identity=(ProducerGroup("g"), TransactionId(transaction_id)),
        number=number,
        number_max=15,
        handle=f"h.{transaction_id}",
        age_ms=6000,
        instance="i1",
        messages=[CheckMessage("orders", b"k", value, [("trace", b"\xff"), ("null", None)])],
    )
