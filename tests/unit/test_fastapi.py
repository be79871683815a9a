"""Rows, messages and the answer to a request agree, whatever ends the request.

FastAPI reads annotations of endpoints when they are made, so here they are no text.
"""

import asyncio
from collections.abc import AsyncIterable, Iterable
from contextlib import AsyncExitStack, suppress
from functools import wraps
from typing import Annotated, Any

import anyio
import httpx2
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Header, HTTPException, Request, Security
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import SecurityScopes
from fastapi.sse import EventSourceResponse
from pydantic import BaseModel
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from halfhitch.barrier import AsyncBarrier, TransactionRecordedTwice
from halfhitch.client import (
    AsyncTransactionProducer,
    ProducerClosed,
    SidecarUnavailable,
    TransactionDoomed,
    TransactionEnded,
    TransactionMisused,
)
from halfhitch.errors import ConfigurationError, UnknownTopic
from halfhitch.fastapi import Block, HalfHitch

pytestmark = pytest.mark.halfhitch(topics={"orders": 1})


class SlowCommit(AsyncSession):
    """Tells that the local commit begins, and lets others run meanwhile."""

    begun: asyncio.Event

    async def commit(self) -> None:
        self.begun.set()
        for _ in range(20):
            await asyncio.sleep(0.01)
        await super().commit()


class Shop:
    """An application with one table, and what came of its requests."""

    def __init__(self, engine: Any, coordinator: Any, **options: Any) -> None:
        self.engine = engine
        self.coordinator = coordinator
        barrier = AsyncBarrier(engine, "shop", wait_s=10)
        self.hitch = HalfHitch(barrier, coordinator.address, **options)
        self.app = FastAPI(lifespan=self.hitch.lifespan)

    async def order(self, block: Block, item: str = "book") -> None:
        await block.tx.send("orders", item)
        await block.session.execute(text("INSERT INTO items VALUES (:item)"), {"item": item})

    async def post(self, path: str = "/orders", **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
            return await client.post(path, **options)

    async def rows(self) -> list[str]:
        async with self.engine.connect() as connection:
            return [row[0] for row in await connection.execute(text("SELECT item FROM items"))]

    def messages(self) -> list[bytes | None]:
        return [message.value for message in self.coordinator.messages("orders")]

    async def advance(self) -> None:
        """In a thread: the checks are answered in this loop."""
        await asyncio.to_thread(self.coordinator.advance, 30)

    async def require_both(self) -> None:
        assert (await self.rows(), self.messages()) == (["book"], [b"book"])

    async def require_nothing(self) -> None:
        """And nothing is left to a check."""
        assert (await self.rows(), self.messages(), self.coordinator.pending()) == ([], [], [])


@pytest.fixture
async def engine(tmp_path):
    made = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    async with made.begin() as connection:
        await connection.execute(text("CREATE TABLE items (item TEXT)"))
    await AsyncBarrier(made, "shop").create()
    yield made
    await made.dispose()


@pytest.fixture
async def running(engine, halfhitch_coordinator):
    """Makes shops whose lifespan runs until the test's end."""
    async with AsyncExitStack() as stack:

        async def run(shop: Shop) -> Shop:
            await stack.enter_async_context(shop.app.router.lifespan_context(shop.app))
            return shop

        yield run


@pytest.fixture
async def shop(engine, halfhitch_coordinator, running):
    return await running(Shop(engine, halfhitch_coordinator))


# -- the end of an endpoint ------------------------------------------------------------------------


async def test_rows_and_messages_are_there_before_the_first_byte_of_the_answer(shop):
    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> dict[str, str]:
        await shop.order(block)
        assert await shop.rows() == []
        return {"transaction_id": block.tx.id}

    then: list[Any] = []
    inner = shop.app

    async def watching(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                then.append((await shop.rows(), shop.messages()))
            await send(message)

        await inner(scope, receive, sending)

    shop.app = watching
    answer = await shop.post()
    assert answer.status_code == 200
    assert answer.json()["transaction_id"]
    assert then == [(["book"], [b"book"])]


class Refusal(Exception):
    pass


async def test_an_exception_of_the_endpoint_leaves_nothing_and_is_answered_as_ever(shop):
    seen: list[Any] = []

    @shop.app.exception_handler(Refusal)
    async def refused(request: Any, error: Exception) -> JSONResponse:
        seen.append((await shop.rows(), shop.coordinator.pending()))
        return JSONResponse({}, 402)

    @shop.app.post("/{kind}")
    async def order(kind: str, block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)
        raise {
            "http": HTTPException(409, "sold out"),
            "own": Refusal(),
            "bug": ZeroDivisionError(),
        }[kind]

    for kind, status in {"http": 409, "own": 402, "bug": 500}.items():
        assert (await shop.post(f"/{kind}")).status_code == status
        await shop.require_nothing()
    assert seen == [([], [])]


async def test_a_value_that_the_response_s_model_refuses_leaves_nothing(shop):
    class Receipt(BaseModel):
        number: int

    @shop.app.post("/orders", response_model=Receipt)
    async def order(block: Annotated[Block, shop.hitch.block]) -> Any:
        await shop.order(block)
        return {"number": "none"}

    assert (await shop.post()).status_code == 500
    await shop.require_nothing()


async def test_a_message_that_was_not_sent_takes_the_rows_with_it(shop):
    caught: list[BaseException] = []

    @shop.app.exception_handler(TransactionDoomed)
    async def doomed(request: Any, error: Exception) -> JSONResponse:
        caught.append(error)
        return JSONResponse({}, 503)

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)
        try:
            await block.tx.send("no such topic", "book")
        except Exception:  # noqa: BLE001 - as a program does that wants to go on
            return

    assert (await shop.post()).status_code == 503
    assert len(caught) == 1
    await shop.require_nothing()


async def test_dependencies_of_one_request_share_a_block(shop):
    async def repository(block: Annotated[Block, shop.hitch.block]) -> Any:
        return lambda: shop.order(block)

    @shop.app.post("/orders")
    async def order(
        block: Annotated[Block, shop.hitch.block],
        producer: Annotated[AsyncTransactionProducer, shop.hitch.producer],
        place: Annotated[Any, Depends(repository)],
    ) -> str:
        assert producer is shop.hitch.running
        await place()
        return block.tx.id

    answer = await shop.post()
    await shop.require_both()
    (message,) = shop.coordinator.messages("orders")
    assert message.transaction_id == answer.json()


async def test_a_background_task_finds_the_block_ended_and_may_have_its_own(shop):
    told: list[Any] = []

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block], tasks: BackgroundTasks) -> None:
        async def later() -> None:
            told.append(await shop.rows())
            with pytest.raises(TransactionEnded):
                await block.tx.send("orders", "late")
            async with shop.hitch.transaction() as own:
                await shop.order(own, "pen")

        tasks.add_task(later)
        await shop.order(block)

    assert (await shop.post()).status_code == 200
    assert told == [["book"]]
    assert (await shop.rows(), shop.messages()) == (["book", "pen"], [b"book", b"pen"])


async def test_a_commit_that_was_not_answered_is_no_failure_of_the_request(shop, caplog):
    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)

    with shop.coordinator.lose_next_commit():
        assert (await shop.post()).status_code == 200
    assert [record.action for record in caplog.records if record.name == "halfhitch.fastapi"] == [
        "fastapi_commit_unanswered"
    ]
    assert (await shop.rows(), shop.messages()) == (["book"], [])
    await shop.advance()
    await shop.require_both()


async def test_a_sidecar_that_is_gone_at_the_commit_is_no_failure_of_the_request(
    engine, halfhitch_coordinator, running
):
    shop = await running(Shop(engine, halfhitch_coordinator, deadline_s=0.5))

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)

        async def refuse(call: Any, at_most_s: float = 0) -> None:
            raise SidecarUnavailable("http://127.0.0.1:1", "refused")

        shop.hitch.running.perform = refuse

    assert (await shop.post()).status_code == 200
    assert (await shop.rows(), shop.messages()) == (["book"], [])
    await shop.advance()
    await shop.require_both()


async def test_a_producer_that_closed_behind_the_local_commit_was_a_failure_of_the_work(
    engine, halfhitch_coordinator, caplog
):
    """The lifespan may end before the last piece of work; its rows stand all the same."""
    shop = Shop(engine, halfhitch_coordinator)

    async def work(moment: str) -> None:
        async with shop.hitch.transaction() as block:
            await shop.order(block)

            @event.listens_for(block.session.sync_session, moment)
            def close(*_: Any) -> None:
                shop.hitch.running.check_open = closed

    def closed() -> None:
        raise ProducerClosed

    async with shop.hitch.lifespan():
        with pytest.raises(ProducerClosed):  # before it: nothing is committed
            await work("before_commit")
        del shop.hitch.running.check_open
        await shop.advance()
        await shop.require_nothing()
        await work("after_commit")
        del shop.hitch.running.check_open
        await shop.advance()
        await shop.require_both()
    told = [record.action for record in caplog.records if record.name == "halfhitch.fastapi"]
    assert told == ["fastapi_commit_unanswered"]


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    item: Mapped[str] = mapped_column(primary_key=True)


@pytest.mark.parametrize("made_by", ["barrier", "program"])
async def test_rows_of_a_session_whose_block_had_ended_were_lost_without_a_word(
    engine, halfhitch_coordinator, running, made_by
):
    given = {} if made_by == "barrier" else {"sessions": async_sessionmaker(engine)}
    shop = await running(Shop(engine, halfhitch_coordinator, **given))
    refused: list[str] = []

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> StreamingResponse:
        await shop.order(block)

        async def body() -> Any:
            with pytest.raises(TransactionMisused, match="block has ended"):
                block.session.add(Item(item="late"))
            for _ in range(2):
                with pytest.raises(TransactionMisused, match=r"hitch\.transaction"):
                    await block.session.execute(text("INSERT INTO items VALUES ('late')"))
            await block.session.close()
            refused.append("all")
            yield b""

        return StreamingResponse(body())

    assert (await shop.post()).status_code == 200
    assert refused == ["all"]
    await shop.require_both()


@pytest.mark.parametrize("kind", ["lines", "events", "wrapped", "blocking", "called"])
async def test_an_endpoint_that_yields_worked_in_a_block_that_was_ending(shop, kind):
    """A row without its message was committed, or the other way round, and the answer was 200."""
    started: list[str] = []

    async def order(block: Annotated[Block, shop.hitch.block]) -> AsyncIterable[dict[str, int]]:
        started.append(kind)
        await shop.order(block)
        yield {"n": 1}

    def blocking(block: Annotated[Block, shop.hitch.block]) -> Iterable[dict[str, int]]:
        started.append(kind)
        yield {"n": 1}

    @wraps(order)
    def wrapped(*given: Any, **named: Any) -> Any:
        return order(*given, **named)

    class Called:
        async def __call__(
            self, block: Annotated[Block, shop.hitch.block]
        ) -> AsyncIterable[dict[str, int]]:
            started.append(kind)
            yield {"n": 1}

    caught: list[str] = []

    @shop.app.exception_handler(TransactionMisused)
    async def misused(request: Any, error: Exception) -> JSONResponse:
        caught.append(str(error))
        return JSONResponse({}, 500)

    made = {"wrapped": wrapped, "blocking": blocking, "called": Called()}.get(kind, order)
    given = {"response_class": EventSourceResponse} if kind == "events" else {}
    shop.app.post("/orders", **given)(made)
    assert (await shop.post()).status_code == 500
    assert ["this endpoint yields" in told for told in caught] == [True]
    assert started == []
    await shop.require_nothing()


async def test_a_session_that_is_given_again_works_in_its_next_block(
    engine, halfhitch_coordinator, running
):
    only = AsyncSession(engine)
    shop = await running(Shop(engine, halfhitch_coordinator, sessions=lambda: only))
    for _ in range(2):
        async with shop.hitch.transaction() as block:
            await shop.order(block)
        with pytest.raises(TransactionMisused):
            await only.execute(text("SELECT 1"))
    assert await shop.rows() == ["book", "book"]


# -- a request that is cancelled -------------------------------------------------------------------


async def hang_up(shop: Shop, when: asyncio.Event, how: str) -> None:
    """The client is gone as soon as `when` is set; how that is told depends on who tells."""

    async def request() -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/orders",
            "headers": [],
            "query_string": b"",
            "http_version": "1.1",
            "asgi": {"version": "3.0"},
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            await asyncio.sleep(0)

        await shop.app(scope, receive, send)

    if how == "anyio":  # a middleware's task group
        async with anyio.create_task_group() as group:
            group.start_soon(request)
            await when.wait()
            group.cancel_scope.cancel()
        return
    task = asyncio.create_task(request())
    await when.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", ["anyio", "asyncio"])
async def test_a_client_that_hangs_up_while_the_endpoint_works_leaves_nothing(shop, how):
    working = asyncio.Event()

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)
        working.set()
        await asyncio.sleep(60)

    await hang_up(shop, working, how)
    await shop.require_nothing()


@pytest.mark.parametrize("how", ["anyio", "asyncio"])
async def test_a_client_that_hung_up_in_the_local_commit_left_it_half_done(
    engine, halfhitch_coordinator, running, how
):
    """The cancellation cut the commit off; what was undecided waited for a check."""
    begun = asyncio.Event()

    def session() -> SlowCommit:
        made = SlowCommit(engine)
        made.begun = begun
        return made

    shop = await running(Shop(engine, halfhitch_coordinator, sessions=session))

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> None:
        await shop.order(block)

    await hang_up(shop, begun, how)
    await shop.require_both()
    assert shop.coordinator.pending() == []


async def test_a_server_that_cancels_twice_does_not_wait_for_a_database_that_hangs(
    engine, halfhitch_coordinator, running
):
    begun = asyncio.Event()

    class Hanging(AsyncSession):
        async def commit(self) -> None:
            begun.set()
            await asyncio.sleep(60)

    shop = await running(Shop(engine, halfhitch_coordinator, sessions=lambda: Hanging(engine)))

    async def work() -> None:
        async with shop.hitch.transaction() as block:
            await shop.order(block)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0.05)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await shop.advance()
    await shop.require_nothing()


# -- ids of the caller's own -----------------------------------------------------------------------


async def test_a_request_that_is_repeated_under_its_key_does_its_work_once(shop):
    def key(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
        return idempotency_key

    @shop.app.exception_handler(TransactionRecordedTwice)
    async def done_before(request: Any, error: Exception) -> JSONResponse:
        return JSONResponse({"done": True}, 200)

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block_of(key)]) -> dict[str, bool]:
        await shop.order(block)
        return {"done": False}

    first = await shop.post(headers={"Idempotency-Key": "order-17"})
    second = await shop.post(headers={"Idempotency-Key": "order-17"})
    assert (first.json(), second.json()) == ({"done": False}, {"done": True})
    await shop.require_both()
    assert [(await shop.post()).json() for _ in range(2)] == [{"done": False}] * 2


def key(idempotency_key: Annotated[str, Header()]) -> str:
    return idempotency_key


def other_key(idempotency_key: Annotated[str, Header()]) -> str:
    return "other-" + idempotency_key


def mentions_scopes(
    scopes: SecurityScopes, idempotency_key: Annotated[str | None, Header()] = None
) -> str | None:
    """FastAPI calls it, and what depends on it, once for each list of scopes."""
    return idempotency_key


KEYED = {"headers": {"Idempotency-Key": "order-17"}}


def endpoint_and_repository(shop: Shop, for_endpoint: Any, for_repository: Any) -> None:
    """One sends, the other works on the rows; it is Security, which matters to few."""

    async def repository(block: Annotated[Block, for_repository]) -> Any:
        async def put() -> Block:
            await block.session.execute(text("INSERT INTO items VALUES ('book')"))
            return block

        return put

    @shop.app.post("/orders")
    async def order(
        block: Annotated[Block, for_endpoint],
        put: Annotated[Any, Security(repository, scopes=["write"])],
        topic: str = "orders",
    ) -> None:
        assert (await put()) is block
        with suppress(UnknownTopic):
            await block.tx.send(topic, "book")


@pytest.mark.parametrize("kind", ["twice", "scopes", "beside"])
async def test_a_request_had_two_blocks_of_which_one_was_committed_without_the_other(shop, kind):
    made = shop.hitch.block_of(mentions_scopes)
    by_endpoint, by_repository = {
        "twice": (shop.hitch.block_of(key), shop.hitch.block_of(key)),
        "scopes": (made, made),
        "beside": (shop.hitch.block_of(key), shop.hitch.block),
    }[kind]
    endpoint_and_repository(shop, by_endpoint, by_repository)
    doomed = {"headers": {"Idempotency-Key": "order-16"}, "params": {"topic": "none"}}
    assert (await shop.post(**doomed)).status_code == 500
    await shop.require_nothing()
    assert (await shop.post(**KEYED)).status_code == 200
    await shop.require_both()
    (message,) = shop.coordinator.messages("orders")
    assert message.transaction_id == "order-17"


@pytest.mark.parametrize("first", ["block", "other"])
async def test_a_second_id_in_one_request_is_refused_before_its_endpoint(shop, first):
    caught: list[str] = []

    @shop.app.exception_handler(TransactionMisused)
    async def misused(request: Any, error: Exception) -> JSONResponse:
        caught.append(str(error))
        return JSONResponse({}, 500)

    opener = shop.hitch.block if first == "block" else shop.hitch.block_of(other_key)
    endpoint_and_repository(shop, opener, shop.hitch.block_of(key))
    assert (await shop.post(**KEYED)).status_code == 500
    (told,) = caught
    works_in = "a block under a new id" if first == "block" else "transaction other-order-17"
    assert works_in in told
    assert "none for transaction order-17" in told
    await shop.require_nothing()


@pytest.mark.parametrize("swallows", [False, True])
async def test_an_exception_of_a_dependency_that_shares_the_block_reaches_who_opened_it(
    shop, swallows
):
    async def opener(block: Annotated[Block, shop.hitch.block_of(key)]) -> Any:
        try:
            yield
        except HTTPException:
            if not swallows:
                raise

    @shop.app.post("/orders")
    async def order(
        _: Annotated[None, Depends(opener, scope="function")],
        block: Annotated[Block, shop.hitch.block],
    ) -> None:
        await shop.order(block)
        raise HTTPException(409, "sold out")

    assert (await shop.post(**KEYED)).status_code == 409
    await shop.require_nothing()


async def test_requests_at_the_same_time_have_blocks_of_their_own(shop):
    """One is made within the other, of a copy of its scope, as batches are."""

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, shop.hitch.block]) -> str:
        await shop.order(block)
        return block.tx.id

    @shop.app.post("/batch")
    async def batch(request: Request, block: Annotated[Block, shop.hitch.block]) -> list[str]:
        inner = httpx2.ASGITransport(
            lambda scope, receive, send: shop.app(
                {**request.scope, "path": "/orders"}, receive, send
            )
        )
        async with httpx2.AsyncClient(transport=inner, base_url="http://shop") as client:
            return [block.tx.id, (await client.post("/orders")).json()]

    first, second = (await shop.post("/batch")).json()
    assert first != second
    await shop.require_both()


# -- sessions, and what is made wrong --------------------------------------------------------------


async def test_a_session_of_the_program_s_own_making_is_closed(
    engine, halfhitch_coordinator, running
):
    made: list[Any] = []

    class Watched(AsyncSession):
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True
            await super().close()

    def session() -> AsyncSession:
        made.append(Watched(engine, expire_on_commit=False))
        return made[-1]

    shop = await running(Shop(engine, halfhitch_coordinator, sessions=session))
    async with shop.hitch.transaction() as block:
        assert block.session is made[0]
        await shop.order(block)
    assert made[0].is_closed
    await shop.require_both()


async def test_a_block_cannot_be_put_behind_the_response(shop):
    with pytest.raises(Exception, match="callable"):

        @shop.app.post("/orders")
        async def order(block: Annotated[Block, Depends(shop.hitch.block)]) -> None: ...


async def test_a_blocking_barrier_is_refused():
    with pytest.raises(ConfigurationError, match="takes an AsyncBarrier, not str"):
        HalfHitch("shop")


# -- the lifespan ----------------------------------------------------------------------------------


async def test_a_request_without_the_lifespan_says_what_is_missing(engine, halfhitch_coordinator):
    shop = Shop(engine, halfhitch_coordinator)
    with pytest.raises(ConfigurationError, match=r"FastAPI\(lifespan=hitch.lifespan\)"):
        async with shop.hitch.transaction():
            pass


async def test_the_producer_lives_as_long_as_the_application_and_can_live_again(
    engine, halfhitch_coordinator
):
    shop = Shop(engine, halfhitch_coordinator)
    lives = []
    for _ in range(2):
        async with shop.hitch.lifespan(shop.app):
            lives.append(shop.hitch.running)
            with pytest.raises(ConfigurationError, match="begun already"):
                async with shop.hitch.lifespan():
                    pass
            async with shop.hitch.transaction() as block:
                await block.tx.send("orders", "book")
        with pytest.raises(ProducerClosed):
            lives[-1].check_open()
    assert lives[0] is not lives[1]


async def test_an_application_starts_although_no_sidecar_is_there(engine, halfhitch_coordinator):
    shop = Shop(engine, halfhitch_coordinator)
    hitch = HalfHitch(AsyncBarrier(engine, "shop"), "http://127.0.0.1:1", deadline_s=0.2)

    @shop.app.post("/orders")
    async def order(block: Annotated[Block, hitch.block]) -> None:
        await shop.order(block)

    async with hitch.lifespan():
        assert (await shop.post()).status_code == 500
    assert await shop.rows() == []
