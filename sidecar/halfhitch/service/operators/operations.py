"""What an operator can do: look, decide, check, resume. Every door for operators calls it.

Own half partitions are asked directly; of the others Redis tells what is undecided. Redis is never
believed where something follows from it: before a transaction of another instance's partition is
decided, its messages are looked up in the half log.

Everything an operator does is an op record with his name and reason.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.errors import (
    BackendError,
    HalfHitchError,
    InvalidRequest,
    KafkaUnavailable,
    RedisUnavailable,
    TransactionGone,
    TransactionNotFound,
    TransactionParked,
)
from halfhitch.ports import Doubt, DoubtIndex
from halfhitch.service.api import (
    STATE_AFTER,
    Ended,
    Filter,
    ParkedMessage,
    ParkedPage,
    ParkedTransaction,
    Undecided,
    UndecidedPage,
)
from halfhitch.service.checking import inbox
from halfhitch.service.operators.parts import FoundHalves, OperationsParts, Searched
from halfhitch.service.operators.shown import is_wanted, matches, shown_parked
from halfhitch.service.reasons import REASON_CHARS_MAX
from halfhitch.service.transactions.end import refuse_loser
from halfhitch.service.transactions.first import Place
from halfhitch.service.transactions.op_appends import Decision
from halfhitch.wire.plain import is_plain

logger = logging.getLogger(__name__)

OPERATOR_CHARS_MAX: Final = 100
#: To whoever cannot be told what became of a decision.
ADVICE: Final = "look with `halfhitch tx show`"
#: Of another instance's partition, as Redis tells it.
LISTED_MAX: Final = 20_000


class OperationsService:
    """service.api.Operations."""

    def __init__(self, parts: OperationsParts) -> None:
        self._parts = parts

    # -- undecided -------------------------------------------------------------------------------

    async def undecided(self, wanted: Filter) -> UndecidedPage:
        """See service.api.Operations."""
        others = self._others()
        mine, total_count = await self._parts.owners.undecided(wanted)
        await self._remember_answers(mine)
        found = list(mine)
        if wanted.producer_group is not None and wanted.transaction_id is not None:
            identity = _identity(wanted.producer_group, wanted.transaction_id)
            doubts, missing = await self._doubts_of(others, [identity])
        else:
            doubts, missing = await self._doubts(others)
        now_ms = self._parts.clock.wall_ms()
        for partition, known in doubts.items():
            for doubt in known:
                shown = self._undecided(partition, doubt, now_ms)
                if matches(wanted, shown):
                    found.append(shown)
                    total_count += 1
        found.sort(key=lambda shown: shown.place)
        return UndecidedPage(found[: wanted.count_max], total_count, missing)

    async def _remember_answers(self, mine: Sequence[Undecided]) -> None:
        """What was answered to the last check is lost with an owner; Redis may still know it."""
        index = self._parts.index
        unknown: dict[int, dict[Identity, Undecided]] = {}
        for shown in mine:
            if shown.check_count and shown.last_answer is None:
                identity = _identity(shown.producer_group, shown.transaction_id)
                unknown.setdefault(shown.partition, {})[identity] = shown
        if index is None:
            return
        for partition, by_identity in unknown.items():
            try:
                doubts = await index.find(partition, list(by_identity))
            except BackendError:
                return
            for doubt in doubts:
                shown = by_identity[doubt.identity]
                shown.last_answer, shown.asked = doubt.last_answer, doubt.last_instance
                shown.last_reason = doubt.last_reason

    async def _doubts(
        self, partitions: Sequence[int]
    ) -> tuple[dict[int, Sequence[Doubt]], list[int]]:
        """What Redis says of these, and of which it does not say all."""
        found, missing = await self._told_of(
            partitions, lambda index, partition: index.list(partition, count_max=LISTED_MAX)
        )
        # Where it was not asked for more, there may be more.
        cut_off = {partition for partition, known in found.items() if len(known) >= LISTED_MAX}
        return found, sorted(cut_off.union(missing))

    async def _doubts_of(
        self, partitions: Sequence[int], identities: Sequence[Identity]
    ) -> tuple[dict[int, Sequence[Doubt]], list[int]]:
        """The same of these transactions alone, wherever they are: a list may have thousands."""
        return await self._told_of(
            partitions, lambda index, partition: index.find(partition, identities)
        )

    async def _told_of(
        self,
        partitions: Sequence[int],
        ask: Callable[[DoubtIndex, int], Awaitable[Sequence[Doubt]]],
    ) -> tuple[dict[int, Sequence[Doubt]], list[int]]:
        index = self._parts.index
        if index is None:
            return {}, list(partitions)

        async def told(partition: int) -> tuple[Sequence[Doubt], bool]:
            # Half a list looks like a whole one: a new owner writes it bit by bit.
            mark = await index.whole(partition)
            doubts = await ask(index, partition)
            return doubts, mark is not None and mark == await index.whole(partition)

        answers = await asyncio.gather(*map(told, partitions), return_exceptions=True)
        found: dict[int, Sequence[Doubt]] = {}
        missing: list[int] = []
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, BackendError):
                missing.append(partition)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[partition], is_whole = answer
                if not is_whole:
                    missing.append(partition)
        return found, missing

    def _undecided(self, partition: int, doubt: Doubt, now_ms: int) -> Undecided:
        group, transaction_id = doubt.identity
        return Undecided(
            transaction_id=transaction_id,
            producer_group=group,
            partition=partition,
            topics=doubt.topics,
            message_count=doubt.message_count,
            half_offsets=doubt.half_offsets,
            age_s=max(0.0, (now_ms - doubt.born_ms) / 1000),
            check_count=doubt.check_count,
            check_max=self._parts.check_count_max,
            delivered=0 < doubt.check_count <= doubt.delivered,
            next_check_s=max(0.0, (doubt.due_ms - now_ms) / 1000),
            last_answer=doubt.last_answer,
            asked=doubt.last_instance,
            last_reason=doubt.last_reason,
            from_index=True,
            stored_ms=doubt.born_ms,
        )

    # -- decide ----------------------------------------------------------------------------------

    async def decide(
        self,
        producer_group: str,
        transaction_id: str,
        resolution: Resolution,
        *,
        reason: str,
        operator: str,
    ) -> Ended:
        """See service.api.Operations."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        check_reason(reason, operator)
        identity = _identity(producer_group, transaction_id)
        known, _ = await parts.owners.undecided(_only(identity))
        if known:
            mine = known[0]
            found = FoundHalves(mine.partition, mine.half_offsets, mine.message_count)
            await self._decide_here(found, identity, resolution, f"{operator}: {reason}")
        elif not self._stands(identity, resolution):
            found = await self._found_elsewhere(identity)
            op_offset = await self._append(found, identity, resolution, f"{operator}: {reason}")
            await self._confirm(found, identity, resolution, op_offset)
        parts.observer.ended(
            resolution, ResolutionSource.OPERATOR, parts.clock.monotonic_s() - began_s
        )
        self._tell("decided " + resolution.name.lower(), identity, reason, operator)
        return Ended(transaction_id, STATE_AFTER[resolution], visible=False)

    async def _decide_here(
        self, found: FoundHalves, identity: Identity, resolution: Resolution, reason: str
    ) -> None:
        """It was pending here a moment ago."""
        op_offset = await self._append(found, identity, resolution, reason)
        await self._confirm(found, identity, resolution, op_offset)
        self._stands_in(found.partition, identity, resolution)

    async def _append(
        self, found: FoundHalves, identity: Identity, resolution: Resolution, reason: str
    ) -> int:
        return await self._parts.decisions.append(
            found.partition,
            Decision(
                identity,
                resolution,
                found.covered_count,
                found.half_offsets,
                ResolutionSource.OPERATOR,
                reason,
            ),
        )

    def _stands(self, identity: Identity, resolution: Resolution) -> bool:
        """Whether it was decided here already, in this way. Raises ContraryDecision or Parked."""
        return any(
            self._stands_in(partition, identity, resolution)
            for partition in self._parts.owners.owned()
        )

    def _stands_in(self, partition: int, identity: Identity, resolution: Resolution) -> bool:
        standing = self._parts.owners.standing(partition, identity, -1)
        if standing is None:
            return False
        if standing.is_parked:
            raise is_parked(identity)
        refuse_loser(identity, standing.resolution, resolution, is_parked)
        return standing.resolution is resolution

    async def _found_elsewhere(self, identity: Identity) -> FoundHalves:
        """In the half partitions of others. Raises TransactionNotFound, TransactionParked."""
        searched = await self._search_elsewhere([identity])
        if searched.found:
            return searched.found[identity]
        if searched.trouble is not None:
            raise searched.trouble
        if (await self._parts.parked.parkings(identity))[0]:
            raise is_parked(identity)
        raise not_found(identity)

    def _others(self) -> list[int]:
        """Half partitions that other instances own, or nobody. Raises KafkaUnavailable."""
        owned, count = self._parts.owners.owned(), self._parts.partition_count()
        if not count:  # no half partition is known: "none is undecided" would be a guess
            raise KafkaUnavailable(
                "Kafka has not been reached yet, so nothing is known of what is undecided: try "
                "again in some seconds; /readyz says what is missing"
            )
        return [p for p in range(count) if p not in owned]

    async def _search_elsewhere(self, identities: Sequence[Identity]) -> Searched:
        """In the half partitions of others: Redis is asked once, and each log read once."""
        others = self._others()
        if not others:
            return Searched({})
        doubts, _ = await self._doubts_of(others, identities)
        hints = {
            partition: min(min(doubt.half_offsets, default=0) for doubt in known)
            for partition, known in doubts.items()
            if known
        }
        return await self._parts.halves.find(others, identities, hints)

    async def _confirm(
        self, found: FoundHalves, identity: Identity, resolution: Resolution, op_offset: int
    ) -> None:
        """Whether ours was the first decision, which is stored there."""
        place = Place(found.partition, found.half_offsets[0], op_offset)
        try:
            first = await self._parts.firsts.find(place, identity, advice=ADVICE)
        except TransactionGone:
            raise not_found(identity) from None
        refuse_loser(identity, first, resolution, is_parked)

    # -- check -----------------------------------------------------------------------------------

    async def check(self, producer_group: str, transaction_id: str) -> None:
        """See service.api.Operations."""
        parts = self._parts
        identity = _identity(producer_group, transaction_id)
        known, _ = await parts.owners.undecided(_only(identity))
        if known and await parts.owners.check_now(known[0].partition, identity):
            return
        doubts, missing = await self._doubts_of(self._others(), [identity])
        self._hand_on(identity, doubts, missing, await self._owners_of(doubts))

    async def _owners_of(self, doubts: Mapping[int, Sequence[Doubt]]) -> dict[int, str | None]:
        """Who owns the half partitions that something is known of. Raises RedisUnavailable."""
        index = self._parts.index
        if index is None:
            return {}
        return {
            partition: await index.owner(partition) for partition in doubts if doubts[partition]
        }

    def _hand_on(
        self,
        identity: Identity,
        doubts: Mapping[int, Sequence[Doubt]],
        missing: Sequence[int],
        owners: Mapping[int, str | None],
    ) -> None:
        """To the owner of the half partition that knows it. Raises a HalfHitchError."""
        for partition, listed in doubts.items():
            if any(doubt.identity == identity for doubt in listed):
                self._check_elsewhere(partition, owners[partition], identity)
                return
        if missing:
            raise RedisUnavailable(
                f"{identity[1]} is not pending here; half partitions {_numbers(missing)} belong "
                "to other instances, and Redis does not say all of them now: try again in some "
                "seconds, or ask those"
            )
        raise not_found(identity)

    def _check_elsewhere(self, partition: int, owner: str | None, identity: Identity) -> None:
        parts = self._parts
        body = inbox.check_now_body(partition, identity)
        if owner is None:
            raise RedisUnavailable(
                f"half partition {partition} has no owner at the moment; try again in some seconds"
            )
        if parts.presence is None or not parts.presence.post(owner, inbox.CHECK_NOW, body):
            raise RedisUnavailable(
                f"{owner}, which owns half partition {partition}, cannot be told without Redis; "
                "ask it itself"
            )

    # -- parked ----------------------------------------------------------------------------------

    async def parked(self, wanted: Filter) -> ParkedPage:
        """See service.api.Operations."""
        identity = None
        if wanted.producer_group is not None and wanted.transaction_id is not None:
            identity = _identity(wanted.producer_group, wanted.transaction_id)
        parkings, left_out_count = await self._parts.parked.parkings(identity)
        now_ms = self._parts.clock.wall_ms()
        found = [parking for parking in parkings if is_wanted(wanted, parking, now_ms)]
        shown = [shown_parked(parking) for parking in found[: wanted.count_max]]
        return ParkedPage(shown, len(found), left_out_count)

    async def parked_messages(
        self, producer_group: str, transaction_id: str
    ) -> tuple[ParkedTransaction, list[ParkedMessage]]:
        """See service.api.Operations."""
        parking, messages = await self._parts.parked.content(
            _identity(producer_group, transaction_id)
        )
        return shown_parked(parking), [
            ParkedMessage(m.topic, m.partition, m.key, m.value, m.headers) for m in messages
        ]

    async def resume(
        self, producer_group: str, transaction_id: str, *, reason: str, operator: str
    ) -> ParkedTransaction:
        """See service.api.Operations."""
        check_reason(reason, operator)
        identity = _identity(producer_group, transaction_id)
        parking = await self._parts.parked.resume(identity, reason=reason, operator=operator)
        self._parts.observer.resumed(1)
        self._tell("resumed", identity, reason, operator)
        return shown_parked(parking)

    def _tell(self, action: str, identity: Identity, reason: str, operator: str) -> None:
        logger.info(
            "%s %s transaction %s of group %s: %s",
            operator,
            action,
            identity[1],
            identity[0],
            reason,
            extra={"action": "operator"},
        )


def check_reason(reason: str, operator: str) -> None:
    """Raises InvalidRequest unless people can read it in one line of a log."""
    for what, text, chars_max in (
        ("reason", reason, REASON_CHARS_MAX),
        ("operator", operator, OPERATOR_CHARS_MAX),
    ):
        if not text.strip() or len(text) > chars_max or not is_plain(text):
            raise InvalidRequest(
                f"the {what} must be 1 to {chars_max} printable characters in one line: it is kept "
                "for those who look later"
            )


def _identity(producer_group: str, transaction_id: str) -> Identity:
    return ProducerGroup(producer_group), TransactionId(transaction_id)


def _only(identity: Identity) -> Filter:
    return Filter(producer_group=identity[0], transaction_id=identity[1], count_max=1)


def _numbers(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))


def not_found(identity: Identity) -> TransactionNotFound:
    """The error of whoever names one that is not undecided, or is not there."""
    return TransactionNotFound(
        f"no transaction {identity[1]} of group {identity[0]} is undecided: it has ended "
        "(`halfhitch tx trace` tells how), or the id or the group is misspelled; `halfhitch tx "
        "list` shows what is undecided, `halfhitch parked list` what was given up"
    )


def is_parked(identity: Identity) -> HalfHitchError:
    """The error of whoever would decide what was given up."""
    return TransactionParked(
        f"transaction {identity[1]} was given up and lies on the parked topic: put it back with "
        "`halfhitch parked resume`, then it can be decided"
    )
