"""Requests of the data door that go the native way: the loop's side of it.

After a prepare of one message (a raw half, or JSON) or an end that was answered here the
connection's socket is lent to the native carrier, if nothing else is going on over it. Native
threads then read requests of these kinds, in their usual form, append them to Kafka and answer
them, one at a time as HTTP wants it. Whatever has anything unusual about it ends the loan: the
socket is taken back with the bytes that were read, and goes on here as if they had just come. A
second later it may be lent again.

Halves are taken natively for groups and topics that this door has stored one for, as long as
nothing of them is refused. Of a name that a caller gives more may be known, from before a restart
or of another instance; so native threads ask about each before they store it, many at a time, and
what is known in any way goes on here. Ends are taken of transactions of one message that were
prepared in this process moments ago, that nobody in it has looked at since, and of which no owner
in it has read a decision. So what can be refused is judged in one place. A check is a look, too
(`Lending.decisions`): before it goes out it asks whether an end is under way, and from then on
the end of that transaction is the loop's.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from halfhitch.core.model import (
    DecisionRead,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.doors.http.errors import error_reply
from halfhitch.doors.http.load import Load
from halfhitch.doors.http.native import Asked, Events, Failed, Native
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.unended import Unended
from halfhitch.errors import HalfHitchError, OutcomeUnknown
from halfhitch.ports import Observer
from halfhitch.service.api import Prepared
from halfhitch.service.transactions.asked import Elsewhere
from halfhitch.service.transactions.remembered import Forgotten, read_to

logger = logging.getLogger(__name__)

#: Told of answers of one kind: route name, status, the seconds of each.
OnRequests = Callable[[str, int, Sequence[float]], None]

#: Before a socket that was taken back is lent again; after loans that were to no use longer.
_BETWEEN_LOANS_S: Final = 1.0
_USELESS_FACTOR_MAX: Final = 64.0
#: Groups and topics whose halves go the native way: more are not remembered.
_PAIRS_MAX: Final = 1_000
_HALF: Final = "half"
_PREPARE: Final = "prepare"
_ROUTES: Final = frozenset({_HALF, "commit", "rollback"})
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK
_PRODUCER: Final = ResolutionSource.PRODUCER


def is_usual(request: Request) -> bool:
    """Whether the next requests after this one may well go the native way."""
    # The end of what has a name already is left to the loop, and would end the loan at once, as
    # would the end of several messages.
    name = request.route_name
    if name == _PREPARE:
        is_of_kind = request.has_stored_one
    else:
        is_named = name == _HALF and b"half-transaction-id" in request.half
        is_of_kind = name in _ROUTES and not request.options and not is_named
    return is_of_kind and request.is_http_11 and b"host" in request.fields


class Side(Protocol):
    """The connection, as its loan needs it."""

    def took_back(self, held: bytes, *, is_busy: bool) -> None:
        """The socket is back; `held` came over it and is to be read. `is_busy`: a request is under
        way, and `answered` will be called."""
        ...

    def answered(self, reply: bytes, route_name: str | None) -> None:
        """The answer to the one that was under way. It is counted for this route, if any."""
        ...

    def was_active(self) -> None:
        """Requests were carried out."""
        ...


class Lending:
    """One for a door; used on the event loop."""

    def __init__(
        self,
        make_native: Callable[..., Native],
        *,
        observer: Observer,
        on_requests: OnRequests,
        partition_count: Callable[[], int],
        owner_read_to: Callable[[int], int | None],
        preferred_partition: Callable[[int], int],
        signer: Callable[[], tuple[bytes, bytes]],
        target_partitions: Callable[[str], int | None],
        is_free: Callable[[str, str], bool],
        is_open: Callable[[Prepared, str], bool],
        claim: Callable[[int, Identity, int], bool],
        unclaim: Callable[[Identity, HalfHitchError], None],
        disown: Callable[[int, Identity], None],
        error_of: Callable[[str, int], HalfHitchError],
        traced: Callable[[float, bytes], None],
        log: Callable[[int, str, str], None],
    ) -> None:
        """`make_native` gets `wake`, the two ends of a pipe, and empties it when asked (`events`).

        `owner_read_to`: see DecisionLog. `signer`: two times nothing as long as it is not known.
        `is_free`: whether nothing of this group for this topic is refused. `is_open`: whether
        nothing is known of a decision about what this group has prepared. `claim`: whether nothing
        is known of a name, which stands for the message with this digest then; `unclaim`: that one
        could not be stored, or nobody can say. `disown`: what was perhaps stored under an id of
        ours that was told to nobody is to be rolled back.
        """
        self._make_native = make_native
        self._observer = observer
        self._on_requests = on_requests
        self._partition_count = partition_count
        self._owner_read_to = owner_read_to
        self._preferred_partition = preferred_partition
        self._signer = signer
        self._target_partitions = target_partitions
        self._is_free = is_free
        self._is_open = is_open
        self._claim = claim
        self._unclaim = unclaim
        self._disown = disown
        self._error_of = error_of
        self._traced = traced
        self._log = log
        self.native: Native | None = None  # while it runs
        self._ends = (-1, -1)
        self._room = 0
        self._load = Load()
        self._unended: Unended | None = None
        self._pairs: dict[tuple[str, str], None] = {}
        self._loans: dict[int, Loan] = {}
        self._number = 0
        self._is_leaving = False

    def start(self, load: Load, unended: Unended, room: int) -> None:
        """Begin; call on the loop. Where that fails everything goes the interpreted way.

        `room`: that many requests may be in flight.
        """
        self._load, self._unended, self._room = load, unended, room
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)
        try:
            self.native = self._make_native(wake=self._ends)
        except RuntimeError as error:
            logger.warning(
                "the native threads of the HTTP door do not start, so requests go the slower way: "
                "%s",
                error,
                extra={"action": "native_unused"},
            )
            self._close()
            return
        asyncio.get_running_loop().add_reader(self._ends[0], self._woken)
        logger.info(
            "prepares of one message, and ends, over HTTP go the native way",
            extra={"action": "native_used"},
        )
        load.native = self.native
        self.look()

    def look(self) -> None:
        """Every half of a second or so."""
        native = self.native
        if native is None:
            return
        count = self._partition_count()
        preferred = self._preferred_partition(count) if count else 0
        native.open(count, preferred, *self._signer())
        native.owners_read(read_to(count, self._owner_read_to))
        self._allow(native)
        for number in native.lingering():
            self._take_back(number)

    def leave(self) -> None:
        """The door is stopping: nothing is lent any more."""
        self._is_leaving = True
        for number in list(self._loans):
            self._take_back(number)
        self.catch_up()

    async def stop(self, drain_s: float) -> None:
        """Wait for what is in flight, tell of it, end."""
        if self.native is None:
            return
        self.leave()
        await asyncio.to_thread(self.native.stop, drain_s)
        if self.native is None:
            return  # somebody else has stopped it meanwhile
        self.catch_up()
        asyncio.get_running_loop().remove_reader(self._ends[0])
        self.native = self._load.native = None
        self._close()

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)

    # -- what goes the native way ----------------------------------------------------------------

    def stored(
        self,
        group: str,
        topic: str,
        prepared: Prepared,
        *,
        named: str | None,
        age_s: float,
        immunity_s: int | None,
    ) -> None:
        """The service has just stored this half, which came `age_s` ago; `named`: as its caller
        calls the transaction."""
        native = self.native
        if native is None:
            return
        pair = group, topic
        if pair not in self._pairs:
            if len(self._pairs) >= _PAIRS_MAX:
                del self._pairs[next(iter(self._pairs))]  # back with its next half, if it is used
            self._pairs[pair] = None
            self._allow(native)
        if named is not None or len(prepared.half_offsets) != 1:
            return
        unique, (half_offset,) = prepared.transaction_id, prepared.half_offsets
        native.opened(group, unique, half_offset, age_s, immunity_s)
        # Whoever has decided it before that was heard of as it was not open yet.
        if not self._is_open(prepared, group):
            native.heard([(group, unique)])

    def _allow(self, native: Native) -> None:
        native.allow(
            [
                pair
                for pair in self._pairs
                if self._target_partitions(pair[1]) is not None and self._is_free(*pair)
            ]
        )

    def lend(self, loan: "Loan", socket: int, host: bytes) -> int:
        """The number of the new loan; 0: there is none."""
        native = self.native
        if native is None or self._is_leaving:
            return 0
        self._number += 1
        number = self._number
        native.connect(number, host)
        if not native.lend(number, socket, self._room):
            native.disconnect(number)
            return 0
        self._loans[number] = loan
        return number

    def ended(self, number: int) -> None:
        """Nothing of this loan is under way any more."""
        if self._loans.pop(number, None) is not None and self.native is not None:
            self.native.disconnect(number)

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

    def heard(self, read: Sequence[object] | None) -> None:
        """See service.transactions.op_appends.DecisionLog.on_read. From owners' threads."""
        native = self.native
        if native is None:
            return
        if read is None:
            native.close_all()
            return
        identities = [event.identity for event in read if isinstance(event, DecisionRead)]
        if identities:
            native.heard(identities)

    def tell_prepared(self) -> None:
        """Of all that was prepared natively until now, before one of these is told as ended."""
        native, unended = self.native, self._unended
        if native is not None and unended is not None:
            for transaction_id in native.prepared():
                unended.prepared(transaction_id)

    # -- what comes back -------------------------------------------------------------------------

    def _take_back(self, number: int) -> None:
        loan = self._loans.get(number)
        if loan is not None:
            loan.take_back()

    def _woken(self) -> None:
        native = self.native
        if native is None:
            return
        asked, has_more = native.asked()
        if asked:
            self._answer(native, asked)
        if has_more:
            self._hand_on(native)

    def catch_up(self) -> None:
        """Hand on what has happened until now."""
        native = self.native
        if native is None:
            return
        asked, _ = native.asked()
        self._answer(native, asked)
        self._hand_on(native)

    def _answer(self, native: Native, asked: Sequence[Asked]) -> None:
        """A name of which nothing is known stands for its message; all others are looked at here,
        as if they had just come."""
        claim = self._claim
        new: list[int] = []
        others: list[int] = []
        for number, partition, group, name, digest in asked:
            is_new = claim(partition, (ProducerGroup(group), TransactionId(name)), digest)
            (new if is_new else others).append(number)
        if new:
            native.store(new)
        for number in others:
            self._take_back(number)

    def _hand_on(self, native: Native) -> None:
        events = native.events()
        self._count(events)
        # First: who has failed waits for an answer of the loop's.
        for number in events.due:
            self._take_back(number)
        for progress in events.progress:
            loan = self._loans.get(progress.connection)
            if loan is not None:
                loan.went_on(progress.answers)
        for failed in events.failures:
            self._fail(failed)
        for line in events.lines:
            self._log(line.level, line.facility, line.text)

    def _fail(self, failed: Failed) -> None:
        error = self._error_of(failed.route, failed.error_number)
        if failed.route in (_HALF, _PREPARE):
            self._observer.prepare_refused(error.code)
            identity = ProducerGroup(failed.group), TransactionId(failed.transaction_id)
            if failed.is_named:
                self._unclaim(identity, error)
            elif isinstance(error, OutcomeUnknown):
                self._disown(failed.partition, identity)
        else:
            self._observer.end_refused(error.code)
        loan = self._loans.get(failed.connection)
        if loan is not None:
            loan.failed(error_reply(error), failed.route)

    def _count(self, events: Events) -> None:
        observer = self._observer
        for route, seconds in (_HALF, events.prepared_s), (_PREPARE, events.json_prepared_s):
            if seconds:
                observer.all_prepared(seconds)
                self._on_requests(route, 201, seconds)
        for passed_s, traceparent in events.traced:
            self._traced(passed_s, traceparent)
        for resolution, route, seconds in (
            (_COMMIT, "commit", events.committed_s),
            (_ROLLBACK, "rollback", events.rolled_back_s),
        ):
            if seconds:
                observer.all_ended(resolution, _PRODUCER, seconds)
                self._on_requests(route, 200, seconds)
        unended = self._unended
        if unended is not None:
            for transaction_id in events.prepared_ids:
                unended.prepared(transaction_id)
            for transaction_id in events.ended_ids:
                unended.ended(transaction_id)


class Loan:
    """Of one connection's socket, again and again."""

    __slots__ = (
        "_factor", "_is_used", "_lend_at_s", "_lending", "_loop", "_number", "_side", "_transport",
    )  # fmt: skip

    def __init__(self, lending: Lending, side: Side) -> None:
        self._lending = lending
        self._loop = asyncio.get_running_loop()
        self._number = 0  # while it is lent, or something of it is under way
        self._transport: asyncio.Transport | None = None  # while its socket is lent
        self._lend_at_s = 0.0
        self._is_used = False  # something was carried out since it was lent
        self._factor = 1.0
        self._side: Side | None = side  # None: the connection is gone

    @property
    def is_lent(self) -> bool:
        """Whether native threads read and write the socket."""
        return self._transport is not None

    def begin(self, transport: asyncio.Transport, host: bytes) -> None:
        """Have the socket read and written natively, until `take_back`.

        Nothing may wait to be written by the transport, or to be read, or be under way.
        """
        socket, now_s = transport.get_extra_info("socket"), self._loop.time()
        if self._number or socket is None or now_s < self._lend_at_s:
            return
        self._lend_at_s = now_s + _BETWEEN_LOANS_S
        transport.pause_reading()
        self._number = self._lending.lend(self, socket.fileno(), host)
        if self._number:
            self._transport, self._is_used = transport, False
        else:
            transport.resume_reading()

    def take_back(self) -> None:
        """The socket is the transport's again, if it is lent."""
        transport, native = self._transport, self._lending.native
        if transport is None or native is None:
            return
        self._transport = None
        taken = native.take_back(self._number)
        # Of whoever sends what is not for there: each loan costs him something.
        is_used = self._is_used or taken.begun_count > 0
        self._factor = 1.0 if is_used else min(2 * self._factor, _USELESS_FACTOR_MAX)
        self._lend_at_s = self._loop.time() + self._factor * _BETWEEN_LOANS_S
        if not taken.is_busy:
            self._ended()
        side = self._side
        if side is None or transport.is_closing():
            return
        if taken.unsent:
            transport.write(taken.unsent)
        transport.resume_reading()
        side.took_back(taken.held, is_busy=taken.is_busy)

    def close(self) -> None:
        """The connection is gone, or going; what is under way is carried out all the same."""
        self._side = None
        self.take_back()

    def went_on(self, answers: bytes) -> None:
        """Requests were carried out; `answers` are for the loop to write."""
        self._is_used = True
        if self._side is not None:
            self._side.was_active()
        if answers:
            self._answer(answers, None)

    def failed(self, reply: bytes, route_name: str) -> None:
        """The one that was under way could not be carried out."""
        self._answer(reply, route_name)

    def _answer(self, reply: bytes, route_name: str | None) -> None:
        self._ended()
        if self._side is not None:
            self._side.answered(reply, route_name)

    def _ended(self) -> None:
        number, self._number = self._number, 0
        self._lending.ended(number)
