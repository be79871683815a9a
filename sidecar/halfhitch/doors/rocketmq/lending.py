"""Requests of a transaction that go the native way: the loop's side of it.

The native carrier takes the bytes of a connection first. Half messages and one-way ends of the
usual kind never reach the interpreter: they are read, appended to Kafka and answered by native
threads, and what is to be written comes back in bursts. Everything else it gives back, and that
goes the way of all requests. While all goes well the socket itself is lent to it: native threads
read and write it, until it is taken back.

It takes only what the interpreted door has taken for the same group and topic, over the same
connection, not more than a moment ago: whoever is allowed what is judged in one place. What the
service would do with the difference is the same as if another instance had taken the request.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from halfhitch.core.model import (
    ROLLED_BACK,
    DecisionRead,
    DoneRead,
    Identity,
    Resolution,
    ResolutionSource,
)
from halfhitch.doors.rocketmq.native import Events, Failed, Native
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import HalfHitchError
from halfhitch.ports import Observer
from halfhitch.service.transactions.asked import Elsewhere
from halfhitch.service.transactions.remembered import Forgotten, read_to
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import request
from halfhitch.wire.remoting.requests import Form, Frame, Send

logger = logging.getLogger(__name__)

#: What was allowed is judged anew so often.
_ALLOWED_S: Final = 1.0
#: Before a socket that was taken back is lent again.
_BETWEEN_LOANS_S: Final = 1.0
#: What owners have read as rolled back before native threads run: more is not remembered.
_ROLLED_BACK_MAX: Final = 100_000
#: Digits of an id of ours after those that a connection's ids have in common.
_POSITION_DIGITS: Final = 16
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK
_PRODUCER: Final = ResolutionSource.PRODUCER


class LoopSide(Protocol):
    """The connection, as its lender needs it."""

    def begun(self, count: int) -> None:
        """So many more requests are in flight."""
        ...

    def done(self, count: int, content: bytes) -> None:
        """So many are not any more, and this answers them."""
        ...

    def read(self, data: bytes) -> None:
        """What came over the socket while it was lent, and was given back."""
        ...

    def read_on(self) -> None:
        """The socket is back, and everything that came over it has been read."""
        ...


class Lending:
    """One for a door; used on the event loop."""

    def __init__(
        self,
        make_native: Callable[..., Native],
        *,
        observer: Observer,
        partition_count: Callable[[], int],
        owner_read_to: Callable[[int], int | None],
        seal_keys: Callable[[], Sequence[bytes]],
        target_partitions: Callable[[str], int | None],
        is_free: Callable[[str, str], bool],
        error_of: Callable[[int, int], HalfHitchError],
        traced: Callable[[float, bytes], None],
        log: Callable[[int, str, str], None],
    ) -> None:
        """`make_native` gets `wake`, the two ends of a pipe, and empties it when asked (`events`).

        `owner_read_to`: see DecisionLog. `seal_keys`: none as long as they are not known.
        `is_free`: whether nothing of this group is refused; else each of its messages must be
        looked at.
        """
        self._make_native = make_native
        self.native: Native | None = None  # while it runs
        self._ends = (-1, -1)
        self._observer = observer
        self._partition_count = partition_count
        self._owner_read_to = owner_read_to
        self._seal_keys = seal_keys
        self._target_partitions = target_partitions
        self._is_free = is_free
        self._error_of = error_of
        self._traced = traced
        self._log = log
        self._lenders: dict[int, Lender] = {}
        self._number = 0
        self._stats = Stats()
        self._forget_at_s = 0.0
        self._rolled_back: deque[Identity] = deque(maxlen=_ROLLED_BACK_MAX)

    def start(self, stats: Stats) -> None:
        """Begin; call on the loop. Where that fails everything goes the interpreted way."""
        self._stats = stats
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)
        try:
            self.native = self._make_native(wake=self._ends)
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
            self._tell_rolled_back(self.native)

    def look(self) -> None:
        """Every quarter of a second or so."""
        native = self.native
        if native is None:
            return
        count = self._partition_count()
        native.open(count, self._seal_keys())
        native.owners_read(read_to(count, self._owner_read_to))
        for number in native.lingering():
            self._take_back(number)
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._forget_at_s:
            self._forget_at_s = now_s + _ALLOWED_S
            native.forget()

    async def stop(self, drain_s: float) -> None:
        """Wait for what is in flight, tell of it, end."""
        if self.native is None:
            return
        for number in list(self._lenders):
            self._take_back(number)
        await asyncio.to_thread(self.native.stop, drain_s)
        if self.native is None:
            return  # somebody else has stopped it meanwhile
        self.catch_up()
        asyncio.get_running_loop().remove_reader(self._ends[0])
        self.native = None
        self._close()

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)

    # -- connections -----------------------------------------------------------------------------

    def connect(self, lender: "Lender", id_prefix: str) -> int:
        """Its number; 0: nothing is carried out natively."""
        if self.native is None:
            return 0
        self._number += 1
        self._lenders[self._number] = lender
        self.native.connect(self._number, id_prefix)
        return self._number

    def disconnect(self, number: int) -> None:
        """The connection is gone and nothing of it is under way."""
        if self._lenders.pop(number, None) is not None and self.native is not None:
            self.native.disconnect(number)

    def allow(self, number: int, send: Send, group_name: str, kafka_topic: str) -> None:
        """The service has just stored this half of that connection."""
        count, native = self._target_partitions(kafka_topic), self.native
        if count is not None and native is not None and self._is_free(group_name, kafka_topic):
            native.allow(number, send.producer_group, send.topic, group_name, kafka_topic, count)

    # -- what another way through this process must know ------------------------------------------

    def decisions(self, partition: int, identity: Identity) -> Sequence[Elsewhere] | None:
        """See service.transactions.op_appends.DecisionLog.elsewhere."""
        return None if self.native is None else self.native.decisions(partition, *identity)

    def forgotten(self, partition: int) -> Forgotten:
        """See service.transactions.op_appends.DecisionLog.forgotten_elsewhere."""
        return Forgotten(*(0, 0) if self.native is None else self.native.forgotten(partition))

    def was_rolled_back(self, partition: int, identity: Identity) -> bool:
        """See service.transactions.op_appends.DecisionLog.rolled_back_elsewhere."""
        return self.native is not None and self.native.was_rolled_back(partition, *identity)

    def claim(self, identity: Identity, digest: int) -> bool:
        """What service.transactions.service.TransactionService does not know of itself."""
        return self.native is None or self.native.claim(*identity, digest)

    def heard(self, read: Sequence[object] | None) -> None:
        """See service.transactions.op_appends.DecisionLog.on_read. From owners' threads.

        A half of what was rolled back must be refused, and native threads do not ask the ledger.
        """
        self._rolled_back += [
            event.identity
            for event in read or ()
            if (isinstance(event, DecisionRead) and event.resolution is _ROLLBACK)
            or (isinstance(event, DoneRead) and event.ending == ROLLED_BACK)
        ]
        native = self.native
        if native is not None:
            self._tell_rolled_back(native)

    def _tell_rolled_back(self, native: Native) -> None:
        told: list[Identity] = []
        try:
            while True:
                told.append(self._rolled_back.popleft())
        except IndexError:  # another thread may take the last one, too
            pass
        if told:
            native.rolled_back(told)

    # -- what comes back -------------------------------------------------------------------------

    def _take_back(self, number: int) -> None:
        lender = self._lenders.get(number)
        if lender is not None:
            lender.take_back()

    def catch_up(self) -> None:
        """Hand on what has happened until now."""
        if self.native is None:
            return
        events = self.native.events()
        self._count(events)
        for progress in events.progress:
            lender = self._lenders.get(progress.connection)
            if lender is not None:
                lender.went_on(progress.begun_count, progress.done_count, progress.answers)
        for failed in events.failures:
            self._fail(failed)
        for unread in events.unread:
            lender = self._lenders.get(unread.connection)
            if lender is not None:
                lender.side.read(unread.data)
        for number in events.due:
            self._take_back(number)
        for line in events.lines:
            self._log(line.level, line.facility, line.text)

    def _fail(self, failed: Failed) -> None:
        error = self._error_of(failed.request_code, failed.error_number)
        if failed.request_code == codes.END_TRANSACTION:
            self._observer.end_refused(error.code)
        else:
            self._observer.prepare_refused(error.code)
        lender = self._lenders.get(failed.connection)
        if lender is not None:
            lender.failed(failed, error)

    def _count(self, events: Events) -> None:
        stats, observer = self._stats, self._observer
        prepared, committed, rolled_back = (
            events.prepared_s,
            events.committed_s,
            events.rolled_back_s,
        )
        stats.answered(codes.SEND_MESSAGE_V2, codes.SUCCESS, len(prepared))
        stats.answered(codes.END_TRANSACTION, codes.SUCCESS, len(committed) + len(rolled_back))
        stats.native_count += len(prepared) + len(committed) + len(rolled_back)
        if prepared:
            observer.all_prepared(prepared)
        for passed_s, traceparent in events.traced:
            self._traced(passed_s, traceparent)
        if committed:
            observer.all_ended(_COMMIT, _PRODUCER, committed)
        if rolled_back:
            observer.all_ended(_ROLLBACK, _PRODUCER, rolled_back)


class Lender:
    """One connection: its requests that are carried out natively, and its socket while it is lent.

    `refuse` makes the answer to what failed.
    """

    __slots__ = (
        "_in_flight_count",
        "_is_closed",
        "_lend_at_s",
        "_lending",
        "_loop",
        "_number",
        "_refuse",
        "_transport",
        "bars_reading",
        "held_bytes",
        "side",
    )

    def __init__(
        self,
        lending: Lending,
        side: LoopSide,
        refuse: Callable[[Frame, BaseException], bytes | None],
    ) -> None:
        self._lending = lending
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._in_flight_count = 0
        self._is_closed = False
        self._transport: asyncio.Transport | None = None  # while its socket is lent
        self._lend_at_s = 0.0
        self.side = side
        #: The transport must not read: its socket is lent, or what came over it while it was has
        #: still to be read.
        self.bars_reading = False
        #: Of a frame that is not complete.
        self.held_bytes = 0

    @property
    def is_connected(self) -> bool:
        """Whether bytes are to be given to `feed` first."""
        return self._number != 0

    def allow(self, send: Send, group: str, topic: str, any_id: str) -> None:
        """Messages like this one may go the native way; `any_id` is one of the connection's."""
        if self._is_closed:
            return
        if not self._number:
            self._number = self._lending.connect(self, any_id[:-_POSITION_DIGITS])
        if self._number:
            self._lending.allow(self._number, send, group, topic)

    def feed(self, data: bytes, room: int) -> bytes:
        """What is given back, when at most `room` requests may be begun."""
        lending = self._lending
        if lending.native is None:
            return data
        fed = lending.native.feed(self._number, data, max(0, room))
        self.held_bytes = fed.held_bytes
        self._begun(fed.begun_count)
        return fed.rest

    # The socket.

    @property
    def is_lent(self) -> bool:
        """Whether native threads read and write it."""
        return self._transport is not None

    @property
    def may_lend(self) -> bool:
        """Whether it is time to."""
        return not self.bars_reading and self._loop.time() >= self._lend_at_s

    def lend(self, transport: asyncio.Transport, rooms: tuple[int, int]) -> None:
        """Have the socket read and written natively, until `take_back`.

        With at most so many requests in flight: of this connection, of all. Nothing may wait to
        be written by the transport, or two would write into each other's frames.
        """
        lending, socket = self._lending, transport.get_extra_info("socket")
        self._lend_at_s = self._loop.time() + _BETWEEN_LOANS_S
        if socket is None or lending.native is None:
            return
        transport.pause_reading()
        if lending.native.lend(self._number, socket.fileno(), rooms):
            self._transport = transport
            self.bars_reading = True
        else:
            transport.resume_reading()

    def take_back(self) -> None:
        """The socket is the transport's again, if it is lent."""
        transport, native = self._transport, self._lending.native
        if transport is None:
            return
        self._transport = None
        self._lend_at_s = self._loop.time() + _BETWEEN_LOANS_S
        if native is not None:
            taken = native.take_back(self._number)
            self.held_bytes = taken.held_bytes
            if taken.unsent and not transport.is_closing():
                transport.write(taken.unsent)
            self._begun(taken.begun_count)
        self._loop.call_soon(self._taken_back)

    def _taken_back(self) -> None:
        self.catch_up()  # what came before is read before what comes now
        self.bars_reading = False
        self.side.read_on()

    def catch_up(self) -> None:
        """Have what came over the socket while it was lent read now."""
        self._lending.catch_up()

    def write(self, content: bytes) -> None:
        """What is not answered natively; while the socket is lent."""
        if self._lending.native is not None:
            self._lending.native.write(self._number, content)

    # What comes back.

    def _begun(self, count: int) -> None:
        if count:
            self._in_flight_count += count
            self.side.begun(count)

    def went_on(self, begun_count: int, done_count: int, answers: bytes) -> None:
        """So many requests came over its lent socket, so many are done, with these answers."""
        self._begun(begun_count)
        self._done(done_count, answers)

    def failed(self, failed: Failed, error: HalfHitchError) -> None:
        """One request could not be carried out."""
        frame = request(
            failed.request_code,
            failed.opaque,
            flag=codes.ONE_WAY_FLAG if failed.request_code == codes.END_TRANSACTION else 0,
            form=Form.JSON if failed.is_json else Form.BINARY,
        )
        self._done(1, self._refuse(frame, error) or b"")

    def _done(self, count: int, answers: bytes) -> None:
        self._in_flight_count -= count
        self.side.done(count, answers)
        self._leave_if_over()

    def close(self) -> None:
        """The connection is gone; what is under way is carried out, and counted until then."""
        self.take_back()
        self._is_closed = True
        self._leave_if_over()

    def _leave_if_over(self) -> None:
        if self._is_closed and self._number and not self._in_flight_count:
            self._lending.disconnect(self._number)
            self._number = 0
