"""Half Hitch in a FastAPI application: rows, messages and the answer to a request agree.

    hitch = HalfHitch(AsyncBarrier(engine, "orders"))
    app = FastAPI(lifespan=hitch.lifespan)

    @app.post("/orders")
    async def order(item: str, block: Annotated[Block, hitch.block]) -> dict[str, str]:
        await block.tx.send("order-events", item)
        block.session.add(Order(item=item))
        return {"transaction_id": block.tx.id}

The barrier's block ends behind the endpoint and behind the making of its response, and before the
first byte of that is sent. So an exception of either (an HTTPException, a value that the response's
model refuses) rolls rows and messages back, and who reads 200 can rely on both.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, NamedTuple

from halfhitch import extras
from halfhitch.errors import BackendError, ConfigurationError

try:
    from anyio import CancelScope
    from fastapi import Depends
    from fastapi.requests import HTTPConnection
    from sqlalchemy import event
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    from halfhitch.barrier import AsyncBarrier
except ModuleNotFoundError as error:
    raise extras.missing("halfhitch.fastapi", error, wanted=extras.FASTAPI) or error from None

from halfhitch.client import (
    AsyncTransaction,
    AsyncTransactionProducer,
    ProducerClosed,
    TransactionMisused,
)

__all__ = ["Block", "HalfHitch"]

log = logging.getLogger("halfhitch.fastapi")


class Block(NamedTuple):
    """What an endpoint does its work with; both end together, behind it."""

    tx: AsyncTransaction
    session: AsyncSession


class _Opened:
    """The block of a request, for those of its dependencies that ask for one."""

    def __init__(self, block: Block, *, is_new: bool) -> None:
        self.block = block
        self.error: BaseException | None = None
        self._is_new = is_new

    def require(self, transaction_id: str | None) -> None:
        """Raises TransactionMisused; the request fails by it, and the block is rolled back."""
        if transaction_id is None or transaction_id == self.block.tx.id:
            return
        told = (
            "a block under a new id"
            if self._is_new
            else f"the block of transaction {self.block.tx.id}"
        )
        raise TransactionMisused(
            f"this request works in {told} already, so there is none for transaction"
            f" {transaction_id}: a request has one block. Let all its dependencies that say"
            " block_of take the same id, and stand before those that say block: parameters are"
            " served from left to right"
        )


class HalfHitch:
    """The producer of an application, and the barrier's block for its endpoints.

    barrier: of the application's database; its group is the producer's, its check answers checks.
    address, options: what `AsyncTransactionProducer` takes besides (token, tls, deadline_s ...).
    sessions: makes the blocks' sessions, an `async_sessionmaker` for example; the barrier does if
        this is not given.

    `producer` and `block` are FastAPI's dependencies: `Annotated[Block, hitch.block]`. They are not
    functions, so that nobody puts them into a Depends with another scope: a block of the scope
    "request" would end behind the response, which would tell of rows that are not there yet.
    """

    def __init__(
        self,
        barrier: AsyncBarrier,
        address: str | None = None,
        *,
        sessions: Callable[[], AsyncSession] | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(barrier, AsyncBarrier):
            raise ConfigurationError(
                f"HalfHitch takes an AsyncBarrier, not {type(barrier).__name__}: endpoints await"
                " their database"
            )
        self._barrier = barrier
        self._address = address
        self._sessions = sessions
        self._options = options
        self._running: AsyncTransactionProducer | None = None
        #: By the request, which is compared by identity: a copy of its scope is another request's.
        self._opened: dict[HTTPConnection, _Opened] = {}
        self.producer: Any = Depends(self._producer, scope="function")
        self.block: Any = Depends(self._block, scope="function")

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """The producer's life, from its first check to its last; for `FastAPI(lifespan=...)`.

        Within a lifespan of your own, let the database's engine outlive it: checks use both.
        """
        if self._running is not None:
            raise ConfigurationError(
                "the lifespan of this HalfHitch has begun already: give each application one of"
                " its own, or put the two applications under one lifespan"
            )
        barrier = self._barrier
        async with AsyncTransactionProducer(
            barrier.group, self._address, check=barrier.check, **self._options
        ) as producer:
            self._running = producer
            try:
                yield
            finally:
                self._running = None

    @property
    def running(self) -> AsyncTransactionProducer:
        """The producer, for what is no endpoint. Raises ConfigurationError outside the lifespan."""
        if self._running is None:
            raise ConfigurationError(
                "this HalfHitch has no producer: its lifespan has not begun, or is over. Say"
                " FastAPI(lifespan=hitch.lifespan), or `async with hitch.lifespan():` in your own;"
                " a test client runs it only in a `with` block"
            )
        return self._running

    def block_of(self, id_of: Callable[..., Any]) -> Any:
        """`block` under an id of the caller's own, which the dependency `id_of` gives.

        An Idempotency-Key, for example, so that a request that is repeated does its work once; None
        makes a new one. What a second attempt is told is the barrier's: TransactionRecordedTwice.
        """

        async def opened(
            request: HTTPConnection, transaction_id: Annotated[str | None, Depends(id_of)]
        ) -> AsyncIterator[Block]:
            async with self._shared(request, transaction_id) as block:
                yield block

        return Depends(opened, scope="function")

    @asynccontextmanager
    async def transaction(
        self, transaction_id: str | None = None, *, immunity_s: int | None = None
    ) -> AsyncIterator[Block]:
        """The same block where there is no endpoint: in a background task, on a web socket.

        Who leaves it is not held up by a request that is cancelled: what has begun to end ends.
        """
        block = self._unshielded(transaction_id, immunity_s)
        entered = await block.__aenter__()
        try:
            yield entered
        except BaseException as error:
            await _to_the_end(block.__aexit__(type(error), error, error.__traceback__))
            raise
        try:
            await _to_the_end(block.__aexit__(None, None, None))
        except (BackendError, ProducerClosed) as unanswered:
            if not entered.tx.rows_stand:
                raise
            # The rows are committed, and so will the messages be: whoever is told of a failure
            # would do the work again.
            log.warning(
                "transaction %s: its rows are committed, and the commit of its messages was not"
                " answered; the check-back commits them (%s)",
                entered.tx.id,
                unanswered,
                extra={"action": "fastapi_commit_unanswered"},
            )

    @asynccontextmanager
    async def _unshielded(
        self, transaction_id: str | None, immunity_s: int | None
    ) -> AsyncIterator[Block]:
        session = None if self._sessions is None else self._sessions()
        if session is not None:
            _reopen(session)
        try:
            async with AsyncExitStack() as stack:
                if session is not None:
                    await stack.enter_async_context(session)
                tx, found = await stack.enter_async_context(
                    self._barrier.transaction(
                        self.running, transaction_id, session=session, immunity_s=immunity_s
                    )
                )
                session = found
                yield Block(tx, found)
        finally:
            if session is not None:
                event.listen(session.sync_session, "after_transaction_create", _refuse)

    async def _producer(self) -> AsyncTransactionProducer:
        return self.running

    async def _block(self, request: HTTPConnection) -> AsyncIterator[Block]:
        async with self._shared(request, None) as block:
            yield block

    @asynccontextmanager
    async def _shared(
        self, request: HTTPConnection, transaction_id: str | None
    ) -> AsyncIterator[Block]:
        """The request's block, opened by the first who asks, who is the last to be left.

        FastAPI's own cache is not enough: each `block_of` is a dependency of its own, and under
        security scopes even the same one is called again.
        """
        _require_no_generator(request)
        opened = self._opened.get(request)
        if opened is not None:
            opened.require(transaction_id)
            try:
                yield opened.block
            except BaseException as error:
                opened.error = error
                raise
            return
        async with self.transaction(transaction_id) as block:
            opened = self._opened[request] = _Opened(block, is_new=transaction_id is None)
            try:
                yield block
            finally:
                del self._opened[request]
            if opened.error is not None:  # somebody between the two has swallowed it
                raise opened.error


def _require_no_generator(request: HTTPConnection) -> None:
    """Raises TransactionMisused, as long as the client can be told.

    FastAPI makes the body of one behind the block. Server-sent events are made in a task that
    begins while the block ends: a part of the endpoint would be committed, and the rest refused.
    """
    endpoint: Any = request.scope.get("endpoint")
    for call in (inspect.unwrap(endpoint), getattr(endpoint, "__call__", None)):  # noqa: B004
        if inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
            raise TransactionMisused(
                "this endpoint yields, so it runs behind the block that it or a dependency of it"
                " asks for: what it does would not be committed. Open one where the work is done,"
                " in the endpoint or in that dependency: `async with hitch.transaction() as block:`"
            )


def _reopen(session: AsyncSession) -> None:
    """One that a scoped registry gives again works in its next block."""
    if event.contains(session.sync_session, "after_transaction_create", _refuse):
        event.remove(session.sync_session, "after_transaction_create", _refuse)


def _refuse(session: Session, _: object) -> None:
    """Behind the block nobody would commit what is done, and nobody would be told."""
    session.close()  # else its next step found a transaction, and went on
    raise TransactionMisused(
        "this session's block has ended, and nobody would commit what it does now. A response that"
        " is streamed, an endpoint that yields and a background task run behind the block: let"
        " them open one of their own, `async with hitch.transaction() as block:`"
    )


async def _to_the_end(leaving: Coroutine[Any, Any, bool | None]) -> None:
    """In a task of its own: a client that hangs up must not cut a commit off in the middle.

    anyio (middlewares of Starlette's) cancels again and again what is inside its scope, until the
    scope is left; asyncio (a server that stops) once. A second time is meant: then it is cancelled,
    and what is undecided is the check-back's.
    """
    task = asyncio.create_task(leaving)
    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                if cancelled is not None:
                    task.cancel()
                cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    await task
