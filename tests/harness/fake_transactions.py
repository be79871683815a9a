"""A transaction service in memory, for the tests of doors.

What it simplifies: nothing is durable, a decision is visible at once, handles are not signed, and
only what a door must be able to translate is checked (topic names, groups, contrary ends).

`hold()` keeps calls waiting until `release()`; `fail_with` answers the next call with an error.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.errors import (
    ContraryDecision,
    ForbiddenTopic,
    InvalidHandle,
    InvalidRequest,
    TransactionGone,
    TransactionNotFound,
    WrongGroup,
)
from halfhitch.service.api import (
    STATE_AFTER,
    Ended,
    OutgoingMessage,
    Prepared,
    TransactionState,
    TransactionView,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass
class FakeTransaction:
    """One transaction as the fake keeps it."""

    transaction_id: str
    producer_group: str
    messages: list[OutgoingMessage]
    immunity_s: int | None
    state: TransactionState = TransactionState.PENDING
    source: ResolutionSource | None = None


@dataclass
class FakeTransactions:
    """Implements `halfhitch.service.api.Transactions`."""

    transactions: dict[str, FakeTransaction] = field(default_factory=dict)
    #: Names of the methods called, in order.
    calls: list[str] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)  # of ends
    traces: list[str | None] = field(default_factory=list)  # of ends
    fail_with: BaseException | None = None
    waiting_count: int = 0
    _gate: asyncio.Event | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self) -> None:
        """Keep every call from now on waiting."""
        self._gate = asyncio.Event()

    def release(self) -> None:
        """Let the waiting calls go on."""
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def until_waiting(self, count: int) -> None:
        """Return once this many calls are being held."""
        async with asyncio.timeout(10):
            while self.waiting_count < count:
                self._arrived.clear()
                await self._arrived.wait()

    async def _enter(self, name: str) -> None:
        self.calls.append(name)
        if self._gate is not None:
            self.waiting_count += 1
            self._arrived.set()
            try:
                await self._gate.wait()
            finally:
                self.waiting_count -= 1
        if self.fail_with is not None:
            error, self.fail_with = self.fail_with, None
            raise error

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        await self._enter("prepare")
        if not producer_group:
            raise InvalidRequest("The producer group is empty; name one.")
        self._check(messages)
        chosen = transaction_id or f"T{len(self.transactions)}"
        handle = f"h.{len(self.transactions)}"
        self.transactions[handle] = FakeTransaction(
            chosen, producer_group, list(messages), immunity_s
        )
        return Prepared(chosen, handle)

    async def add(self, handle: str, messages: Sequence[OutgoingMessage]) -> Prepared:
        await self._enter("add")
        self._check(messages)
        transaction = self._find(handle)
        if transaction.state is not TransactionState.PENDING:
            raise ContraryDecision(
                "It has ended; nothing can be added.", decided=transaction.state, requested="add"
            )
        transaction.messages.extend(messages)
        longer = f"{handle}+"
        self.transactions[longer] = transaction
        return Prepared(transaction.transaction_id, longer)

    async def end(
        self,
        handle: str,
        resolution: Resolution,
        *,
        producer_group: str | None = None,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        wait_visible: bool = False,
        reason: str | None = None,
        trace_id: str | None = None,
    ) -> Ended:
        await self._enter("end")
        self.reasons.append(reason)
        self.traces.append(trace_id)
        transaction = self._find(handle)
        if producer_group not in (None, transaction.producer_group):
            raise WrongGroup("Another group prepared this transaction.")
        wanted = STATE_AFTER[resolution]
        if transaction.state is TransactionState.PENDING:
            transaction.state = wanted
            transaction.source = source
        elif transaction.state is not wanted:
            raise ContraryDecision(
                "It ended the other way.", decided=transaction.state, requested=wanted
            )
        return Ended(transaction.transaction_id, transaction.state, wait_visible)

    def identify(self, handle: str) -> Identity:
        self.calls.append("identify")
        transaction = self._find(handle)
        return ProducerGroup(transaction.producer_group), TransactionId(transaction.transaction_id)

    async def view(self, handle: str) -> TransactionView:
        await self._enter("view")
        transaction = self._find(handle)
        return TransactionView(
            transaction.transaction_id,
            transaction.producer_group,
            transaction.state,
            len(transaction.messages),
            transaction.state is not TransactionState.PENDING,
        )

    def _check(self, messages: Sequence[OutgoingMessage]) -> None:
        if not messages:
            raise InvalidRequest("There are no messages; send at least one.")
        for message in messages:
            if not _TOPIC.fullmatch(message.topic) or message.topic.startswith("__"):
                raise ForbiddenTopic("No message may go to this topic; choose another.")

    def _find(self, handle: str) -> FakeTransaction:
        if handle == "h.unknown":
            raise TransactionNotFound("There is no such transaction.")
        if handle == "h.gone":
            raise TransactionGone("It ended too long ago.")
        if handle not in self.transactions:
            raise InvalidHandle("This is no handle of ours.")
        return self.transactions[handle]
