"""What each request means: from frames to the service, and back to bytes.

A request is answered at once with bytes, or later through its connection. Nothing here raises for
what a client sent: `Dispatcher.handle` turns every failure into an answer.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from halfhitch.core.model import ProducerGroup, Resolution, ResolutionSource, TransactionId
from halfhitch.doors.rocketmq import inflaters, messages, names
from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.errors import response_of
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.offsets import Address, commit_log_offset, handle_of
from halfhitch.doors.rocketmq.places import Places
from halfhitch.errors import HalfHitchError, InvalidRequest, Overloaded
from halfhitch.ports import KafkaHeaders
from halfhitch.service.admission import check_group, is_name
from halfhitch.service.checking.api import CheckDesk, CheckOutcome
from halfhitch.service.reasons import kept_reason
from halfhitch.service.singles import Singles
from halfhitch.wire import headers
from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting import codes, ending
from halfhitch.wire.remoting.ending import read_end
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import reply
from halfhitch.wire.remoting.heartbeats import read_heartbeat, read_unregister
from halfhitch.wire.remoting.ids import maker_of
from halfhitch.wire.remoting.requests import Frame, Send
from halfhitch.wire.remoting.sending import read_batch, read_send, sent_reply

logger = logging.getLogger(__name__)

_RESOLUTIONS: Final = {ending.COMMIT: Resolution.COMMIT, ending.ROLLBACK: Resolution.ROLLBACK}
_CHECK: Final = ResolutionSource.CHECK
_PRODUCER: Final = ResolutionSource.PRODUCER
#: Every client registers it, and nothing is ever prepared under it.
_INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
#: Answered, or dropped, while the door drains; the rest is sent elsewhere.
_ALWAYS_TAKEN: Final = frozenset({codes.END_TRANSACTION, codes.UNREGISTER_CLIENT})
_TRANSACTION_KEY: Final = headers.UNIQ_KEY


class Asker(Protocol):
    """The connection that a request came over."""

    @property
    def address(self) -> Address:
        """Where its client reaches us."""
        ...

    def begin(self) -> None:
        """A request is answered by one `finish`, later or just before."""
        ...

    def finish(self, frame: Frame, content: bytes) -> None:
        """The answer to a request that has begun."""
        ...

    def allow(self, send: Send, group: str, topic: str) -> None:
        """A message of this kind was stored: the next ones may go the native way."""
        ...

    def work(self, frame: Frame, work: Awaitable[bytes]) -> None:
        """Answer with what this gives, whenever that is; an error becomes an answer too."""
        ...

    def register(self, producer_group: str, *, has_namespace_field: bool) -> None:
        """Checks of the group may be asked over this connection."""
        ...

    def unregister(self, producer_group: str) -> None:
        """They may not any more."""
        ...


Handler = Callable[[Frame, Asker], bytes | None]


class Dispatcher:
    """One for a door."""

    def __init__(
        self,
        singles: Singles,
        desk: CheckDesk | None,
        places: Places,
        *,
        access: AccessControl,
        limits: Limits,
        load: Load,
        has_express: bool = False,
    ) -> None:
        self._has_express = has_express
        self._singles = singles
        self._desk = desk
        self._access = access
        self._limits = limits
        self._load = load
        self._stats = load.stats
        self._inflaters = inflaters.available()
        self._handlers: dict[int, Handler] = {
            codes.SEND_MESSAGE_V2: self._send,
            codes.SEND_MESSAGE: self._send,
            codes.SEND_BATCH_MESSAGE: self._send_batch,
            codes.END_TRANSACTION: self._end,
            codes.HEART_BEAT: self._heartbeat,
            codes.UNREGISTER_CLIENT: self._unregister,
            codes.GET_ROUTE_INFO_BY_TOPIC: places.route,
            codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: places.topics,
            codes.GET_BROKER_CLUSTER_INFO: places.cluster,
            codes.GET_MAX_OFFSET: places.max_offset,
            codes.UPDATE_AND_CREATE_TOPIC: places.create_topic,
        }

    def handle(self, frame: Frame, asker: Asker) -> bytes | None:
        """The answer, or None: it comes through `finish`, or nobody waits for one."""
        code = frame.code
        handler = self._handlers.get(code)
        try:
            if handler is None:
                raise RemotingError(
                    codes.REQUEST_CODE_NOT_SUPPORTED,
                    f"request type {code} not supported: Half Hitch takes messages of producers; "
                    "consumers and tools work on Kafka itself",
                )
            if self._access.is_on:
                self._access.check(frame)
            if self._load.is_draining and code not in _ALWAYS_TAKEN:
                raise _leaving(frame)
            answer = handler(frame, asker)
        except Exception as error:  # noqa: BLE001 (whatever a client sent, it gets an answer)
            return self.refuse(frame, error)
        if answer is None:
            asker.begin()  # after a `finish`, if the answer came at once
            return None
        self._stats.answered(code, codes.SUCCESS)
        return None if frame.is_one_way else answer

    def refuse(self, frame: Frame, error: BaseException) -> bytes | None:
        """The answer to what failed, counted; None when nobody waits for one."""
        if not isinstance(error, HalfHitchError):
            logger.error(
                "answering RocketMQ request %d failed; please report this",
                frame.code,
                exc_info=error,
                extra={"action": "rocketmq_request_failed"},
            )
            error = HalfHitchError("Half Hitch made a mistake; its log says more")
        response_code, remark = response_of(error)
        self._stats.answered(frame.code, response_code)
        if frame.is_one_way:
            if frame.code == codes.END_TRANSACTION:
                self._end_failed(error)
            return None
        # Clients look into the fields of every answer to a message, whatever its code is.
        return reply(frame, response_code, remark, {})

    # -- messages --------------------------------------------------------------------------------

    def _send(self, frame: Frame, asker: Asker) -> bytes | None:
        self._refuse_when_busy()
        send = read_send(frame)
        if send.batch:
            self._batch(frame, send, asker)
            return None
        properties = send.properties
        is_transactional = messages.is_transactional(send.sys_flag, properties)
        messages.refuse_delay(properties, transactional=is_transactional)
        topic = names.kafka_topic(send.namespace, send.topic)
        message = messages.outgoing(
            topic,
            send.queue_id,
            send.flag,
            send.sys_flag,
            properties,
            send.body,
            body_bytes_max=self._limits.body_bytes_max,
            inflaters=self._inflaters,
        )
        queue_id = max(0, send.queue_id)
        if not is_transactional:
            self._singles.send(
                message, _unique(properties), partial(self._sent, frame, asker, properties)
            )
            return None
        group = names.group_of(send.namespace, send.producer_group)
        # Before the first heartbeat, which comes a second after the start: else nobody could be
        # asked what became of this message. What is no name is refused below.
        if is_name(group):
            asker.register(group, has_namespace_field=send.namespace is not None)
        transaction_id = properties.get(_TRANSACTION_KEY)
        allow = None
        if self._has_express and frame.code == codes.SEND_MESSAGE_V2 and send.namespace is None:
            allow = partial(asker.allow, send, group, topic)
        self._singles.prepare(
            group,
            message,
            transaction_id,
            messages.immunity_s(properties),
            partial(self._stored, frame, asker, queue_id, allow),
            place=None if transaction_id is None else maker_of(transaction_id).encode(),
        )
        return None

    def _stored(
        self,
        frame: Frame,
        asker: Asker,
        queue_id: int,
        allow: Callable[[], None] | None,
        result: tuple[int, int, str] | HalfHitchError,
    ) -> None:
        if isinstance(result, HalfHitchError):
            self._failed(frame, asker, result)
            return
        if allow is not None:
            allow()
        partition, half_offset, transaction_id = result
        message_id = asker.address.message_ids.make(commit_log_offset(partition, half_offset))
        content = sent_reply(frame, message_id, queue_id, half_offset, transaction_id)
        self._stats.answered(frame.code, codes.SUCCESS)
        asker.finish(frame, content)

    def _sent(
        self,
        frame: Frame,
        asker: Asker,
        properties: dict[str, str],
        result: tuple[int, int] | HalfHitchError,
    ) -> None:
        if isinstance(result, HalfHitchError):
            self._failed(frame, asker, result)
            return
        partition, log_offset = result
        message_id = asker.address.message_ids.make(log_offset)
        content = sent_reply(
            frame, message_id, partition, log_offset, properties.get(_TRANSACTION_KEY)
        )
        self._stats.answered(frame.code, codes.SUCCESS)
        asker.finish(frame, content)

    def _send_batch(self, frame: Frame, asker: Asker) -> bytes | None:
        self._refuse_when_busy()
        self._batch(frame, read_send(frame), asker)
        return None

    def _batch(self, frame: Frame, send: Send, asker: Asker) -> None:
        batch = read_batch(send)
        properties_of_all = [send.properties, *(message.properties for message in batch)]
        if any(messages.is_transactional(send.sys_flag, each) for each in properties_of_all):
            raise RemotingError(
                codes.MESSAGE_ILLEGAL,
                "a batch cannot be transactional: send its messages one by one, or use the HTTP "
                "door, where one transaction takes many messages",
            )
        topic = names.kafka_topic(send.namespace, send.topic)
        outgoing = []
        for message in batch:
            messages.refuse_delay(message.properties, transactional=False)
            outgoing.append(
                messages.outgoing(
                    topic,
                    send.queue_id,
                    message.flag,
                    codes.TRANSACTION_NOT,
                    message.properties,
                    message.body,
                    body_bytes_max=self._limits.body_bytes_max,
                    inflaters=self._inflaters,
                )
            )
        results: list[tuple[int, int] | HalfHitchError] = []
        arrived = partial(self._batch_sent, frame, asker, results, len(batch))
        for each, message in zip(outgoing, batch, strict=True):
            self._singles.send(each, _unique(message.properties), arrived)

    def _batch_sent(
        self,
        frame: Frame,
        asker: Asker,
        results: list[tuple[int, int] | HalfHitchError],
        count: int,
        result: tuple[int, int] | HalfHitchError,
    ) -> None:
        results.append(result)
        if len(results) < count:
            return
        stored = sorted(each for each in results if not isinstance(each, HalfHitchError))
        failure = next((each for each in results if isinstance(each, HalfHitchError)), None)
        if failure is not None:
            response_code, _ = response_of(failure)
            remark = messages.several_of(len(stored), failure, count)
            self._failed(frame, asker, RemotingError(response_code, remark))
            return
        make = asker.address.message_ids.make
        message_ids = ",".join([make(log_offset) for _, log_offset in stored])
        partition, log_offset = stored[0]
        content = sent_reply(frame, message_ids, partition, log_offset, None)
        self._stats.answered(frame.code, codes.SUCCESS)
        asker.finish(frame, content)

    def _refuse_when_busy(self) -> None:
        load = self._load
        if load.refusal is not None:
            raise load.refusal
        if self._stats.in_flight_count >= self._limits.in_flight_count_max:
            raise Overloaded(
                f"{self._limits.in_flight_count_max} requests are under way; try again in a moment"
            )

    def _failed(self, frame: Frame, asker: Asker, error: HalfHitchError) -> None:
        content = self.refuse(frame, error)
        asker.finish(frame, content or b"")

    # -- ends ------------------------------------------------------------------------------------

    def _end(self, frame: Frame, asker: Asker) -> bytes | None:
        end = read_end(frame)
        known = handle_of(end, names.group_of(end.namespace, end.producer_group))
        resolution = _RESOLUTIONS.get(end.commit_or_rollback)
        if resolution is None:
            if end.from_check and self._desk is not None:
                identity = ProducerGroup(known.producer_group), TransactionId(known.transaction_id)
                reason = kept_reason(frame.remark)
                self._desk.settle(identity, CheckOutcome.UNKNOWN, reason)
            return reply(frame, codes.SUCCESS)
        source = _CHECK if end.from_check else _PRODUCER
        if frame.is_one_way:
            ended = partial(self._ended, frame, asker)
            self._singles.end(
                known, resolution, source, ended, is_awaited=False, reason=frame.remark
            )
        else:
            asker.work(frame, self._end_surely(frame, known, resolution, source))
        return None

    def _ended(self, frame: Frame, asker: Asker, error: HalfHitchError | None) -> None:
        if error is not None:
            self._failed(frame, asker, error)
            return
        self._stats.answered(codes.END_TRANSACTION, codes.SUCCESS)
        asker.finish(frame, b"")

    async def _end_surely(
        self, frame: Frame, known: Handle, resolution: Resolution, source: ResolutionSource
    ) -> bytes:
        """RocketMQ's clients end one-way; a tool or a test that waits wants the truth."""
        await self._singles.end_surely(known, resolution, source, reason=frame.remark)
        return reply(frame, codes.SUCCESS)

    def _end_failed(self, error: HalfHitchError) -> None:
        self._stats.end_failed(error.code)
        self._load.end_failed(error)

    # -- who is there ----------------------------------------------------------------------------

    def _heartbeat(self, frame: Frame, asker: Asker) -> bytes | None:
        namespace = names.namespace_of(frame)
        refusal: InvalidRequest | None = None
        for name in read_heartbeat(frame).producer_groups:
            if name != _INNER_GROUP:
                group = names.group_of(namespace, name)
                try:
                    check_group(group)
                except InvalidRequest as error:
                    refusal = error
                    continue  # the groups beside it are asked all the same
                asker.register(group, has_namespace_field=namespace is not None)
        if refusal is not None:
            raise refusal
        return reply(frame, codes.SUCCESS)

    def _unregister(self, frame: Frame, asker: Asker) -> bytes | None:
        name = read_unregister(frame).producer_group
        if name is not None:
            group = names.group_of(names.namespace_of(frame), name)
            check_group(group)
            asker.unregister(group)
        return reply(frame, codes.SUCCESS)


def _unique(properties: dict[str, str]) -> KafkaHeaders:
    """Consumers recognise a message by it; only Half Hitch may write a header of this name."""
    unique = properties.get(_TRANSACTION_KEY)
    return [] if unique is None else [(_TRANSACTION_KEY, unique.encode())]


def _leaving(frame: Frame) -> RemotingError:
    """Newer clients connect anew and ask again; older ones ask another server."""
    if frame.version > codes.GO_AWAY_VERSION_ABOVE:
        return RemotingError(codes.GO_AWAY, "this instance of Half Hitch is stopping")
    return RemotingError(
        codes.SERVICE_NOT_AVAILABLE, "this instance of Half Hitch is stopping; ask another one"
    )
