"""The transaction service: prepare, add, end, view. Every door calls it; it knows no door.

Any instance serves any request: a prepare goes into the half log, a decision into the op log, and
whoever owns the partition does the rest. The handle carries all that an end needs.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    Standing,
    TransactionId,
)
from halfhitch.core.partitioning import half_partition
from halfhitch.errors import (
    BackendError,
    ContraryDecision,
    HalfHitchError,
    KafkaUnavailable,
    OutcomeUnknown,
    RequestError,
    TransactionGone,
    TransactionParked,
    VisibilityUnknown,
    WrongGroup,
)
from halfhitch.ports import Clock, Markers, Observer, RecordLog
from halfhitch.service.admission import Admission
from halfhitch.service.api import (
    STATE_AFTER,
    Ended,
    OutgoingMessage,
    Prepared,
    TransactionState,
    TransactionView,
)
from halfhitch.service.decisions import Decision, DecisionLog, UnderWay
from halfhitch.service.visibility import Visibility
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.handle import TOPICS_MAX, Handle, HandleCodec

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK

_DECIDED_AS: Final = {
    Standing.COMMITTING: Resolution.COMMIT,
    Standing.COMMITTED: Resolution.COMMIT,
    Standing.PARKED: Resolution.COMMIT,
    Standing.ROLLING_BACK: Resolution.ROLLBACK,
    Standing.ROLLED_BACK: Resolution.ROLLBACK,
    Standing.GIVING_UP: Resolution.PARK,
    Standing.GIVEN_UP: Resolution.PARK,
}
#: What a done mark says, for those that nothing is left to do for.
_CARRIED_OUT: Final = {
    Standing.COMMITTED: 1,
    Standing.ROLLED_BACK: ROLLED_BACK,
    Standing.PARKED: PARKED,
    Standing.GIVEN_UP: GIVEN_UP,
}


class Owners(Protocol):
    """The half partitions this instance owns."""

    def preferred_partition(self, partition_count: int) -> int:
        """Where a message goes that may go anywhere."""
        ...

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        """What the owner here knows; UNKNOWN also when the partition is not worked on here.

        None: it was read here and ended longer ago than is remembered.
        """
        ...

    def checked(self, partition: int, identity: Identity) -> tuple[int, float | None, str | None]:
        """Of a pending transaction: check count, seconds until the next, the last answer."""
        ...

    def works(self, partition: int) -> bool:
        """Whether this instance owns the partition and has taken it over."""
        ...


class Inquiry(Protocol):
    """Looks a transaction up in the logs, for instances that do not own its partition."""

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        """First decision, if any, and whether it is carried out. Raises TransactionGone."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service is made of."""

    log: RecordLog
    decisions: DecisionLog
    admission: Admission
    owners: Owners
    visibility: Visibility
    inquiry: Inquiry
    markers: Markers
    handles: HandleCodec
    observer: Observer
    clock: Clock
    new_id: Callable[[], str]
    instance: str
    visible_wait_s: float
    #: Told of every end: a check of this transaction need not wait any longer. None: it was decided
    #: before, whatever this caller says.
    on_decided: Callable[[Identity, Resolution | None, ResolutionSource], None]
    #: Told of every group that prepares.
    on_group: Callable[[str], None]


class TransactionService:
    """service.api.Transactions over the logs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._log = parts.log
        self._partition_count = 0

    def open(self, partition_count: int) -> None:
        """The internal topics are verified: prepares are taken from now on."""
        self._partition_count = partition_count

    # -- prepare ---------------------------------------------------------------------------------

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        try:
            parts.admission.check_names(producer_group, transaction_id, immunity_s)
            await parts.admission.check_messages(messages, 0)
            partition = self._partition(messages[0].key, transaction_id)
            identity = (
                ProducerGroup(producer_group),
                TransactionId(transaction_id or parts.new_id()),
            )
            if transaction_id is not None:
                self._refuse_rolled_back(partition, identity)
            half_offsets = await self._store(
                partition,
                identity,
                messages,
                0,
                immunity_s,
                caller_knows_id=transaction_id is not None,
            )
        except HalfHitchError as error:
            parts.observer.prepare_refused(error.code)
            raise
        parts.observer.prepared(len(messages), parts.clock.monotonic_s() - began_s)
        parts.on_group(producer_group)
        handle = Handle(partition, *identity, half_offsets, _topics(messages))
        return Prepared(identity[1], parts.handles.encode(handle))

    async def add(self, handle: str, messages: Sequence[OutgoingMessage]) -> Prepared:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        known = parts.handles.decode(handle)
        identity = _identity(known)
        try:
            await parts.admission.check_messages(messages, len(known.half_offsets))
            decided = self._decided(known, identity)
            if decided is _PARK:
                raise _given_up(identity)
            if decided is not None:
                raise ContraryDecision(
                    f"transaction {identity[1]} is already {STATE_AFTER[decided].value}; no "
                    "message can be added to it",
                    decided=STATE_AFTER[decided].value,
                    requested=TransactionState.PENDING.value,
                )
            first_index = len(known.half_offsets)
            stored = await self._store(
                known.partition, identity, messages, first_index, None, caller_knows_id=True
            )
        except HalfHitchError as error:
            parts.observer.prepare_refused(error.code)
            raise
        parts.observer.prepared(len(messages), parts.clock.monotonic_s() - began_s)
        topics = _topics(messages, known.topics)
        grown = Handle(known.partition, *identity, known.half_offsets + stored, topics)
        return Prepared(identity[1], parts.handles.encode(grown))

    def _partition(self, first_key: bytes | None, transaction_id: str | None) -> int:
        count = self._partition_count
        if count == 0:
            raise KafkaUnavailable("the coordinator has not reached Kafka yet; see /readyz")
        partition = half_partition(first_key, transaction_id, count)
        return self._parts.owners.preferred_partition(count) if partition is None else partition

    def _refuse_rolled_back(self, partition: int, identity: Identity) -> None:
        """A prepare under an id that was rolled back would be acknowledged and then dropped."""
        standing = self._parts.owners.standing(partition, identity, -1)
        if standing is not None and _DECIDED_AS.get(standing) is _ROLLBACK:
            raise ContraryDecision(
                f"transaction {identity[1]} is already rolled back; prepare again under a new id",
                decided=TransactionState.ROLLED_BACK.value,
                requested=TransactionState.PENDING.value,
            )

    async def _store(
        self,
        partition: int,
        identity: Identity,
        messages: Sequence[OutgoingMessage],
        first_index: int,
        immunity_s: int | None,
        *,
        caller_knows_id: bool,
    ) -> tuple[int, ...]:
        group, transaction_id = identity
        born_ms = self._parts.clock.wall_ms()
        instance, append = self._parts.instance, self._log.append_half
        futures = []
        for index, message in enumerate(messages, first_index):
            record = HalfRecord(
                transaction_id,
                group,
                index,
                born_ms,
                instance,
                message.topic,
                message.partition,
                immunity_s,
            )
            headers = system_headers(record) + message.headers
            futures.append(append(partition, message.key, message.value, headers))
        if len(futures) == 1:
            try:
                return (await futures[0],)
            except HalfHitchError as error:
                if not caller_knows_id and isinstance(error, OutcomeUnknown):
                    self._disown(partition, identity, first_index + 1, ())
                raise
        results = await asyncio.gather(*futures, return_exceptions=True)
        stored = tuple(r for r in results if isinstance(r, int))
        failures = [r for r in results if isinstance(r, BaseException)]
        if not failures:
            return stored
        # A caller who can ask again with the same id completes what is there. Who cannot, or would
        # be refused again, leaves a torso that nobody will ever end: end it now.
        definite = [f for f in failures if not isinstance(f, BackendError)]
        if first_index == 0 and (definite or not caller_knows_id):
            self._disown(partition, identity, len(messages), stored)
        unknown = [f for f in failures if isinstance(f, OutcomeUnknown)]
        raise (definite or unknown or failures)[0]

    def _disown(
        self, partition: int, identity: Identity, covered_count: int, stored: tuple[int, ...]
    ) -> None:
        """Roll back what may have been stored; without waiting, and without a second failure."""
        decision = Decision(
            identity,
            _ROLLBACK,
            covered_count,
            stored,
            ResolutionSource.PRODUCER,
            "prepare failed",
        )
        future = self._parts.decisions.append(partition, decision)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    # -- end -------------------------------------------------------------------------------------

    async def end(
        self,
        handle: str,
        resolution: Resolution,
        *,
        producer_group: str | None = None,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        wait_visible: bool = False,
        reason: str | None = None,
    ) -> Ended:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        identity: Identity | None = None
        try:
            known = parts.handles.decode(handle)
            if producer_group is not None and producer_group != known.producer_group:
                raise WrongGroup(
                    f"the transaction was prepared by group {known.producer_group!r}, "
                    f"not {producer_group!r}"
                )
            identity = _identity(known)
            op_offset = await self._decide(known, identity, resolution, source, reason)
            parts.on_decided(identity, resolution, source)
            visible = wait_visible and await self._carried_out(
                known, identity, resolution, op_offset
            )
        except HalfHitchError as error:
            parts.observer.end_refused(error.code)
            if identity is not None and isinstance(error, RequestError):
                parts.on_decided(
                    identity, None, source
                )  # by somebody else: nothing to ask any more
            raise
        parts.observer.ended(resolution, source, parts.clock.monotonic_s() - began_s)
        return Ended(identity[1], STATE_AFTER[resolution], visible)

    async def _decide(
        self,
        known: Handle,
        identity: Identity,
        resolution: Resolution,
        source: ResolutionSource,
        reason: str | None,
    ) -> int:
        """Make the decision durable; gives its op offset, 0 when an equal one lay there before."""
        parts = self._parts
        standing = parts.owners.standing(known.partition, identity, known.half_offsets[0])
        if standing is None:
            raise _gone(identity)
        decided = _DECIDED_AS.get(standing)
        if decided is resolution:
            return 0
        rival = parts.decisions.under_way(known.partition, identity)
        count = len(known.half_offsets)
        decision = Decision(identity, resolution, count, known.half_offsets, source, reason)
        # A decision that is known to lose is stored all the same: the owner puts it on record.
        op_offset = await parts.decisions.append(known.partition, decision)
        if decided is _PARK:
            raise _given_up(identity)
        if decided is not None:
            raise _contrary(identity, decided, resolution)
        if rival is not None and rival.resolution is not resolution:
            _refuse_loser(identity, rival, resolution)
        return op_offset

    async def _carried_out(
        self, known: Handle, identity: Identity, resolution: Resolution, op_offset: int
    ) -> bool:
        """Wait until the done mark is committed; ContraryDecision when the other side won."""
        parts, partition = self._parts, known.partition
        news = parts.visibility.wait(partition, identity, op_offset)
        try:
            # Asked only after waiting has begun: a step committed in between is seen by one of
            # both.
            standing = parts.owners.standing(partition, identity, known.half_offsets[0])
            if standing in _CARRIED_OUT:
                ending = _CARRIED_OUT[standing]
            else:
                if not parts.owners.works(partition):
                    parts.visibility.follow(partition, op_offset)
                ending = await asyncio.wait_for(asyncio.shield(news), parts.visible_wait_s)
        except TimeoutError:
            raise VisibilityUnknown(
                f"transaction {identity[1]} is decided and durable, but was not seen to be carried "
                f"out within {parts.visible_wait_s:g} s; ask again or look at its status"
            ) from None
        finally:
            parts.visibility.give_up(partition, identity, news)
        if ending == GIVEN_UP:
            raise _given_up(identity)
        won = _ROLLBACK if ending == ROLLED_BACK else _COMMIT
        if won is not resolution:
            raise _contrary(identity, won, resolution)
        if ending == PARKED:
            raise TransactionParked(
                f"transaction {identity[1]} is committed, but one of its topics does not take the "
                "message: all its messages lie on the parked topic, with the reason"
            )
        if won is _COMMIT:
            await parts.markers.settled(known.topics)
        return True

    def identify(self, handle: str) -> Identity:
        """See service.api.Transactions."""
        return _identity(self._parts.handles.decode(handle))

    # -- view ------------------------------------------------------------------------------------

    async def view(self, handle: str) -> TransactionView:
        """See service.api.Transactions."""
        known = self._parts.handles.decode(handle)
        identity = _identity(known)
        owners, first = self._parts.owners, known.half_offsets[0]
        if owners.works(known.partition):
            standing = owners.standing(known.partition, identity, first)
            if standing is None:
                raise _gone(identity)
            decided, carried_out = _DECIDED_AS.get(standing), standing in _CARRIED_OUT
            is_parked = standing in (Standing.PARKED, Standing.GIVEN_UP)
        else:
            is_parked = False  # told as committed and not visible: the logs say where it lies
            decided, carried_out = await self._parts.inquiry.look_up(
                known.partition, identity, first
            )
        state = TransactionState.PENDING if decided is None else STATE_AFTER[decided]
        if is_parked:
            state = TransactionState.PARKED
        return TransactionView(
            identity[1],
            identity[0],
            state,
            len(known.half_offsets),
            carried_out and not is_parked,
            *owners.checked(known.partition, identity),
        )

    def _decided(self, known: Handle, identity: Identity) -> Resolution | None:
        """The decision as far as it is known here at once."""
        parts = self._parts
        standing = parts.owners.standing(known.partition, identity, known.half_offsets[0])
        if standing is None:
            raise _gone(identity)
        rival = parts.decisions.under_way(known.partition, identity)
        return _DECIDED_AS.get(standing) or (None if rival is None else rival.resolution)


def _topics(messages: Sequence[OutgoingMessage], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The distinct topics; too many to carry are carried as none: nobody waits for them then."""
    if len(messages) == 1 and not before:
        return (messages[0].topic,)
    topics = tuple(dict.fromkeys([*before, *(message.topic for message in messages)]))
    return topics if len(topics) <= TOPICS_MAX else ()


def _identity(handle: Handle) -> Identity:
    return ProducerGroup(handle.producer_group), TransactionId(handle.transaction_id)


def _given_up(identity: Identity) -> TransactionParked:
    return TransactionParked(
        f"transaction {identity[1]} was given up before: its messages lie on the parked topic. "
        "This decision is on record and counts when an operator puts it back (halfhitch parked "
        "resume)"
    )


def _gone(identity: Identity) -> TransactionGone:
    return TransactionGone(
        f"transaction {identity[1]} ended so long ago that how it ended is no longer known here"
    )


def _refuse_loser(identity: Identity, rival: UnderWay, requested: Resolution) -> None:
    """Our decision is stored, but a contrary one was under way before it."""
    if rival.is_stored:
        raise _contrary(identity, rival.resolution, requested)
    if rival.is_stored is None or isinstance(rival.error, OutcomeUnknown):
        first, later = STATE_AFTER[rival.resolution].value, STATE_AFTER[requested].value
        raise OutcomeUnknown(
            f"transaction {identity[1]} is {later}, unless the contrary request that was under way "
            f"before it ({first}) has reached the log: ask for its status"
        )


def _contrary(identity: Identity, decided: Resolution, requested: Resolution) -> ContraryDecision:
    first, later = STATE_AFTER[decided].value, STATE_AFTER[requested].value
    return ContraryDecision(
        f"transaction {identity[1]} is {first}: that decision came first and stands",
        decided=first,
        requested=later,
    )
