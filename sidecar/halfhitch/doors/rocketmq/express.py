"""Requests of a transaction that go the native way: the loop's side of it.

The native carrier takes the bytes of a connection first. Half messages and one-way ends of the
usual kind never reach the interpreter: they are read, appended to Kafka and answered by native
threads, and what is to be written comes back in bursts. Everything else it gives back, and that
goes the way of all requests. While all is plain sailing it is lent the socket itself (ride.py).

It takes only what the interpreted door has taken for the same group and topic, over the same
connection, not more than a moment ago: whoever is allowed what is judged in one place. What the
service would do with the difference is the same as if another instance had taken the request.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import HalfHitchError
from halfhitch.ports import Observer
from halfhitch.service.decisions import UnderWay
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.requests import Form, Send

logger = logging.getLogger(__name__)

#: What was allowed is judged anew so often.
_ALLOWED_S: Final = 1.0
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK
_PRODUCER: Final = ResolutionSource.PRODUCER


class Native(Protocol):
    """The carrier, as the package halfhitch-native makes it. Its methods do not block."""

    def open(self, partition_count: int) -> None:
        """So many half partitions; 0: take nothing."""
        ...

    def connect(self, connection: int, id_prefix: str) -> None:
        """Answers over this connection have ids that begin so."""
        ...

    def disconnect(self, connection: int) -> None:
        """Nothing more can be written to it."""
        ...

    def allow(
        self,
        connection: int,
        group: str,
        topic: str,
        group_name: str,
        kafka_topic: str,
        partition_count: int,
    ) -> None:
        """Messages of this group for this topic are taken, until `forget`."""
        ...

    def forget(self) -> None:
        """Nothing is allowed any more."""
        ...

    def feed(
        self,
        connection: int,
        data: bytes,
        room: int,
        takes_ends: bool,  # noqa: FBT001
    ) -> tuple[bytes | None, int, int]:
        """What is given back; how many requests are carried out, at most `room`; bytes held."""
        ...

    def adopt(self, connection: int, socket: int, rooms: tuple[int, int]) -> bool:
        """Read and write this file descriptor from now on, with at most so many requests in flight
        of the connection and of all; False: it cannot be."""
        ...

    def release(self, connection: int) -> tuple[bytes, int, int]:
        """No more of that: what is still to be written, how many requests came that `take` has not
        told of, bytes of an unfinished frame that `feed` goes on with."""
        ...

    def write(self, connection: int, content: bytes) -> None:
        """Over an adopted socket, behind what is written there already."""
        ...

    def take_ends(self, yes: bool) -> None:  # noqa: FBT001
        """Whether ends that come over adopted sockets are carried out."""
        ...

    def lingering(self) -> Sequence[int]:
        """Connections with a frame that has been unfinished for a while."""
        ...

    def take(
        self,
    ) -> tuple[
        Sequence[tuple[int, int, int, bytes]],
        Sequence[tuple[int, int, int, bool, int]],
        Sequence[float],
        Sequence[float],
        Sequence[float],
        Sequence[tuple[int, str, str]],
        Sequence[tuple[int, bytes]],
        Sequence[int],
    ]:
        """Since the last time: (connection, how many came over its adopted socket, how many are
        finished, what to write); failures as (request code, connection, opaque, whether it is JSON,
        error number); seconds that prepares, commits and rollbacks took; log lines; what came over
        adopted sockets and is given back; sockets that should be taken back."""
        ...

    def first_decision(
        self, partition: int, group: str, transaction_id: str
    ) -> tuple[bool, bool] | None:
        """Of the last moments: whether it commits, and whether it is stored."""
        ...

    def claim(self, group: str, transaction_id: str, digest: int) -> bool:
        """The message is about to be stored by the loop; False: another was taken for this id."""
        ...

    def stop(self, drain_s: float) -> None:
        """Blocks: wait for what is in flight, then end."""
        ...


class Passenger(Protocol):
    """A connection that has requests under way here."""

    def settled(self, taken_count: int, count: int, content: bytes) -> None:
        """So many requests came over its lent socket, so many are finished, with these answers."""
        ...

    def given(self, data: bytes) -> None:
        """This came over its lent socket and is the loop's to read."""
        ...

    def disembark(self) -> None:
        """Take the socket back."""
        ...

    def failed(self, code: int, opaque: int, form: Form, error: HalfHitchError) -> None:
        """One request could not be carried out."""
        ...


class Express:
    """One for a door; used on the event loop."""

    def __init__(
        self,
        make_native: Callable[..., Native],
        *,
        observer: Observer,
        partition_count: Callable[[], int],
        target_partitions: Callable[[str], int | None],
        is_asking: Callable[[], bool],
        is_free: Callable[[str, str], bool],
        error_of: Callable[[int, int], HalfHitchError],
        log: Callable[[int, str, str], None],
    ) -> None:
        """`make_native` gets `wake`, the two ends of a pipe, and empties it when asked (`take`).

        `is_asking`: whether some check is out, so that each end must be looked at. `is_free`:
        whether nothing of this group is refused; else each of its messages must be looked at.
        """
        self._make_native = make_native
        self._native: Native | None = None  # while it runs
        self._ends = (-1, -1)
        self._observer = observer
        self._partition_count = partition_count
        self._target_partitions = target_partitions
        self._is_asking = is_asking
        self._is_free = is_free
        self._error_of = error_of
        self._log = log
        self._passengers: dict[int, Passenger] = {}
        self._number = 0
        self._stats = Stats()
        self._forget_at_s = 0.0

    def start(self, stats: Stats) -> None:
        """Begin; call on the loop. Where that fails everything goes the interpreted way."""
        self._stats = stats
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)
        try:
            self._native = self._make_native(wake=self._ends)
        except RuntimeError as error:
            logger.warning(
                "the native threads of the RocketMQ door do not start, so requests go the slower "
                "way: %s",
                error,
                extra={"action": "native_unused"},
            )
            self._close()
        else:
            asyncio.get_running_loop().add_reader(self._ends[0], self.catch_up)
            logger.info(
                "half messages and one-way ends of RocketMQ's clients go the native way",
                extra={"action": "native_used"},
            )

    def look(self) -> None:
        """Every quarter of a second or so."""
        if self._native is None:
            return
        self._native.open(self._partition_count())
        self._native.take_ends(not self._is_asking())
        for number in self._native.lingering():
            self._disembark(number)
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + _ALLOWED_S
            self._native.forget()

    async def stop(self, drain_s: float) -> None:
        """Wait for what is in flight, tell of it, end."""
        if self._native is None:
            return
        for passenger in list(self._passengers.values()):
            passenger.disembark()
        await asyncio.to_thread(self._native.stop, drain_s)
        if self._native is None:
            return  # somebody else has stopped it meanwhile
        self.catch_up()
        asyncio.get_running_loop().remove_reader(self._ends[0])
        self._native = None
        self._close()

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)

    # -- connections -----------------------------------------------------------------------------

    def connect(self, passenger: Passenger, id_prefix: str) -> int:
        """Its number, by which it feeds; 0: nothing is carried here."""
        if self._native is None:
            return 0
        self._number += 1
        self._passengers[self._number] = passenger
        self._native.connect(self._number, id_prefix)
        return self._number

    def disconnect(self, number: int) -> None:
        """It is gone and nothing of it is under way."""
        if self._passengers.pop(number, None) is not None and self._native is not None:
            self._native.disconnect(number)

    def allow(self, number: int, send: Send, group_name: str, kafka_topic: str) -> None:
        """The service has just stored this half of that connection."""
        count = self._target_partitions(kafka_topic)
        native = self._native
        if count is not None and native is not None and self._is_free(group_name, kafka_topic):
            native.allow(number, send.producer_group, send.topic, group_name, kafka_topic, count)

    def feed(self, number: int, data: bytes, room: int) -> tuple[bytes | None, int, int]:
        """See `Native.feed`."""
        native = self._native
        if native is None:
            return data, 0, 0
        return native.feed(number, data, room, not self._is_asking())

    def adopt(self, number: int, socket: int, rooms: tuple[int, int]) -> bool:
        """See `Native.adopt`."""
        native = self._native
        if native is None:
            return False
        native.take_ends(not self._is_asking())
        return native.adopt(number, socket, rooms)

    def release(self, number: int) -> tuple[bytes, int, int]:
        """See `Native.release`."""
        return (b"", 0, 0) if self._native is None else self._native.release(number)

    def write(self, number: int, content: bytes) -> None:
        """See `Native.write`."""
        if self._native is not None:
            self._native.write(number, content)

    def asks(self) -> None:
        """A check goes out."""
        if self._native is not None:
            self._native.take_ends(False)

    def first_decision(self, partition: int, identity: Identity) -> UnderWay | None:
        """What service.decisions.DecisionLog does not know of itself."""
        native = self._native
        found = None if native is None else native.first_decision(partition, *identity)
        if found is None:
            return None
        commits, is_stored = found
        return UnderWay(_COMMIT if commits else _ROLLBACK, True if is_stored else None)

    def claim(self, identity: Identity, digest: int) -> bool:
        """What service.singles.Singles does not know of itself."""
        native = self._native
        return native is None or native.claim(*identity, digest)

    # -- what comes back -------------------------------------------------------------------------

    def _disembark(self, number: int) -> None:
        passenger = self._passengers.get(number)
        if passenger is not None:
            passenger.disembark()

    def catch_up(self) -> None:
        """Hand on what has come back until now."""
        if self._native is None:
            return
        finished, failures, prepared, committed, rolled_back, lines, given, leaving = (
            self._native.take()
        )
        self._count(prepared, committed, rolled_back)
        for number, taken_count, count, content in finished:
            passenger = self._passengers.get(number)
            if passenger is not None:
                passenger.settled(taken_count, count, content)
        self._fail(failures)
        for number, data in given:
            passenger = self._passengers.get(number)
            if passenger is not None:
                passenger.given(data)
        for number in leaving:
            self._disembark(number)
        for line in lines:
            self._log(*line)

    def _fail(self, failures: Sequence[tuple[int, int, int, bool, int]]) -> None:
        for code, number, opaque, is_json, error_number in failures:
            error = self._error_of(code, error_number)
            if code == codes.END_TRANSACTION:
                self._observer.end_refused(error.code)
            else:
                self._observer.prepare_refused(error.code)
            passenger = self._passengers.get(number)
            if passenger is not None:
                passenger.failed(code, opaque, Form.JSON if is_json else Form.BINARY, error)

    def _count(
        self, prepared: Sequence[float], committed: Sequence[float], rolled_back: Sequence[float]
    ) -> None:
        stats, observer = self._stats, self._observer
        stats.answered(codes.SEND_MESSAGE_V2, codes.SUCCESS, len(prepared))
        stats.answered(codes.END_TRANSACTION, codes.SUCCESS, len(committed) + len(rolled_back))
        stats.native_count += len(prepared) + len(committed) + len(rolled_back)
        for elapsed_s in prepared:
            observer.prepared(1, elapsed_s)
        for elapsed_s in committed:
            observer.ended(_COMMIT, _PRODUCER, elapsed_s)
        for elapsed_s in rolled_back:
            observer.ended(_ROLLBACK, _PRODUCER, elapsed_s)
