"""From a pending transaction to the question that its producers are asked, and its next copy."""

from collections.abc import Callable, Mapping, Sequence

from halfhitch.core.transaction import Transaction
from halfhitch.ports import Payload, TargetRecord
from halfhitch.service.checking.halves import handle_of, message_of
from halfhitch.wire import half as half_wire
from halfhitch.wire.check import Check, CheckMessage
from halfhitch.wire.half import Garbage
from halfhitch.wire.handle import Handle


class CheckQuestions:
    """For one half partition. `sign` turns a handle into its text."""

    def __init__(
        self, partition: int, *, half_topic: str, sign: Callable[[Handle], str], number_max: int
    ) -> None:
        self._partition = partition
        #: Where the halves lie, and their copies.
        self.half_topic = half_topic
        self._sign = sign
        self._number_max = number_max

    def question(
        self,
        transaction: Transaction,
        number: int,
        payload: Mapping[int, Payload],
        *,
        age_ms: int,
        wall_ms: int,
        lag_ms: int = 0,
        is_repeat: bool = False,
    ) -> Check:
        """What is asked. The halves must be those that `payload` holds.

        `age_ms` by the ledger's scale is never too high. What the application keeps about local
        transactions goes by the calendar, so it is told an age that is never too low, and when it
        was born: its database has a clock, too, by which it forgets.
        """
        halves = transaction.messages()
        messages: list[CheckMessage] = []
        instance = ""
        for _, half_offset in halves:
            found = payload[half_offset]
            message = message_of(half_offset, found.key, found.value, found.headers)
            if message is not None:
                messages.append(message)
            instance = instance or half_wire.instance_of(found.headers)
        since_ms = min(born_ms(transaction, payload), transaction.stored_at_ms)
        handle = handle_of(self._partition, transaction.identity, halves, messages)
        return Check(
            self._partition,
            transaction.identity,
            number,
            self._number_max,
            self._sign(handle),
            max(age_ms, wall_ms - since_ms),
            instance,
            messages,
            is_repeat,
            lag_ms,
            tuple([half_offset for _, half_offset in halves]),
            since_ms,
        )

    def copies(
        self, transaction: Transaction, number: int, payload: Mapping[int, Payload]
    ) -> list[TargetRecord]:
        """All its halves as they are appended anew, with this check number."""
        records = []
        resolution = transaction.resolution
        decision = None if resolution is None else (resolution, transaction.covered_count)
        for _, half_offset in transaction.messages():
            found = payload[half_offset]
            headers = half_wire.copied_headers(
                found.headers,
                half_offset,
                check_count=number,
                stored_ms=transaction.stored_at_ms,
                decision=decision,
            )
            records.append(
                TargetRecord(self.half_topic, self._partition, found.key, found.value, headers)
            )
        return records


def born_ms(transaction: Transaction, payload: Mapping[int, Payload]) -> int:
    """When it was prepared first, milliseconds of the wall clock: for people, and for databases.

    As its half records say, of which `payload` holds some. With none of them, the broker's time of
    the first copy: the same but for what clocks differ, or, if it was parked, when it was put back.
    """
    found = [
        half_wire.born_ms_of(payload[half_offset].headers)
        for _, half_offset in transaction.messages()
        if half_offset in payload
    ]
    return min((born for born in found if born >= 0), default=transaction.stored_at_ms)


def topics_of(half_offsets: Sequence[int], payload: Mapping[int, Payload]) -> tuple[str, ...]:
    """Distinct targets of these halves, as far as their payloads are here."""
    topics: dict[str, None] = {}
    for half_offset in half_offsets:
        found = payload.get(half_offset)
        if found is not None:
            forward = half_wire.read_forward(half_offset, found.headers)
            if not isinstance(forward, Garbage):
                topics[forward.target_topic] = None
    return tuple(topics)
