"""The asyncio producer.

It decides nothing: calls, retries and the course of a transaction are shared with the blocking
producer (`calls`, `retries`, `conversation`).
"""

import asyncio
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from halfhitch.client.address import Address, find_address
from halfhitch.client.aio_connections import ConnectionPool
from halfhitch.client.calls import Call, Calls, Operation, new_transaction_id
from halfhitch.client.conversation import (
    LEAVING_DEADLINE_S,
    Conversation,
    Leaving,
    check_check,
    check_limits,
    check_on_error,
    failed_result,
    no_check,
    note_closed,
    note_failed_rollback,
    require_listener,
    result_of,
)
from halfhitch.client.errors import ProducerClosed, TransactionDoomed, TransactionMisused
from halfhitch.client.pacing import REAL_PACING, Pacing
from halfhitch.client.retries import Attempts, TransportFailure
from halfhitch.client.values import (
    AsyncTransactionListener,
    Check,
    CheckedMessage,
    Ended,
    Headers,
    LocalTransactionState,
    Message,
    OnError,
    Prepared,
    SendResult,
    TransactionView,
)
from halfhitch.errors import HalfHitchError

if TYPE_CHECKING:
    from halfhitch.client.aio_checks import CheckAnswers

T = TypeVar("T")


class AsyncTransactionProducer:
    """`TransactionProducer` for asyncio: the same arguments, methods and promises, to be awaited.

    Tasks of one event loop may share a producer; another loop needs another one, and so does
    a forked child, where no loop goes on. Use it in an `async with` block, or await `close()`.

    A call that is cancelled may have been carried out; see `PrepareUnknown` and `DecisionUnknown`
    for what that means.

    Checks run in tasks of the loop, at most `check_workers` at once. A producer that is made where
    no loop runs begins to answer them when it is first used.
    """

    def __init__(
        self,
        group: str,
        address: str | None = None,
        token: str | None = None,
        deadline_s: float = 10.0,
        listener: AsyncTransactionListener | None = None,
        *,
        check: Callable[[Check], Awaitable[LocalTransactionState]] | None = None,
        answers_checks: bool = True,
        check_workers: int = 8,
        connections_max: int = 32,
        on_error: OnError | None = None,
        pacing: Pacing = REAL_PACING,
    ) -> None:
        check_limits(deadline_s, connections_max, check_workers)
        check_on_error(on_error)
        check_check(check)
        found = find_address(address)
        self.group = group
        self.address = found.text
        self._address = found
        self._calls = Calls(found, group, token)
        self._listener = listener
        self._pacing = pacing
        self._pool = ConnectionPool(found, connections_max)
        self._caller = Caller(self._pool, found, deadline_s, pacing)
        self._check = check or _check_of(listener)
        # Without a check nobody may ever answer: see "An exception in a block" in DESIGN.md.
        self._on_error = on_error or ("rollback" if self._check is None else "unknown")
        self._check_workers = check_workers
        self._answers: CheckAnswers | None = None
        self._blocks: dict[str, None] = {}  # that are running; one step each, so without a lock
        self._checks_wait_for_loop = self._check is not None and answers_checks
        if self._checks_wait_for_loop:
            try:
                self._start_checks(asyncio.get_running_loop())
            except RuntimeError:
                pass  # with the first use

    def transaction(
        self,
        transaction_id: str | None = None,
        *,
        immunity_s: int | None = None,
        on_error: OnError | None = None,
    ) -> "AsyncTransaction":
        """A transaction for an `async with` block: leaving it commits, by `return` and `break` too.

        The local commit is the last thing in the block: what comes after it may fail, and only
        when the block ends well do the messages follow. What an exception does, `on_error` says
        (see the class). Nothing is stored until the first message. No check-back comes before
        `immunity_s`. Blocks may stand inside one another: they are independent transactions.
        """
        check_on_error(on_error)
        talk = Conversation(
            self._calls,
            transaction_id or new_transaction_id(),
            immunity_s,
            on_error or self._on_error,
            has_check=self._check is not None,
        )
        return AsyncTransaction(self, talk)

    async def send_message_in_transaction(
        self, message: Message, arg: Any = None, *, immunity_s: int | None = None
    ) -> SendResult:
        """Store the message, run the listener's local transaction, send what it decided.

        An exception in the listener means UNKNOWN: no decision is sent and the exception is on the
        result. Raises when the message was not surely stored (the listener did not run), and when
        the decision was not surely stored (DecisionUnknown carries the handle to repeat it with).
        """
        listener = require_listener(self._listener)
        transaction_id = message.transaction_id or new_transaction_id()
        prepared = await self.prepare([message], transaction_id, immunity_s)
        try:
            told = await listener.execute_local_transaction(
                message._replace(transaction_id=prepared.transaction_id), arg
            )
        except Exception as error:  # noqa: BLE001 - the application's; logged and on the result
            return failed_result(prepared, error)
        result = result_of(prepared, told)
        if result.state is LocalTransactionState.COMMIT:
            await self.commit(result.handle)
        elif result.state is LocalTransactionState.ROLLBACK:
            await self.rollback(result.handle)
        return result

    async def prepare(
        self,
        messages: Sequence[Message],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        """Store the messages, invisible. Repeating it with the same id and messages is safe."""
        chosen = transaction_id or new_transaction_id()
        return await self.perform(self._calls.prepare(messages, chosen, immunity_s))

    async def add(self, handle: str, messages: Sequence[Message]) -> Prepared:
        """Store further messages of a pending transaction; use the new handle from then on.

        Adds to one transaction must follow one another, each with the handle of the last. The
        same messages with the same handle may be sent again: they are stored once. Different
        messages with a handle that was already added to are taken for that repetition.
        """
        return await self.perform(self._calls.add(handle, messages))

    async def commit(self, handle: str, *, wait_visible: bool = False) -> Ended:
        """Make the messages visible. Returns when the decision is durable; repeating it is safe.

        `wait_visible` also waits until consumers can see them, or raises VisibilityUnknown.
        """
        return await self.perform(
            self._calls.end(Operation.COMMIT, handle, wait_visible=wait_visible)
        )

    async def rollback(self, handle: str) -> Ended:
        """Drop the messages. Returns when the decision is durable; repeating it is safe."""
        return await self.perform(self._calls.end(Operation.ROLLBACK, handle))

    async def view(self, handle: str) -> TransactionView:
        """What the coordinator knows of the transaction."""
        return await self.perform(self._calls.view(handle))

    async def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """Carry out one call with its retries. For this package; programs use the methods above."""
        self._pool.check_open()
        if self._checks_wait_for_loop:
            self._start_checks(asyncio.get_running_loop())
        return await self._caller.perform(call, at_most_s)

    def check_open(self) -> None:
        """Raises ProducerClosed. For this package."""
        self._pool.check_open()

    def note_block(self, transaction_id: str, *, is_running: bool) -> None:
        """For this package: `close()` tells which blocks it comes too early for."""
        if is_running:
            self._blocks[transaction_id] = None
        else:
            self._blocks.pop(transaction_id, None)

    async def start_checks(self) -> None:
        """Begin to answer checks, if that has not begun; `close()` ends it."""
        self._pool.check_open()
        self._start_checks(asyncio.get_running_loop())

    def _start_checks(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._check is None:
            raise no_check()
        self._checks_wait_for_loop = False
        if self._answers is None:
            from halfhitch.client.aio_checks import Answering, CheckAnswers

            self._answers = CheckAnswers(
                Answering(
                    self._address,
                    self.group,
                    self._calls,
                    self._check,
                    self._caller.perform,
                    self._pacing.jitter,
                    self._check_workers,
                ),
                loop,
            )
            weakref.finalize(self, self._answers.stop)

    async def close(self) -> None:
        """Close the connections; calls under way are finished first, new ones are refused.

        Checks that are running are waited for some seconds, then cancelled.
        """
        note_closed(list(self._blocks))
        self._checks_wait_for_loop = False
        self._pool.refuse()
        if self._answers is not None:
            await self._answers.close()
        await self._pool.close()

    async def __aenter__(self) -> Self:
        if self._checks_wait_for_loop:
            self._start_checks(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Caller:
    """Carries calls out with their retries. It does not know the producer: see `Answering`."""

    def __init__(
        self, pool: ConnectionPool, address: Address, deadline_s: float, pacing: Pacing
    ) -> None:
        self._pool = pool
        self._address = address.text
        self._deadline_s = deadline_s
        self._jitter = pacing.jitter

    async def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """One call, however often it has to be tried. Works after the pool was closed too."""
        clock = asyncio.get_running_loop().time  # timers of connections go by it
        attempts = Attempts(
            call,
            self._address,
            now_s=clock(),
            deadline_s=min(at_most_s, self._deadline_s),
            jitter=self._jitter,
        )
        while True:
            try:
                response = await self._pool.exchange(call.request, attempts)
            except TransportFailure as failure:
                pause_s = attempts.failed(failure, clock())
            else:
                answered = attempts.answered(response, clock())
                if answered is None:
                    return call.read(response)
                pause_s = answered
            await asyncio.sleep(pause_s)


def _check_of(
    listener: AsyncTransactionListener | None,
) -> Callable[[Check], Awaitable[LocalTransactionState]] | None:
    """The listener's answer to a check, if it has one."""
    ask = getattr(listener, "check_local_transaction", None)
    return None if ask is None else lambda check: ask(CheckedMessage.of(check))


class AsyncTransaction:
    """One transaction; made by `AsyncTransactionProducer.transaction()`.

    Its methods may be called from several tasks of one loop; they take turns. What they return
    must be awaited: at the end of the block a call without `await` is TransactionDoomed, and
    nothing is committed.
    """

    def __init__(self, producer: AsyncTransactionProducer, conversation: Conversation) -> None:
        self._producer = producer
        self._talk = conversation
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def id(self) -> str:
        """The transaction id: known before anything is sent, so it can go into the database."""
        return self._talk.transaction_id

    @property
    def handle(self) -> str | None:
        """What ends this transaction from anywhere; None before the first message is stored."""
        return self._talk.handle

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Store one message, invisible, on all in-sync replicas before this returns."""
        messages = [Message(topic, value, key, headers, partition)]
        return self._counted("tx.send", lambda: self._prepare(messages))

    def prepare(self, messages: Sequence[Message]) -> Coroutine[Any, Any, None]:
        """Store several messages in one request."""
        return self._counted("tx.prepare", lambda: self._prepare(messages))

    def commit(self, *, wait_visible: bool = False) -> Coroutine[Any, Any, Ended]:
        """Make the messages visible, before the block ends. May be repeated."""
        return self._counted("tx.commit", lambda: self._commit(wait_visible=wait_visible))

    def rollback(self) -> Coroutine[Any, Any, Ended]:
        """Drop the messages, before the block ends. May be repeated."""
        return self._counted("tx.rollback", lambda: self._roll_back(inf))

    def assert_can_commit(self) -> None:
        """See `Transaction.assert_can_commit`; not awaited, so it cannot be forgotten half-way.

        A message that is still on its way counts as one that was not sent.
        """
        self._require_usable()
        self._talk.assert_can_commit()
        if self._lock.locked():
            raise TransactionDoomed(
                f"a message of transaction {self.id} is still on its way, and may fail: await it"
                " before the local commit"
            )

    async def drop(self, error: BaseException) -> None:
        """See `Transaction.drop`."""
        if not self._talk.wants_end():
            return
        try:
            await self._roll_back(LEAVING_DEADLINE_S)
        except HalfHitchError as failed:
            note_failed_rollback(error, failed)

    async def _prepare(self, messages: Sequence[Message]) -> None:
        self._require_usable()
        async with self._lock:
            call = self._talk.next_send(messages)
            try:
                self._talk.sent(await self._producer.perform(call))
            except BaseException as error:  # of a signal's handler too, when all is stored
                self._talk.send_failed(error)
                raise

    async def _commit(self, *, wait_visible: bool) -> Ended:
        self._require_usable()
        async with self._lock:
            call = self._talk.next_commit(wait_visible=wait_visible)
            if call is None:
                return self._talk.nothing_to_end(Operation.COMMIT)
            return await self._producer.perform(call)

    async def _roll_back(self, at_most_s: float) -> Ended:
        self._require_usable()
        async with self._lock:
            call = self._talk.next_rollback()
            if call is None:
                return self._talk.nothing_to_end(Operation.ROLLBACK)
            return await self._producer.perform(call, at_most_s)

    def _counted(
        self, what: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> Coroutine[Any, Any, T]:
        """A real coroutine, fit for create_task; the block knows whether it was begun."""
        caller = sys._getframe(2)  # noqa: SLF001 - the cheap way; two: the program's own line
        place = f"{caller.f_code.co_filename}:{caller.f_lineno}"
        talk = self._talk

        async def counted() -> T:
            talk.awaited(mark)
            return await work()

        counted.__qualname__ = what  # in Python's own warning, when it was never awaited
        promise = counted()
        mark = talk.called(f"{what} ({place})", promise.close)
        return promise

    def _require_usable(self) -> None:
        self._talk.require_process()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if self._loop is None:
            self._loop = loop
        if loop is None or self._loop is not loop:
            raise TransactionMisused(
                f"transaction {self.id} is used outside the event loop that it was begun in, and"
                " its connections belong to that one: make a producer and a transaction in the"
                " loop that uses them"
            )
        try:
            self._producer.check_open()
        except ProducerClosed:
            raise ProducerClosed(self.id) from None

    async def __aenter__(self) -> Self:
        self._require_usable()
        self._talk.enter()
        self._producer.note_block(self.id, is_running=True)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.note_block(self.id, is_running=False)
        if error is None and self._talk.has_unawaited:
            await asyncio.sleep(0)  # tasks that were made of them begin now
        # After an error they are left to whoever holds them: a task that begins late is refused.
        self._talk.forget_unawaited(are_closed=error is None)
        leaving = self._talk.leave(error)
        if leaving is Leaving.COMMIT:
            try:
                await self._commit(wait_visible=False)
            except TransactionDoomed as doomed:
                if self._talk.leave(doomed) is Leaving.ROLLBACK:
                    await self.drop(doomed)
                raise
        elif leaving is Leaving.ROLLBACK and error is not None:
            await self.drop(error)
