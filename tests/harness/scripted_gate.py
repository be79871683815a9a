"""A gate whose producers do what the test says: service.checking.api.CheckGate without a desk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.service.checking.api import CheckOutcome, CheckReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.core.model import Identity, ProducerGroup, Resolution
    from halfhitch.service.owner.checkback import CheckBack
    from halfhitch.wire.check import Check


@dataclass
class ScriptedGate:
    """`room`: permits there are for each group that is asked for; 0: no producer is live."""

    room: int = 0
    taken: int = 0  # permits that are out and not used up
    sent: list[Check] = field(default_factory=list)
    decided: list[tuple[Identity, Resolution, int, str]] = field(default_factory=list)
    forgotten: list[Identity] = field(default_factory=list)

    def take(self, producer_group: ProducerGroup, wanted_count: int) -> int:
        count = min(wanted_count, self.room - self.taken)
        self.taken += count
        return count

    def give_back(self, producer_group: ProducerGroup, count: int) -> None:
        self.taken -= count

    def send(self, checks: Sequence[Check]) -> None:
        self.taken -= len(checks)
        self.sent += checks

    def forget(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome] = ()) -> None:
        self.forgotten += identities

    def decide(
        self, partition: int, identity: Identity, resolution: Resolution, covered_count: int,
        half_offsets: tuple[int, ...], reason: str,
    ) -> None:  # fmt: skip
        self.decided.append((identity, resolution, covered_count, reason))

    def answer(
        self,
        checkback: CheckBack,
        check: Check,
        outcome: CheckOutcome,
        reason: str | None = None,
    ) -> None:
        """Let the owner know what became of it."""
        checkback.report(
            CheckReport(check.identity, check.number, outcome, "producer-1", 0.0, reason)
        )
