"""Single messages without a coroutine for each: prepare, end, and plain sends.

For doors whose protocol answers by number and takes thousands of requests a second on one
connection: there a task for each request would cost more than all the rest. Answers come by
callback. The rules are those of everybody else (admission, preparing, deciding).

Every method calls its `answer` exactly once, on the event loop, perhaps before it returns; none
raises. What `answer` raises is not looked at: it must not.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable
from functools import partial
from typing import Any

from halfhitch.core.model import (
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.errors import HalfHitchError, InvalidRequest, OutcomeUnknown
from halfhitch.ports import KafkaHeaders
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.deciding import Begun, Deciding, reused
from halfhitch.service.parts import Parts
from halfhitch.service.preparing import Preparing, digest
from halfhitch.service.reasons import kept_reason
from halfhitch.wire.handle import Handle

#: Half partition, half offset, transaction id; or why the message is (perhaps) not stored.
OnPrepared = Callable[[tuple[int, int, str] | HalfHitchError], None]
#: None: the decision is durable.
OnEnded = Callable[[HalfHitchError | None], None]
#: Partition and offset in the topic.
OnSent = Callable[[tuple[int, int] | HalfHitchError], None]


class Singles:
    """See the module's text."""

    def __init__(self, parts: Parts, preparing: Preparing, deciding: Deciding) -> None:
        self._parts = parts
        self._preparing = preparing
        self._deciding = deciding
        self._now_s = parts.clock.monotonic_s
        #: Whoever else takes single messages in this process: False when another message was taken
        #: there under the id, else this one holds it now, too. (Also when it then cannot be stored:
        #: RocketMQ's clients repeat what they have sent.)
        self.elsewhere: Callable[[Identity, int], bool] | None = None
        #: The loop holds tasks only weakly.
        self._learning: set[asyncio.Task[None]] = set()

    # -- prepare ---------------------------------------------------------------------------------

    def prepare(
        self,
        producer_group: str,
        message: OutgoingMessage,
        transaction_id: str | None,
        immunity_s: int | None,
        answer: OnPrepared,
        *,
        place: bytes | None = None,
    ) -> None:
        """Store one message, invisible. Errors as of service.api.Transactions.prepare.

        `place` decides on the half partition instead of key and id; a function of the id alone.
        """
        parts = self._parts
        try:
            parts.admission.check_names(producer_group, transaction_id, immunity_s)
            if not parts.admission.check_message(message):
                again = partial(
                    self.prepare,
                    producer_group,
                    message,
                    transaction_id,
                    immunity_s,
                    answer,
                    place=place,
                )
                self._learn(message.topic, again, partial(self._prepare_refused, answer))
                return
            self._store(producer_group, message, transaction_id, immunity_s, answer, place)
        except HalfHitchError as error:
            self._prepare_refused(answer, error)

    def _store(
        self,
        producer_group: str,
        message: OutgoingMessage,
        transaction_id: str | None,
        immunity_s: int | None,
        answer: OnPrepared,
        place: bytes | None,
    ) -> None:
        parts, preparing = self._parts, self._preparing
        topics = (message.topic,)
        partition = preparing.partition_of(place or message.key, transaction_id, topics)
        identity = ProducerGroup(producer_group), TransactionId(transaction_id or parts.new_id())
        # A client's next try goes to another queue.
        says = digest(message, is_partition_chosen=False)
        if transaction_id is not None:
            self._deciding.refuse_rolled_back(partition, identity)
        preparing.admit(partition, identity, topics)
        if transaction_id is not None:
            preparing.claim(partition, identity, 0, (says,))
            if self.elsewhere is not None and not self.elsewhere(identity, says):
                raise reused(identity)
        stored = preparing.append(
            partition, identity, message, 0, immunity_s, parts.clock.wall_ms(), says
        )
        stored.add_done_callback(
            partial(
                self._stored, partition, identity, transaction_id is None, self._now_s(), answer
            )
        )

    def _stored(
        self,
        partition: int,
        identity: Identity,
        is_id_ours: bool,  # noqa: FBT001 - one fact, of a callback
        began_s: float,
        answer: OnPrepared,
        stored: "Future[int]",
    ) -> None:
        error = stored.exception()
        if error is not None:
            error = _ours(error)
            self._preparing.failed(identity, 0, error)
            if is_id_ours and isinstance(error, OutcomeUnknown):
                # Nobody can ask again under this id: nobody was told of it.
                self._preparing.disown(partition, identity, 1, ())
            self._prepare_refused(answer, error)
            return
        parts = self._parts
        parts.observer.prepared(1, self._now_s() - began_s)
        parts.on_group(identity[0])
        answer((partition, stored.result(), identity[1]))

    def _prepare_refused(self, answer: OnPrepared, error: HalfHitchError) -> None:
        self._parts.observer.prepare_refused(error.code)
        answer(error)

    # -- end -------------------------------------------------------------------------------------

    def end(
        self,
        known: Handle,
        resolution: Resolution,
        source: ResolutionSource,
        answer: OnEnded,
        *,
        is_awaited: bool = True,
        reason: str | None = None,
    ) -> None:
        """Make a decision durable. Whether `known` speaks the truth is the door's to know.

        `is_awaited`: the answer goes to somebody who waits for it; `reason` is the producer's own
        remark. Errors as of service.api.Transactions.end.
        """
        began_s = self._now_s()
        identity = ProducerGroup(known.producer_group), TransactionId(known.transaction_id)
        try:
            self._parts.admission.check_names(*identity, None)
            if not 0 <= known.partition < self._preparing.partition_count:
                # Also while Kafka has not been reached; then `partition_of` says so.
                self._preparing.partition_of(None, known.transaction_id)
                raise InvalidRequest(
                    f"there is no half partition {known.partition}: the offsets are not of a "
                    "message that was prepared here"
                )
            begun = self._deciding.begin(
                known, identity, resolution, source, kept_reason(reason), is_awaited=is_awaited
            )
        except HalfHitchError as error:
            self._deciding.refused(identity, source, error)
            answer(error)
            return
        if begun is None:
            self._concluded(identity, resolution, source, began_s, answer)
        else:
            begun.stored.add_done_callback(partial(self._decided, begun, source, began_s, answer))

    async def end_surely(
        self,
        known: Handle,
        resolution: Resolution,
        source: ResolutionSource,
        *,
        reason: str | None = None,
    ) -> None:
        """`end`, and the truth about it even if the message was not read back yet.

        Errors as of service.api.Transactions.end.
        """
        answered: Future[HalfHitchError | None] = asyncio.get_running_loop().create_future()
        self.end(
            known,
            resolution,
            source,
            lambda error: None if answered.done() else answered.set_result(error),
            reason=reason,
        )
        error = await answered
        if error is not None:
            raise error
        identity = ProducerGroup(known.producer_group), TransactionId(known.transaction_id)
        try:
            await self._deciding.confirm(known, identity, resolution)
        except HalfHitchError as refusal:
            self._deciding.refused(identity, source, refusal)
            raise

    def _decided(
        self,
        begun: Begun,
        source: ResolutionSource,
        began_s: float,
        answer: OnEnded,
        stored: "Future[int]",
    ) -> None:
        error = stored.exception()
        if error is None:
            try:
                begun.check()
            except HalfHitchError as refusal:
                error = refusal
        if error is None:
            self._concluded(begun.identity, begun.requested, source, began_s, answer)
        else:
            error = _ours(error)
            self._deciding.refused(begun.identity, source, error)
            answer(error)

    def _concluded(
        self,
        identity: Identity,
        resolution: Resolution,
        source: ResolutionSource,
        began_s: float,
        answer: OnEnded,
    ) -> None:
        parts = self._parts
        parts.on_decided(identity, resolution, source)
        parts.observer.ended(resolution, source, self._now_s() - began_s)
        answer(None)

    def read_handle(self, text: str) -> Handle:
        """What a handle names. Raises InvalidHandle."""
        return self._parts.handles.decode(text)

    # -- plain sends -----------------------------------------------------------------------------

    def send(self, message: OutgoingMessage, further: KafkaHeaders, answer: OnSent) -> None:
        """Append to the real topic at once, in no transaction. No promise but Kafka's own.

        `further` are headers that a user may not give and the door has to.
        """
        parts = self._parts
        try:
            if not parts.admission.check_message(message):
                again = partial(self.send, message, further, answer)
                self._learn(message.topic, again, answer)
                return
            self._preparing.partition_of(None, "")  # raises until Kafka has been reached
            sent = parts.log.append_message(
                message.topic,
                message.partition,
                message.key,
                message.value,
                message.headers + further,
            )
        except HalfHitchError as error:
            answer(error)
            return
        sent.add_done_callback(partial(_sent, answer))

    # -- topics that are not known here yet ------------------------------------------------------

    def _learn(
        self,
        topic: str,
        again: Callable[[], None],
        refused: Callable[[HalfHitchError], None],
    ) -> None:
        task = asyncio.ensure_future(self._learned(topic, again, refused))
        self._learning.add(task)
        task.add_done_callback(self._learning.discard)

    async def _learned(
        self,
        topic: str,
        again: Callable[[], None],
        refused: Callable[[HalfHitchError], None],
    ) -> None:
        try:
            await self._parts.admission.learn(topic)
        except Exception as error:  # noqa: BLE001 (somebody waits for an answer)
            refused(_ours(error))
        else:
            again()


def _sent(answer: OnSent, sent: "Future[tuple[int, int]]") -> None:
    error = sent.exception()
    answer(sent.result() if error is None else _ours(error))


def _ours(error: Any) -> HalfHitchError:
    """A bug of ours looks like one to the caller, and ends in the log by its trace."""
    if isinstance(error, HalfHitchError):
        return error
    failure = HalfHitchError(f"Half Hitch made a mistake ({type(error).__name__}); see its log")
    failure.__cause__ = error
    return failure
