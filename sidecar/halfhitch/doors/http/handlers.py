"""What each route does: take a request apart, call the service, put its answer into bytes.

Owns one method per route of router.ROUTES, named as the route is. It decides nothing: every rule
about transactions is the service's. Whether the caller may ask for it is asked here, before the
service is: a handle says whose transaction it is, and nothing more is looked at for that.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from time import perf_counter
from typing import Final

import msgspec

from halfhitch.access import Right
from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.doors.http.lending import Lending
from halfhitch.doors.http.messages import (
    MessageBody,
    messages_of,
    raw_message_of,
    read_add,
    read_prepare,
)
from halfhitch.doors.http.replies import json_reply, stored_reply, text_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.stream import Opening, Streams
from halfhitch.doors.http.trace_context import traced
from halfhitch.doors.http.unended import Unended
from halfhitch.errors import InvalidRequest, WrongGroup
from halfhitch.service.api import OutgoingMessage, Prepared, Transactions, TransactionState
from halfhitch.service.checking.api import CheckDesk, CheckOutcome
from halfhitch.service.reasons import kept_reason
from halfhitch.wire.trace_parent import sampled_request

#: Carries a route out: by work that gives the answer, or the answer itself, or a stream.
Handler = Callable[[Request], Awaitable[bytes] | bytes | Opening]


class PreparedAnswer(msgspec.Struct):
    """Messages are stored."""

    transaction_id: str
    handle: str
    state: str


class EndedAnswer(msgspec.Struct, omit_defaults=True):
    """A decision is durable, or still open; `visible` only where it was waited for."""

    transaction_id: str
    state: str
    visible: bool = False


class ViewAnswer(msgspec.Struct):
    """One transaction as it is now."""

    transaction_id: str
    producer_group: str
    state: str
    message_count: int
    visible: bool
    check_count: int
    next_check_s: float | None
    last_answer: str | None


_encode = msgspec.json.Encoder().encode
_PRODUCE: Final = Right.PRODUCE
_CHECK: Final = Right.CHECK
#: Any of them: who prepares, who answers for the group, who looks after it.
_VIEWING: Final = (Right.PRODUCE, Right.CHECK, Right.OBSERVE)


def _messages(request: Request, bodies: list[MessageBody]) -> Sequence[OutgoingMessage]:
    messages = messages_of(bodies)
    return traced(messages, request.trace) if request.trace else messages


class Handlers:
    """The routes over one service; without a desk nobody waits for a producer's "cannot say"."""

    def __init__(
        self,
        transactions: Transactions,
        *,
        checks: CheckDesk | None,
        streams: Streams,
        unended: Unended,
        lending: Lending | None = None,
    ) -> None:
        self._lending = lending
        self._transactions = transactions
        self._unended = unended
        self._desk = checks
        self._streams = streams
        self._contract = files(__package__).joinpath("openapi.yaml").read_bytes()

    def handler(self, name: str) -> Handler:
        """The handler of a route. Raises KeyError: a route without one must not start."""
        return {
            "prepare": self.prepare,
            "half": self.half,
            "add": self.add,
            "commit": self.commit,
            "rollback": self.rollback,
            "unknown": self.unknown,
            "checks": self.checks,
            "view": self.view,
            "openapi": self.openapi,
        }[name]

    async def prepare(self, request: Request) -> bytes:
        """Several messages, as JSON."""
        body = read_prepare(request)
        messages = _messages(request, body.messages)
        if not request.caller.is_free:
            topics = [message.topic for message in messages]
            request.caller.require_produce(body.producer_group, topics)
        prepared = await self._transactions.prepare(
            producer_group=body.producer_group,
            messages=messages,
            transaction_id=body.transaction_id,
            immunity_s=body.immunity_seconds,
        )
        self._unended.prepared(prepared.transaction_id)
        if len(messages) == 1:
            request.has_stored_one = body.transaction_id is None
            self._tell_stored(
                request, body.producer_group, messages[0].topic, prepared,
                body.transaction_id, body.immunity_seconds,
            )  # fmt: skip
        state = prepared.state.value
        answer = PreparedAnswer(prepared.transaction_id, prepared.handle, state)
        return json_reply(201, _encode(answer))

    async def half(self, request: Request) -> bytes:
        """One message, raw: the fast path."""
        half = request.half
        producer_group = request.text(b"half-producer-group")
        if producer_group is None:
            raise InvalidRequest(
                "The Half-Producer-Group header is missing; it names the group that is asked "
                "what became of the transaction."
            )
        transaction_id = immunity_s = None
        if b"half-transaction-id" in half:
            transaction_id = request.text(b"half-transaction-id")
        if b"half-immunity-seconds" in half:
            immunity_s = request.number(b"half-immunity-seconds")
        message = raw_message_of(request)
        if request.trace:
            (message,) = traced((message,), request.trace)
        if not request.caller.is_free:
            request.caller.require_produce(producer_group, (message.topic,))
        prepared = await self._transactions.prepare(
            producer_group=producer_group,
            messages=(message,),
            transaction_id=transaction_id,
            immunity_s=immunity_s,
        )
        self._unended.prepared(prepared.transaction_id)
        self._tell_stored(
            request, producer_group, message.topic, prepared, transaction_id, immunity_s
        )
        return stored_reply(prepared.handle, prepared.transaction_id)

    def _tell_stored(
        self,
        request: Request,
        producer_group: str,
        topic: str,
        prepared: Prepared,
        named: str | None,
        immunity_s: int | None,
    ) -> None:
        """Of one message: the next ones like it may go the native way, and its end, too."""
        if self._lending is not None:
            self._lending.stored(
                producer_group,
                topic,
                prepared,
                named=named,
                age_s=perf_counter() - request.started_s,
                immunity_s=immunity_s,
            )

    async def add(self, request: Request) -> bytes:
        """More messages for a pending transaction."""
        messages = _messages(request, read_add(request).messages)
        if not request.caller.is_free:
            group, _ = self._transactions.identify(request.argument)
            request.caller.require_produce(group, [message.topic for message in messages])
        prepared = await self._transactions.add(request.argument, messages)
        self._unended.prepared(prepared.transaction_id)
        answer = PreparedAnswer(prepared.transaction_id, prepared.handle, "pending")
        return json_reply(201, _encode(answer))

    async def commit(self, request: Request) -> bytes:
        """Let the messages become visible."""
        return await self._end(request, Resolution.COMMIT)

    async def rollback(self, request: Request) -> bytes:
        """Let the messages be dropped."""
        return await self._end(request, Resolution.ROLLBACK)

    async def _end(self, request: Request, resolution: Resolution) -> bytes:
        options = request.options
        if not request.caller.is_free:
            group, _ = self._transactions.identify(request.argument)
            request.caller.require(_CHECK if "source" in options else _PRODUCE, group)
        ended = await self._transactions.end(
            request.argument,
            resolution,
            producer_group=request.text(b"half-producer-group"),
            source=ResolutionSource.CHECK if "source" in options else ResolutionSource.PRODUCER,
            wait_visible="wait" in options,
            reason=request.half.get(b"half-reason", b"").decode(errors="replace"),
            trace_id=sampled_request(request.trace) if request.trace else None,
        )
        if self._lending is not None:
            self._lending.tell_prepared()
        self._unended.ended(ended.transaction_id)
        visible = ended.visible and "wait" in options
        return json_reply(200, _encode(EndedAnswer(ended.transaction_id, ended.state, visible)))

    async def unknown(self, request: Request) -> bytes:
        """The producer cannot say yet how its transaction ends: an answer to a check, no end.

        Whether somebody waits for it makes no difference to the caller.
        """
        identity = self._transactions.identify(request.argument)
        request.caller.require(_CHECK, identity[0])
        producer_group = request.text(b"half-producer-group")
        if producer_group not in (None, identity[0]):
            raise WrongGroup(
                "Half-Producer-Group is not the group that prepared the transaction; leave the "
                "header out, or send the group of the prepare."
            )
        if self._desk is not None:
            reason = request.half.get(b"half-reason", b"").decode(errors="replace")
            self._desk.settle(identity, CheckOutcome.UNKNOWN, kept_reason(reason))
        return json_reply(200, _encode(EndedAnswer(identity[1], TransactionState.PENDING)))

    async def view(self, request: Request) -> bytes:
        """One transaction."""
        if not request.caller.is_free:
            group, _ = self._transactions.identify(request.argument)
            request.caller.require_any(_VIEWING, group)
        view = await self._transactions.view(request.argument)
        answer = ViewAnswer(
            view.transaction_id,
            view.producer_group,
            view.state,
            view.message_count,
            view.visible,
            view.check_count,
            view.next_check_s,
            view.last_answer,
        )
        return json_reply(200, _encode(answer))

    def checks(self, request: Request) -> bytes | Opening:
        """The check stream."""
        return self._streams.open(request)

    async def openapi(self, request: Request) -> bytes:  # noqa: ARG002 (all handlers look alike)
        """The contract of this door."""
        return text_reply("application/yaml", self._contract)
