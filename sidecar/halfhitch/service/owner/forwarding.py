"""What a step's forwards become: records on their targets, or on the parked topic.

A message that its target will never take must not stop its partition. Kafka refuses a whole Kafka
transaction for one such record, and does not always say for which one: then smaller steps are tried
until it is alone. The transaction it belongs to is parked, all its messages together, with the
reason, in the same kind of Kafka transaction that would have forwarded it.

Only a target's refusal condemns a transaction. What the half or op topic refuses is the owner's own
trouble. What the parked topic refuses can go nowhere: when it takes nothing at all it is away like
any target (away_steps.py); when it does not take one transaction, that one waits for it alone.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from halfhitch.core.model import HalfOffset, Identity, LateNote, Resolution
from halfhitch.core.step import Step
from halfhitch.core.transaction import Transaction
from halfhitch.ports import Payload, TargetRecord, WriteResult
from halfhitch.service.owner.away_targets import TopicAndKey
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.wire import half as half_wire
from halfhitch.wire.count import with_count
from halfhitch.wire.half import Garbage
from halfhitch.wire.parked import (
    CHECKS_EXHAUSTED,
    INCOMPLETE,
    LATE,
    TOO_OLD,
    UNDELIVERABLE,
    LateDecision,
    Parked,
    note_headers,
    parked_headers,
)

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK

logger = logging.getLogger(__name__)

#: Transactions found to be undeliverable, waiting for the step that parks them.
_CONDEMNED_MAX: Final = 10_000
#: Follows the parked topic's name where those wait that it does not take. No name of a topic.
_UNPARKABLE: Final = " (does not take the message)"


class Forwarder:
    """Builds the records of a step; remembers between tries which transactions are to be parked."""

    def __init__(
        self,
        partition: int,
        *,
        policy: TopicPolicy,
        parked_topic: str,
        step_messages_max: int,
        check_count_max: int,
    ) -> None:
        self._partition = partition
        self._policy = policy
        self._parked_topic = parked_topic
        self._messages_max = step_messages_max
        self._check_count_max = check_count_max
        self._condemned: dict[Identity, str] = {}
        self._unparkable: set[Identity] = set()  # bounded by what is undone
        self._owners: list[Identity] = []  # of each record of the last step
        #: Of those, how many go to their real topics, and how many to the parked topic.
        self.forwarded_count = self.parked_count = 0
        #: Of the first, how many for each topic.
        self.forwarded_by_topic: Counter[str] = Counter()
        #: Of the last step: who is parked in it, why, and a sentence.
        self.parkings: dict[Identity, tuple[str, str]] = {}
        #: How many messages the next step may have: less while the culprit is looked for.
        self.messages_max = step_messages_max

    def records(self, step: Step, payload: Mapping[int, Payload]) -> list[TargetRecord]:
        """The step's records; transactions that cannot be delivered are parked in the step."""
        result: list[TargetRecord] = []
        owners: list[Identity] = []
        commits = iter(step.forwards)
        parked_count = 0
        condemned = self._condemned
        self.parkings.clear()
        for index, transaction in enumerate(step.transactions):
            resolution = transaction.resolution
            if resolution is not _COMMIT and resolution is not _PARK and not transaction.parked:
                continue
            halves = next(commits)
            why = None
            if resolution is _PARK or transaction.parked:
                why = _why_given_up(transaction, self._check_count_max)
            if why is None:
                records, detail = self._forwards(halves, payload)
                if condemned:
                    detail = condemned.get(transaction.identity, detail)
                if detail is not None:
                    step.park(index)
                    why = UNDELIVERABLE, detail
            if why is not None:
                self._tell(transaction.identity, why[1])
                self.parkings[transaction.identity] = why
                records = [self._parked(o, payload[o], why, transaction) for o in halves]
                parked_count += len(records)
            if len(records) == 1:
                result.append(records[0])
                owners.append(transaction.identity)
            else:
                result += records
                owners += [transaction.identity] * len(records)
        self._owners = owners
        self.forwarded_count, self.parked_count = len(result) - parked_count, parked_count
        self.forwarded_by_topic = topics = Counter([record.topic for record in result])
        if parked_count:
            topics[self._parked_topic] -= parked_count
        return result

    def _forwards(
        self, halves: Sequence[int], payload: Mapping[int, Payload]
    ) -> tuple[list[TargetRecord], str | None]:
        # All that the commit covers, and nothing else: so each record can say how many there are.
        records: list[TargetRecord] = []
        for half_offset in halves:
            found = payload[half_offset]
            aim = found.aim()
            if aim is not None:
                banned = self._policy.ban(aim[0])
                if banned is not None:
                    return [], banned
                outside = (found, len(halves))
                records.append(TargetRecord(aim[0], aim[1], found.key, None, [], outside))
                continue
            forward = half_wire.read_forward(half_offset, found.headers)
            if isinstance(forward, Garbage):
                return [], forward.reason
            banned = self._policy.ban(forward.target_topic)
            if banned is not None:
                return [], banned
            name, marker = forward.headers[-1]
            forward.headers[-1] = name, with_count(marker or b"", len(halves))
            records.append(
                TargetRecord(
                    forward.target_topic,
                    forward.target_partition,
                    found.key,
                    found.value,
                    forward.headers,
                )
            )
        return records, None

    def topics_and_keys(
        self, transaction: Transaction, payload: Mapping[int, Payload]
    ) -> list[TopicAndKey]:
        """Topic and key of each record that this transaction would be now."""
        halves = self.halves(transaction)
        if not halves:
            return []
        parked: list[TopicAndKey] = [(self._parked_topic, None)]
        if transaction.identity in self._unparkable:
            parked.append((self.unparkable, None))
        if transaction.resolution is _PARK or transaction.parked:
            return parked
        records, detail = self._forwards(halves, payload)
        if detail is not None or transaction.identity in self._condemned:
            return parked
        return [(record.topic, record.key) for record in records]

    def halves(self, transaction: Transaction) -> list[HalfOffset]:
        """Half offsets of what a step would write for it to a target or the parked topic."""
        if transaction.resolution is _PARK or transaction.parked:
            return [half_offset for _, half_offset in transaction.messages()]
        return list(transaction.covered()) if transaction.resolution is _COMMIT else []

    def notes(self, notes: Sequence[LateNote]) -> list[TargetRecord]:
        """Decisions that came after their transactions were given up, beside what is parked."""
        return [
            TargetRecord(
                self._parked_topic,
                None,
                None,
                None,
                note_headers(
                    LateDecision(
                        *note.identity,
                        note.resolution.value,
                        self._partition,
                        note.op_offset,
                        note.reason,
                        note.source,
                    )
                ),
            )
            for note in notes
        ]

    def _parked(
        self, half_offset: int, payload: Payload, why: tuple[str, str], transaction: Transaction
    ) -> TargetRecord:
        answer, asked, last_reason = transaction.answer or (None, None, None)
        is_committed = transaction.resolution is _COMMIT
        record = Parked(
            *why,
            self._partition,
            half_offset,
            Resolution.COMMIT.value if is_committed else None,
            transaction.check_count,
            transaction.stored_at_ms,
            answer,
            asked,
            transaction.covered_count if is_committed else 0,
            transaction.reason if is_committed else None,
            last_reason,
            transaction.source if is_committed else None,
        )
        headers = parked_headers(payload.headers, record)
        return TargetRecord(self._parked_topic, None, payload.key, payload.value, headers)

    def _tell(self, identity: Identity, reason: str) -> None:
        logger.error(
            "transaction %s of group %s is parked: %s",
            identity[1],
            identity[0],
            reason,
            extra={"action": "transaction_parked"},
        )

    def succeeded(self, step: Step, on_parked: Callable[[int, int], None]) -> None:
        """The step is committed: forget what it has parked, grow again."""
        self._unparkable.difference_update([t.identity for t in step.transactions])
        if self._condemned or any(mark.ending < 0 for mark in step.done):
            # A late half's mark ends so too, but parks no transaction: it has no resolution.
            parked = [
                t.identity for t in step.transactions if t.ending < 0 and t.resolution is not None
            ]
            for identity in parked:
                self._condemned.pop(identity, None)
            if self.parked_count:
                on_parked(len(parked), self.parked_count)
        self.messages_max = min(self.messages_max * 2, self._messages_max)

    @property
    def unparkable(self) -> str:
        """What those wait for that the parked topic does not take; shown as a topic."""
        return self._parked_topic + _UNPARKABLE

    def is_unparkable(self, transaction: Transaction) -> bool:
        """Whether the parked topic has refused this one."""
        return transaction.identity in self._unparkable

    @property
    def owners(self) -> Sequence[Identity]:
        """Whose each record of the last step's forwards is."""
        return self._owners

    def shrink(self, messages_max: int) -> None:
        """The next step has no more messages than this; those after it grow again."""
        self.messages_max = max(1, min(self.messages_max, messages_max))

    def halve(self, step: Step) -> None:
        """The next step has the first half of these transactions, or the first one.

        By transactions: half of the messages may be in the last of them, and nobody would leave.
        """
        half = step.transactions[: len(step.transactions) // 2]
        self.shrink(sum(transaction.message_count for transaction in half))

    def refused(self, step: Step, targets: Sequence[TargetRecord], result: WriteResult) -> bool:
        """The step was aborted. True when the cause was found or is being closed in on.

        False: nothing says that a message is at fault; the same step is to be tried again.
        `targets` are all the records that the step was to write, in the forwarder's order.
        """
        owners = self._owners
        for index, reason in result.poisoned.items():
            if index < len(owners):
                self._blame(owners[index], targets[index].topic, reason, result)
        found = bool(result.poisoned)
        topics = {target.topic for target in targets}
        for topic, reason in result.refusing.items():
            its = {o for o, target in zip(owners, targets, strict=False) if target.topic == topic}
            if len(its) == 1:
                self._blame(its.pop(), topic, reason, result)
                found = True
            elif its or (topic not in topics and len(step.transactions) > 1):
                # Whose it is will show; and the op topic may take the marks of fewer.
                self.halve(step)
                found = True
        return found

    def _blame(self, identity: Identity, topic: str, reason: str, result: WriteResult) -> None:
        if topic != self._parked_topic:
            if len(self._condemned) < _CONDEMNED_MAX:
                self._condemned[identity] = reason
        elif topic not in result.closed and identity not in self._unparkable:
            self._unparkable.add(identity)
            logger.error(
                "transaction %s of group %s cannot be parked, and waits: %s; raise the "
                "max.message.bytes of that topic",
                identity[1],
                identity[0],
                reason,
                extra={"action": "transaction_unparkable"},
            )


def _why_given_up(transaction: Transaction, count_max: int) -> tuple[str, str] | None:
    """The reason and a sentence, for what is parked without having been refused anywhere."""
    if transaction.resolution is _COMMIT:
        if not transaction.parked:
            return None
        missing = transaction.covered_count - transaction.message_count
        return INCOMPLETE, f"it is committed, but {missing} of its messages never arrived"
    if transaction.resolution is None:
        return LATE, "it was added when its transaction had been given up, and is parked with it"
    if transaction.check_count < count_max:
        return TOO_OLD, "it is older than the age limit, and nobody has said how it ended"
    answer, asked, _ = transaction.answer or ("none", "nobody", None)
    detail = (
        f"{transaction.check_count} checks brought no decision; the last answer was "
        f"{answer!r} from {asked}"
    )
    return CHECKS_EXHAUSTED, detail
