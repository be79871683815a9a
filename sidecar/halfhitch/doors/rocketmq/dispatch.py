"""What each request means: from frames to the service, and back to bytes.

What needs no work is answered at once with bytes; the rest is a coroutine that gives them. Nothing
here raises for what a client sent: `Dispatcher` turns every failure into an answer.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Final, Protocol

from halfhitch.access import EVERYBODY, Caller, Grant, Right
from halfhitch.core.model import ProducerGroup, Resolution, ResolutionSource, TransactionId
from halfhitch.doors.rocketmq import inflaters, messages, names
from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.errors import response_of
from halfhitch.doors.rocketmq.flight import Job, bytes_of
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.offsets import (
    Address,
    ForeignEnd,
    commit_log_offset,
    handle_of,
    require_seal,
)
from halfhitch.doors.rocketmq.routes import Routes
from halfhitch.errors import HalfHitchError, Overloaded, RequestError, TooManyRequests
from halfhitch.ports import KafkaHeaders
from halfhitch.service.api import OutgoingMessage, SingleSends, Transactions
from halfhitch.service.checking.api import CheckDesk, CheckOutcome
from halfhitch.service.reasons import kept_reason
from halfhitch.service.transactions.admission import check_group, is_name
from halfhitch.wire import headers
from halfhitch.wire.handle import Handle
from halfhitch.wire.remoting import codes, ending
from halfhitch.wire.remoting.ending import read_end
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import reply
from halfhitch.wire.remoting.heartbeats import read_heartbeat, read_unregister
from halfhitch.wire.remoting.ids import maker_of
from halfhitch.wire.remoting.messages import Host
from halfhitch.wire.remoting.requests import Frame, Send
from halfhitch.wire.remoting.sending import read_batch, read_send, sent_reply

_RESOLUTIONS: Final = {ending.COMMIT: Resolution.COMMIT, ending.ROLLBACK: Resolution.ROLLBACK}
_CHECK: Final = ResolutionSource.CHECK
_PRODUCER: Final = ResolutionSource.PRODUCER
_ANSWER: Final = Right.CHECK
_PRODUCE: Final = Right.PRODUCE
#: Producers of single messages beat too; they are asked nothing.
_SENDING_OR_ANSWERING: Final = (Right.PRODUCE, Right.CHECK)
#: Every client registers it, and nothing is ever prepared under it.
_INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
#: Answered, or dropped, while the door drains; the rest is sent elsewhere.
_ALWAYS_TAKEN: Final = frozenset({codes.END_TRANSACTION, codes.UNREGISTER_CLIENT})
#: Never one too many of its identity: ends, and what keeps a producer where checks find it.
_NEVER_TOO_MANY: Final = _ALWAYS_TAKEN | {codes.HEART_BEAT}
_TRANSACTION_KEY: Final = headers.UNIQ_KEY


class Asker(Protocol):
    """The connection that a request came over."""

    @property
    def address(self) -> Address:
        """Where its client reaches us."""
        ...

    @property
    def peer(self) -> Host:
        """Where that client is."""
        ...

    def allow(self, send: Send, group: str, topic: str) -> None:
        """A message of this kind was stored: the next ones may go the native way."""
        ...

    def known_as(self, name: str | None) -> None:
        """It has shown whose it is, or (None) what it has shown counts not."""
        ...

    def hold_back(self, seconds: float) -> None:
        """Read nothing more of it for so long."""
        ...

    def prove(self, identity: str | None) -> None:
        """It is one of those that may be here. Raises Overloaded: of this identity's are enough."""
        ...

    def register(self, producer_group: str, grant: Grant, *, has_namespace_field: bool) -> None:
        """Checks of the group may be asked over this connection. Raises Overloaded."""
        ...

    def unregister(self, producer_group: str) -> None:
        """They may not any more."""
        ...


#: What gives an answer, later.
Work = Coroutine[Any, Any, bytes]
Handler = Callable[[Frame, Asker, Caller], bytes | Work | Job]
#: They ask Kafka each time, or where a topic is not known yet.
_ASKING_KAFKA: Final = frozenset(
    {
        codes.GET_ROUTE_INFO_BY_TOPIC,
        codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER,
        codes.GET_MAX_OFFSET,
        codes.UPDATE_AND_CREATE_TOPIC,
    }
)


class Dispatcher:
    """One for a door."""

    def __init__(
        self,
        transactions: Transactions,
        sends: SingleSends,
        desk: CheckDesk | None,
        routes: Routes,
        *,
        access: AccessControl,
        limits: Limits,
        load: Load,
        has_native: bool = False,
    ) -> None:
        self._has_native = has_native
        self._transactions = transactions
        self._sends = sends
        self._desk = desk
        self._access = access
        self._limits = limits
        self._load = load
        self._flight = load.flight
        self._routes = routes
        self._stats = load.stats
        self._inflaters = inflaters.available()
        self._handlers: dict[int, Handler] = {
            codes.SEND_MESSAGE_V2: self._send,
            codes.SEND_MESSAGE: self._send,
            codes.SEND_BATCH_MESSAGE: self._send_batch,
            codes.END_TRANSACTION: self._end,
            codes.HEART_BEAT: self._heartbeat,
            codes.UNREGISTER_CLIENT: self._unregister,
            codes.GET_ROUTE_INFO_BY_TOPIC: routes.route,
            codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER: routes.topics,
            codes.GET_BROKER_CLUSTER_INFO: routes.cluster,
            codes.GET_MAX_OFFSET: routes.max_offset,
            codes.UPDATE_AND_CREATE_TOPIC: routes.create_topic,
        }

    def admit(self, frame: Frame, asker: Asker) -> bytes | Job | None:
        """The answer, where no work is needed for it, else the job, for `answer`.

        None: it is answered, and nobody waits for that.
        """
        code = frame.code
        handler = self._handlers.get(code)
        try:
            if handler is None:
                raise RemotingError(
                    codes.REQUEST_CODE_NOT_SUPPORTED,
                    f"request type {code} not supported: Half Hitch takes messages of producers; "
                    "consumers and tools work on Kafka itself",
                )
            caller = self._known(frame, asker) if self._access.is_on else EVERYBODY
            if self._load.is_draining and code not in _ALWAYS_TAKEN:
                raise _leaving(frame)
            answer = handler(frame, asker, caller)
        except Exception as error:  # noqa: BLE001 (whatever a client sent, it gets an answer)
            if isinstance(error, TooManyRequests) and error.hold_back_s:
                asker.hold_back(error.hold_back_s)
            return self.refuse(frame, error)
        if isinstance(answer, bytes):
            return self._answered(frame, answer)
        if isinstance(answer, Job):
            return answer
        # An end that is awaited is looked up in the logs.
        is_awaited = code == codes.END_TRANSACTION and not frame.is_one_way
        asks_kafka = is_awaited or code in _ASKING_KAFKA
        return Job(answer, caller.name, bytes_of(frame), asks_kafka=asks_kafka)

    def _known(self, frame: Frame, asker: Asker) -> Caller:
        """Whose it is, who may ask so much; the connection is told.

        Raises NoPermission, RemotingError, Overloaded.
        """
        asker.known_as(None)
        caller = self._access.check(frame)
        asker.prove(caller.name)
        asker.known_as(caller.name or caller.proof[1].decode())
        allowance = caller.allowance
        if allowance is not None:
            if frame.code in _NEVER_TOO_MANY:
                allowance.spend(perf_counter())
            else:
                allowance.take(perf_counter())
        return caller

    async def answer(self, frame: Frame, job: Job) -> bytes | None:
        """What the job gives, or what it failed of; None when nobody waits for it."""
        try:
            content = await self._flight.carry_out(job)
        except Exception as error:  # noqa: BLE001 (a client waits for an answer)
            return self.refuse(frame, error)
        return self._answered(frame, content)

    def _answered(self, frame: Frame, content: bytes) -> bytes | None:
        self._stats.answered(frame.code, codes.SUCCESS)
        return None if frame.is_one_way else content

    def refuse(self, frame: Frame, error: BaseException) -> bytes | None:
        """The answer to what failed, counted; None when nobody waits for one."""
        if not isinstance(error, HalfHitchError):
            what = f"answering RocketMQ request {frame.code}"
            self._load.say_fault(what, error, "rocketmq_request_failed")
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

    def _send(self, frame: Frame, asker: Asker, caller: Caller) -> Job:
        self._refuse_when_busy(caller)
        send = read_send(frame)
        if send.batch:
            return self._batch(frame, send, asker, caller)
        is_transactional = messages.is_transactional(send.sys_flag, send.properties)
        messages.refuse_delay(send.properties, transactional=is_transactional)
        group, topic = _addressed(send, caller)
        message = self._outgoing(topic, send, send.flag, send.sys_flag, send.properties, send.body)
        if not is_transactional:
            work = self._plain(frame, send.properties, message, asker)
            return self._job(frame, caller, topic, (message,), work)
        # Before the first heartbeat, which comes a second after the start: else nobody could be
        # asked what became of this message. What is no name is refused below.
        if is_name(group) and caller.may(_ANSWER, group):
            grant = self._access.grant(caller, group)
            with suppress(Overloaded):  # others of the group may be asked; heartbeats tell it
                asker.register(group, grant, has_namespace_field=send.namespace is not None)
        work = self._half(frame, send, group, message, asker)
        return self._job(frame, caller, topic, (message,), work)

    def _job(
        self,
        frame: Frame,
        caller: Caller,
        topic: str,
        sent: Sequence[OutgoingMessage],
        work: Work,
    ) -> Job:
        """Of messages: what was compressed, or lay in a batch, is held beside its frame."""
        name, body = caller.name, frame.body
        held_bytes = bytes_of(frame)
        for message in sent:
            if message.value is not body:
                held_bytes += len(message.value or b"")
        asks_kafka = name is not None and not self._routes.knows(topic)
        return Job(work, name, held_bytes, asks_kafka=asks_kafka)

    def _outgoing(
        self,
        topic: str,
        send: Send,
        flag: int,
        sys_flag: int,
        properties: dict[str, str],
        body: bytes,
    ) -> OutgoingMessage:
        return messages.outgoing(
            topic,
            send.queue_id,
            flag,
            sys_flag,
            properties,
            body,
            body_bytes_max=self._limits.body_bytes_max,
            inflaters=self._inflaters,
        )

    async def _half(
        self, frame: Frame, send: Send, group: str, message: OutgoingMessage, asker: Asker
    ) -> bytes:
        transaction_id = send.properties.get(_TRANSACTION_KEY)
        prepared = await self._transactions.prepare(
            producer_group=group,
            messages=(message,),
            transaction_id=transaction_id,
            immunity_s=messages.immunity_s(send.properties),
            partition_by=None if transaction_id is None else maker_of(transaction_id).encode(),
            is_partition_chosen=False,  # clients try again with another queue
        )
        if self._has_native and frame.code == codes.SEND_MESSAGE_V2 and send.namespace is None:
            asker.allow(send, group, message.topic)
        (half_offset,) = prepared.half_offsets
        position = commit_log_offset(prepared.partition, half_offset)
        seals = self._transactions.seals()
        return sent_reply(
            frame,
            asker.address.message_ids.make(position),
            max(0, send.queue_id),
            seals.make(prepared.partition, half_offset, group, prepared.transaction_id),
            prepared.transaction_id,
        )

    async def _plain(
        self, frame: Frame, properties: dict[str, str], message: OutgoingMessage, asker: Asker
    ) -> bytes:
        partition, log_offset = await self._sends.send(message, _unique(properties))
        message_id = asker.address.message_ids.make(log_offset)
        unique = properties.get(_TRANSACTION_KEY)
        return sent_reply(frame, message_id, partition, log_offset, unique)

    def _send_batch(self, frame: Frame, asker: Asker, caller: Caller) -> Job:
        self._refuse_when_busy(caller)
        return self._batch(frame, read_send(frame), asker, caller)

    def _batch(self, frame: Frame, send: Send, asker: Asker, caller: Caller) -> Job:
        batch = read_batch(send)
        properties_of_all = [send.properties, *(message.properties for message in batch)]
        if any(messages.is_transactional(send.sys_flag, each) for each in properties_of_all):
            raise RemotingError(
                codes.MESSAGE_ILLEGAL,
                "a batch cannot be transactional: send its messages one by one, or use the HTTP "
                "door, where one transaction takes many messages",
            )
        _, topic = _addressed(send, caller)
        outgoing = []
        for each in batch:
            messages.refuse_delay(each.properties, transactional=False)
            message = self._outgoing(
                topic, send, each.flag, codes.TRANSACTION_NOT, each.properties, each.body
            )
            outgoing.append((message, _unique(each.properties)))
        work = self._all_plain(frame, outgoing, asker)
        return self._job(frame, caller, topic, [message for message, _ in outgoing], work)

    async def _all_plain(
        self, frame: Frame, outgoing: Sequence[tuple[OutgoingMessage, KafkaHeaders]], asker: Asker
    ) -> bytes:
        send = self._sends.send
        results = await asyncio.gather(
            *(send(message, further) for message, further in outgoing), return_exceptions=True
        )
        stored = sorted(each for each in results if isinstance(each, tuple))
        for failure in results:
            if isinstance(failure, HalfHitchError):
                response_code, _ = response_of(failure)
                remark = messages.several_of(len(stored), failure, len(results))
                raise RemotingError(response_code, remark)
            if isinstance(failure, BaseException):
                raise failure
        make = asker.address.message_ids.make
        message_ids = ",".join([make(log_offset) for _, log_offset in stored])
        partition, log_offset = stored[0]
        return sent_reply(frame, message_ids, partition, log_offset, None)

    def _refuse_when_busy(self, caller: Caller) -> None:
        if (refusal := self._load.refusal) is not None:
            raise refusal
        self._flight.refuse_when_full(caller.name)

    # -- ends ------------------------------------------------------------------------------------

    def _end(self, frame: Frame, asker: Asker, caller: Caller) -> bytes | Work:
        end = read_end(frame)
        known = handle_of(end, names.group_of(end.namespace, end.producer_group))
        caller.require(_ANSWER if end.from_check else _PRODUCE, known.producer_group)
        try:
            require_seal(self._transactions.seals(), known, end.state_offset)
        except ForeignEnd:
            self._load.say_foreign_end(asker.peer, known, caller.name)
            raise
        resolution = _RESOLUTIONS.get(end.commit_or_rollback)
        if resolution is None:
            if end.from_check and self._desk is not None:
                identity = ProducerGroup(known.producer_group), TransactionId(known.transaction_id)
                reason = kept_reason(frame.remark)
                self._desk.settle(identity, CheckOutcome.UNKNOWN, reason)
            return reply(frame, codes.SUCCESS)
        return self._decide(frame, known, resolution, _CHECK if end.from_check else _PRODUCER)

    async def _decide(
        self, frame: Frame, known: Handle, resolution: Resolution, source: ResolutionSource
    ) -> bytes:
        """RocketMQ's clients end one-way; a tool or a test that waits wants the truth."""
        await self._transactions.end_named(
            known,
            resolution,
            source=source,
            is_awaited=not frame.is_one_way,
            reason=frame.remark,
        )
        return b"" if frame.is_one_way else reply(frame, codes.SUCCESS)

    def _end_failed(self, error: HalfHitchError) -> None:
        self._stats.end_failed(error.code)
        if not isinstance(error, ForeignEnd):  # which has a line of its own
            self._load.end_failed(error)

    # -- who is there ----------------------------------------------------------------------------

    def _heartbeat(self, frame: Frame, asker: Asker, caller: Caller) -> bytes:
        namespace = names.namespace_of(frame)
        refusal: HalfHitchError | None = None
        for name in read_heartbeat(frame).producer_groups:
            if name != _INNER_GROUP:
                group = names.group_of(namespace, name)
                try:
                    check_group(group)
                    caller.require_any(_SENDING_OR_ANSWERING, group)
                    if caller.may(_ANSWER, group):
                        grant = self._access.grant(caller, group)
                        asker.register(group, grant, has_namespace_field=namespace is not None)
                except (RequestError, Overloaded) as error:
                    refusal = error  # the groups beside it are asked all the same
        if refusal is not None:
            raise refusal
        return reply(frame, codes.SUCCESS)

    def _unregister(self, frame: Frame, asker: Asker, _: Caller) -> bytes:
        name = read_unregister(frame).producer_group
        if name is not None:
            group = names.group_of(names.namespace_of(frame), name)
            check_group(group)
            asker.unregister(group)
        return reply(frame, codes.SUCCESS)


def _addressed(send: Send, caller: Caller) -> tuple[str, str]:
    """Producer group and topic, as the service knows them. Raises Forbidden."""
    group = names.group_of(send.namespace, send.producer_group)
    topic = names.kafka_topic(send.namespace, send.topic)
    if not caller.is_free:
        caller.require_produce(group, (topic,))
    return group, topic


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
