"""The transaction service: prepare, add, end, view. Every door calls it; it knows no door.

Any instance serves any request: a prepare goes into the half log, a decision into the op log, and
whoever owns the partition does the rest. The handle carries all that an end needs.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    BackendError,
    HalfHitchError,
    InvalidRequest,
    OutcomeUnknown,
    TransactionParked,
    VisibilityUnknown,
    WrongGroup,
)
from halfhitch.observer import Latency
from halfhitch.service.api import (
    STATE_AFTER,
    Ended,
    OutgoingMessage,
    Prepared,
    TransactionState,
    TransactionView,
)
from halfhitch.service.reasons import kept_reason
from halfhitch.service.transactions.dependencies import Dependencies
from halfhitch.service.transactions.end import (
    Deciding,
    committed_in_part,
    contrary,
    given_up,
    refuse_loser,
    reused,
)
from halfhitch.service.transactions.first import gone
from halfhitch.service.transactions.prepare import Preparing, digest
from halfhitch.service.transactions.single_sends import SingleSends
from halfhitch.wire.handle import TOPICS_MAX, Handle
from halfhitch.wire.seal import Seals
from halfhitch.wire.trace_parent import TRACE_PARENT, sampled_trace

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK
_ROLLBACK: Final = Resolution.ROLLBACK


class TransactionService:
    """service.api.Transactions over the logs."""

    def __init__(self, parts: Dependencies) -> None:
        self._parts = parts
        self._preparing = Preparing(parts)
        self._deciding = Deciding(parts, is_prepared_again=self._preparing.is_prepared_again)
        self.sends = SingleSends(parts, self._preparing)
        #: Whoever else takes messages of RocketMQ's clients in this process: False when another one
        #: was taken there under the id, else this one holds it now, too. (Also when it then cannot
        #: be stored: those clients repeat what they have sent.)
        self.claim_elsewhere: Callable[[Identity, int], bool] = lambda *_: True

    def open(self, partition_count: int) -> None:
        """The internal topics are verified: prepares are taken from now on."""
        self._preparing.open(partition_count)

    @property
    def partition_count(self) -> int:
        """As `open` said; 0 before."""
        return self._preparing.partition_count

    # -- prepare ---------------------------------------------------------------------------------

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
        partition_by: bytes | None = None,
        is_partition_chosen: bool = True,
    ) -> Prepared:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        try:
            parts.admission.check_names(producer_group, transaction_id, immunity_s)
            await parts.admission.check_messages(messages, 0)
            topics = [message.topic for message in messages]
            first = partition_by or messages[0].key
            partition = self._preparing.partition_of(first, transaction_id, topics)
            identity = (
                ProducerGroup(producer_group),
                TransactionId(transaction_id or parts.new_id()),
            )
            digests = [
                digest(message, is_partition_chosen=is_partition_chosen) for message in messages
            ]
            state = TransactionState.PENDING
            if transaction_id is not None:
                state = self._deciding.refuse_rolled_back(partition, identity)
            self._preparing.admit(partition, identity, topics)
            pause_s = parts.intake.pause_s(partition)
            if pause_s:
                await asyncio.sleep(pause_s)
                if transaction_id is not None:
                    state = self._deciding.refuse_rolled_back(partition, identity)
            size_bytes = parts.sizes.begins(messages)
            if transaction_id is not None:
                self._preparing.claim(partition, identity, 0, digests)
                if not (is_partition_chosen or self.claim_elsewhere(identity, digests[0])):
                    refusal = reused(identity)
                    self._preparing.failed(identity, 0, refusal)  # the other one may come here too
                    raise refusal
            half_offsets = await self._store(
                partition,
                identity,
                messages,
                digests,
                0,
                immunity_s,
                caller_knows_id=transaction_id is not None,
            )
            parts.sizes.stored(identity, size_bytes)
        except HalfHitchError as error:
            parts.observer.prepare_refused(error.code)
            raise
        self._tell_prepared(messages, parts.clock.monotonic_s() - began_s)
        parts.on_group(producer_group)
        handle = Handle(partition, *identity, half_offsets, _topics(messages))
        return Prepared(identity[1], parts.handles.encode(handle), state, partition, half_offsets)

    def is_open(self, prepared: Prepared, producer_group: str) -> bool:
        """Whether no decision is known here of what was prepared just now, and of one message."""
        identity = ProducerGroup(producer_group), TransactionId(prepared.transaction_id)
        partition, (half_offset,) = prepared.partition, prepared.half_offsets
        is_known = self._parts.decisions.is_known(partition, identity)
        standing = self._parts.owners.standing(partition, identity, half_offset)
        return not is_known and standing is not None and standing.resolution is None

    def claim_new(self, partition: int, identity: Identity, digest: int) -> bool:
        """See Preparing.claim_new."""
        return self._preparing.claim_new(partition, identity, digest)

    def unclaim(self, identity: Identity, error: HalfHitchError) -> None:
        """What `claim_new` was asked for could not be stored, or nobody can say."""
        self._preparing.failed(identity, 0, error)

    def disown(self, partition: int, identity: Identity) -> None:
        """Roll back what was perhaps stored elsewhere in this process, under a name of ours that
        nobody was told."""
        self._preparing.disown(partition, identity, 1, ())

    async def add(self, handle: str, messages: Sequence[OutgoingMessage]) -> Prepared:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        known = parts.handles.decode(handle)
        identity = _identity(known)
        try:
            await parts.admission.check_messages(messages, len(known.half_offsets))
            decided = self._deciding.decided(known, identity)
            if decided is _PARK:
                raise given_up(identity)
            if decided is not None:
                raise contrary(identity, decided, advice="; no message can be added to it")
            first_index = len(known.half_offsets)
            known_bytes = parts.owners.size_bytes(known.partition, identity)
            digests = [digest(message) for message in messages]
            is_repeat = self._preparing.is_repeat(identity, first_index, digests)
            size_bytes = parts.sizes.grows(identity, known_bytes, messages, is_repeat=is_repeat)
            self._preparing.claim(known.partition, identity, first_index, digests)
            stored = await self._store(
                known.partition,
                identity,
                messages,
                digests,
                first_index,
                None,
                caller_knows_id=True,
            )
            parts.sizes.stored(identity, size_bytes, has_grown=True)
        except HalfHitchError as error:
            parts.observer.prepare_refused(error.code)
            raise
        self._tell_prepared(messages, parts.clock.monotonic_s() - began_s)
        topics = _topics(messages, known.topics)
        grown = Handle(known.partition, *identity, known.half_offsets + stored, topics)
        return Prepared(
            identity[1],
            parts.handles.encode(grown),
            partition=known.partition,
            half_offsets=grown.half_offsets,
        )

    def _tell_prepared(self, messages: Sequence[OutgoingMessage], elapsed_s: float) -> None:
        parts = self._parts
        parts.observer.prepared(len(messages), elapsed_s)
        if messages[0].headers:
            self._tell_trace(sampled_trace(messages[0].headers), elapsed_s)

    def traced(self, elapsed_s: float, traceparent: bytes) -> None:
        """A prepare that was carried out elsewhere said this of its trace."""
        self._tell_trace(sampled_trace([(TRACE_PARENT, traceparent)]), elapsed_s)

    def _tell_trace(self, trace_id: str | None, elapsed_s: float) -> None:
        if trace_id is not None:
            parts = self._parts
            parts.observer.traced("prepare", elapsed_s, trace_id, parts.clock.wall_ms())

    async def _store(
        self,
        partition: int,
        identity: Identity,
        messages: Sequence[OutgoingMessage],
        digests: Sequence[int],
        first_index: int,
        immunity_s: int | None,
        *,
        caller_knows_id: bool,
    ) -> tuple[int, ...]:
        born_ms, append = self._parts.clock.wall_ms(), self._preparing.append
        futures = [
            append(partition, identity, message, index, immunity_s, born_ms, says)
            for index, (message, says) in enumerate(
                zip(messages, digests, strict=True), first_index
            )
        ]
        if len(futures) == 1:
            try:
                return (await futures[0],)
            except HalfHitchError as error:
                self._preparing.failed(identity, first_index, error)
                if not caller_knows_id and isinstance(error, OutcomeUnknown):
                    self._preparing.disown(partition, identity, first_index + 1, ())
                raise
        results = await asyncio.gather(*futures, return_exceptions=True)
        stored = tuple(r for r in results if isinstance(r, int))
        failures = [r for r in results if isinstance(r, BaseException)]
        if not failures:
            return stored
        for index, result in enumerate(results, first_index):
            if isinstance(result, BaseException):
                self._preparing.failed(identity, index, result)
        # Nobody else can ever have used an id of ours that was not told: what is left of it would
        # never be ended, so end it now. Under a caller's id this may be a repetition, also one that
        # is refused now: the first prepare may have been acknowledged, elsewhere and long ago, and
        # its local transaction have committed. The check-back settles that, as it settles a torso.
        definite = [f for f in failures if not isinstance(f, BackendError)]
        if first_index == 0 and not caller_knows_id:
            self._preparing.disown(partition, identity, len(messages), stored)
        unknown = [f for f in failures if isinstance(f, OutcomeUnknown)]
        raise (definite or unknown or failures)[0]

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
        trace_id: str | None = None,
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
            op_offset, extends = await self._decide(known, identity, resolution, source, reason)
            visible = (wait_visible or extends) and await self._visible(
                known, identity, resolution, op_offset
            )
        except HalfHitchError as error:
            self._deciding.refused(identity, source, error)
            raise
        elapsed_s = parts.clock.monotonic_s() - began_s
        parts.observer.ended(resolution, source, elapsed_s)
        if trace_id is not None:
            word: Latency = "commit" if resolution is _COMMIT else "rollback"
            parts.observer.traced(word, elapsed_s, trace_id, parts.clock.wall_ms())
        return Ended(identity[1], STATE_AFTER[resolution], visible)

    async def end_named(
        self,
        known: Handle,
        resolution: Resolution,
        *,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        is_awaited: bool = True,
        reason: str | None = None,
    ) -> None:
        """See service.api.Transactions."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        identity = _identity(known)
        try:
            parts.admission.check_names(*identity, None)
            if not 0 <= known.partition < self._preparing.partition_count:
                # Also while Kafka has not been reached; then `partition_of` says so.
                self._preparing.partition_of(None, known.transaction_id)
                raise InvalidRequest(
                    f"there is no half partition {known.partition}: the offsets are not of a "
                    "message that was prepared here"
                )
            await self._decide(
                known, identity, resolution, source, reason, is_awaited=is_awaited, is_named=True
            )
        except HalfHitchError as error:
            self._deciding.refused(identity, source, error)
            raise
        parts.observer.ended(resolution, source, parts.clock.monotonic_s() - began_s)

    async def _decide(
        self,
        known: Handle,
        identity: Identity,
        resolution: Resolution,
        source: ResolutionSource,
        reason: str | None,
        *,
        is_awaited: bool = True,
        is_named: bool = False,
    ) -> tuple[int, bool]:
        """The decision is durable: its op offset, and whether it extends an equal one.

        Offset 0: an equal one stood already. `is_named`: no handle says that the transaction
        exists.
        """
        begun = self._deciding.begin(
            known, identity, resolution, source, kept_reason(reason), is_awaited=is_awaited
        )
        op_offset, extends = 0, False
        if begun is not None:
            op_offset = await begun.stored
            is_unsure = is_awaited and begun.is_disputed
            # Nobody waits: its owner knows what is forgotten here, and puts a loser on record.
            if not is_unsure and (is_awaited or not begun.is_late):
                begun.check()
            if is_unsure or (is_awaited and is_named and not self._is_known(known)):
                # What has a handle exists, and its owner will know it.
                is_patient = not is_named or self._parts.owners.works(known.partition)
                extends = await self._deciding.confirm(
                    known, identity, resolution, op_offset, is_patient=is_patient
                )
            extends = extends or begun.extends
        self._parts.on_decided(identity, resolution, source)
        return op_offset, extends

    def _is_known(self, known: Handle) -> bool:
        """Whether an owner here knows the transaction."""
        standing = self._parts.owners.standing(
            known.partition, _identity(known), known.half_offsets[0]
        )
        return standing is not Standing.UNKNOWN

    async def _visible(
        self, known: Handle, identity: Identity, resolution: Resolution, op_offset: int
    ) -> bool:
        """Wait until the done mark is committed, and readers can see that.

        ContraryDecision when the other side won, TransactionReused when the other messages did.
        """
        parts, partition = self._parts, known.partition
        news = parts.visibility.wait(partition, identity, op_offset)
        try:
            # Asked only after waiting has begun: a step committed in between is seen by one of
            # both.
            standing = parts.owners.standing(partition, identity, known.half_offsets[0])
            ending = None if standing is None else standing.ending
            if standing is Standing.COMMITTED:
                ending = parts.owners.covered_count(partition, identity)
            if ending is None:
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
        # The owner reads the half before the decision that names it: by now he knows.
        self._deciding.refuse_reused(known, identity)
        if parts.visibility.is_reused(partition, op_offset, identity):
            raise reused(identity)
        if ending == GIVEN_UP:
            raise given_up(identity)
        won = _ROLLBACK if ending == ROLLED_BACK else _COMMIT
        refuse_loser(identity, won, resolution)
        if ending == PARKED:
            raise TransactionParked(
                f"transaction {identity[1]} is committed, but one of its topics does not take the "
                "message: all its messages lie on the parked topic, with the reason"
            )
        if 0 < ending < len(known.half_offsets) and resolution is _COMMIT:
            raise committed_in_part(identity)
        if resolution is _COMMIT:
            await self._parts.markers.settled(known.topics)
        return True

    def identify(self, handle: str) -> Identity:
        """See service.api.Transactions."""
        return _identity(self._parts.handles.decode(handle))

    def read_handle(self, handle: str) -> Handle:
        """See service.api.Transactions."""
        return self._parts.handles.decode(handle)

    def seals(self) -> Seals:
        """See service.api.Transactions."""
        return self._parts.handles.seals

    def signer(self) -> tuple[bytes, bytes]:
        """What handles are signed with: see wire.handle.HandleCodec."""
        return self._parts.handles.signer

    # -- view ------------------------------------------------------------------------------------

    async def view(self, handle: str) -> TransactionView:
        """See service.api.Transactions."""
        known = self._parts.handles.decode(handle)
        identity = _identity(known)
        owners, first = self._parts.owners, known.half_offsets[0]
        self._deciding.refuse_reused(known, identity)
        if owners.works(known.partition):
            standing = owners.standing(known.partition, identity, first)
            if standing is None:
                raise gone(identity)
            decided, carried_out = standing.resolution, standing.is_carried_out
            if decided is None:  # its owner has perhaps not read yet what was answered here
                decided = self._parts.decisions.stored(known.partition, identity)
            if decided is None:  # or has read it in between
                standing = owners.standing(known.partition, identity, first) or standing
                decided, carried_out = standing.resolution, standing.is_carried_out
            is_parked = standing.is_parked
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


def _topics(messages: Sequence[OutgoingMessage], before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The distinct topics; too many to carry are carried as none: nobody waits for them then."""
    if len(messages) == 1 and not before:
        return (messages[0].topic,)
    topics = tuple(dict.fromkeys([*before, *(message.topic for message in messages)]))
    return topics if len(topics) <= TOPICS_MAX else ()


def _identity(handle: Handle) -> Identity:
    return ProducerGroup(handle.producer_group), TransactionId(handle.transaction_id)
