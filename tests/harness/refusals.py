"""Owners whose writes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.service.owner.turn import StepFailedError
from halfhitch.wire.parked import Parked, read_parked
from harness.defaults import check_rules
from harness.twin import PARKED, Twin

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner

LARGE = bytes(2_000)
RULES = check_rules(
    immunity_ms=6_000, interval_ms=20_000, jitter=0.0, count_max=3, renew_ms=600_000,
    age_ms_max=7_200_000,
)  # fmt: skip


def put(twin: Twin, name: str, *topics: str, value: bytes | None = None) -> None:
    """A committed transaction with a message for each of the topics; its value is its name."""
    for index, topic in enumerate(topics):
        twin.half(name, index=index, topic=topic, value=value or name.encode())
    twin.commit(name, covered=len(topics))


def turns(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    """As a worker would: a pause after what failed."""
    until_s = twin.clock.monotonic_s() + seconds
    while twin.clock.monotonic_s() < until_s:
        try:
            if owner.turn(0.0):
                twin.clock.advance(0.01)
                continue
        except StepFailedError:
            pass
        twin.clock.advance(0.25)


def failures(twin: Twin) -> int:
    return sum(1 for call in twin.observer.of("kafka_transaction") if call[1] == "fail")


def parked(twin: Twin) -> list[tuple[bytes | None, str]]:
    found = []
    for record in twin.kafka.committed(PARKED):
        why = read_parked(record.offset(), record.headers())
        assert isinstance(why, Parked), why
        found.append((record.value(), why.detail))
    return found
