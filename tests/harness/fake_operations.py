"""service.api.Operations without a Kafka: what is there is given, what is done is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.errors import HalfHitchError, TransactionNotFound
from halfhitch.service.api import (
    STATE_AFTER,
    Ended,
    Filter,
    ManyOutcome,
    NamesPage,
    ParkedMessage,
    ParkedPage,
    ParkedTransaction,
    Undecided,
    UndecidedPage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.core.model import Identity, Resolution


def undecided(name: str, group: str = "shop", **more: Any) -> Undecided:
    """One pending transaction."""
    values: dict[str, Any] = {
        "partition": 1,
        "topics": ("orders", "points"),
        "message_count": 2,
        "half_offsets": (17, 18),
        "age_s": 95.5,
        "check_count": 3,
        "check_max": 15,
        "delivered": True,
        "next_check_s": 42.0,
        "last_answer": "unknown",
        "asked": "shop-1",
        "stored_ms": 0,
    }
    return Undecided(transaction_id=name, producer_group=group, **{**values, **more})


def parked(name: str, group: str = "shop", **more: Any) -> ParkedTransaction:
    """One parked transaction."""
    values: dict[str, Any] = {
        "half_partition": 1,
        "topics": ("orders",),
        "message_count": 1,
        "reason": "checks_exhausted",
        "detail": "nobody answered",
        "decision": None,
        "decision_reason": None,
        "check_count": 15,
        "last_answer": "silent",
        "asked": "shop-1",
        "parked_ms": 1_700_000_000_000,
        "stored_ms": 1_699_999_000_000,
        "resumed_count": 0,
    }
    return ParkedTransaction(transaction_id=name, producer_group=group, **{**values, **more})


@dataclass
class FakeOperations:
    """Give it transactions; `fails` maps an id to the error that anything done to it raises."""

    pending: list[Undecided] = field(default_factory=list)
    given_up: list[ParkedTransaction] = field(default_factory=list)
    messages: list[ParkedMessage] = field(default_factory=list)
    missing_partitions: list[int] = field(default_factory=list)
    left_out_count: int = 0
    fails: dict[str, Exception] = field(default_factory=dict)
    forgets: bool = False  # what was decided is not listed any more
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    async def undecided(self, wanted: Filter) -> UndecidedPage:
        self.calls.append(("undecided", wanted))
        found = [t for t in self.pending if _matches(wanted, t)]
        shown = found[: wanted.count_max]
        return UndecidedPage(shown, len(found), self.missing_partitions)

    async def decide(
        self,
        producer_group: str,
        transaction_id: str,
        resolution: Resolution,
        *,
        reason: str,
        operator: str,
    ) -> Ended:
        self._do(resolution.name.lower(), producer_group, transaction_id, reason, operator)
        return Ended(transaction_id, STATE_AFTER[resolution], visible=False)

    async def check(self, producer_group: str, transaction_id: str) -> None:
        self._do("check", producer_group, transaction_id)

    async def names(self, wanted: Filter) -> NamesPage:
        self.calls.append(("names", wanted))
        found = [t for t in self.pending if _matches(wanted, t)]
        names: Any = [(t.producer_group, t.transaction_id) for t in found[: wanted.count_max]]
        return NamesPage(names, len(found), self.missing_partitions)

    async def decide_many(
        self, identities: Sequence[Identity], resolution: Resolution, *, reason: str, operator: str
    ) -> list[ManyOutcome]:
        name, state = resolution.name.lower(), STATE_AFTER[resolution].value
        outcomes = [self._one(name, state, identity, reason, operator) for identity in identities]
        if self.forgets:
            ended = {i for i, outcome in zip(identities, outcomes, strict=True) if outcome == state}
            self.pending = [
                t for t in self.pending if (t.producer_group, t.transaction_id) not in ended
            ]
        return outcomes

    async def check_many(self, identities: Sequence[Identity]) -> list[ManyOutcome]:
        return [self._one("check", "pending", identity) for identity in identities]

    def _one(self, name: str, state: str, identity: Identity, *more: str) -> ManyOutcome:
        try:
            self._do(name, *identity, *more)
        except HalfHitchError as error:
            return error
        return state

    async def parked(self, wanted: Filter) -> ParkedPage:
        self.calls.append(("parked", wanted))
        found = [t for t in self.given_up if _matches(wanted, t)]
        return ParkedPage(found[: wanted.count_max], len(found), self.left_out_count)

    async def parked_messages(
        self, producer_group: str, transaction_id: str
    ) -> tuple[ParkedTransaction, list[ParkedMessage]]:
        self._do("content", producer_group, transaction_id)
        return self._parked(producer_group, transaction_id), self.messages

    async def resume(
        self, producer_group: str, transaction_id: str, *, reason: str, operator: str
    ) -> ParkedTransaction:
        self._do("resume", producer_group, transaction_id, reason, operator)
        found = self._parked(producer_group, transaction_id)
        self.given_up.remove(found)
        return found

    def done(self) -> list[tuple[Any, ...]]:
        """What was done, without the questions."""
        return [
            call
            for call in self.calls
            if call[0] not in ("undecided", "names", "parked", "content")
        ]

    def _do(self, name: str, producer_group: str, transaction_id: str, *more: Any) -> None:
        self.calls.append((name, producer_group, transaction_id, *more))
        if transaction_id in self.fails:
            raise self.fails[transaction_id]

    def _parked(self, producer_group: str, transaction_id: str) -> ParkedTransaction:
        for known in self.given_up:
            if (known.producer_group, known.transaction_id) == (producer_group, transaction_id):
                return known
        raise TransactionNotFound("not parked")


def _matches(wanted: Filter, shown: Undecided | ParkedTransaction) -> bool:
    return (
        wanted.takes_group(shown.producer_group)
        and wanted.transaction_id in (None, shown.transaction_id)
        and (wanted.topic is None or wanted.topic in shown.topics)
    )
