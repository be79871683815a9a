"""An `async def` where nothing awaits: refused, and where that cannot be seen, told."""

import functools
import logging
from unittest.mock import AsyncMock, Mock

import pytest

from halfhitch.client import AsyncTransactionProducer, LocalTransactionState, TransactionProducer
from halfhitch.client.notes import result_of
from halfhitch.client.unawaited import is_async, not_a_state
from halfhitch.client.values import Prepared
from halfhitch.errors import ConfigurationError
from harness.check_streams import ChecksDoor
from harness.producers import driven

COMMIT = LocalTransactionState.COMMIT


async def awaited(check, *_):
    return COMMIT


async def many(check):
    yield COMMIT


def plain(check, *_):
    return COMMIT


class Caller:
    async def __call__(self, check):
        return COMMIT

    async def method(self, check):
        return COMMIT

    @classmethod
    async def of_class(cls, check):
        return COMMIT

    @staticmethod
    async def of_none(check):
        return COMMIT


ASYNC = {
    "function": awaited,
    "generator": many,
    "partial": functools.partial(functools.partial(awaited)),
    "object": Caller(),
    "partial of an object": functools.partial(Caller()),
    "method": Caller().method,
    "method of the class": Caller.of_class,
    "static method": Caller.of_none,
    "mock": AsyncMock(),
}


@pytest.mark.parametrize("kind", ASYNC)
def test_an_async_check_of_a_blocking_producer_was_taken_and_always_unknown(kind):
    assert is_async(ASYNC[kind])
    with pytest.raises(ConfigurationError, match=r"check is an async function.*plain function"):
        TransactionProducer("orders", check=ASYNC[kind], answers_checks=False)
    with pytest.raises(ConfigurationError, match="AsyncTransactionProducer"):
        TransactionProducer(
            "orders", listener=Mock(check_local_transaction=ASYNC[kind]), answers_checks=False
        )


def test_a_listener_whose_local_transaction_is_async_was_taken():
    class Listener:
        execute_local_transaction = staticmethod(awaited)

    with pytest.raises(ConfigurationError, match="the listener's execute_local_transaction is an"):
        TransactionProducer("orders", listener=Listener())


@pytest.mark.parametrize("function", [plain, functools.partial(plain), Mock(), print, Caller, None])
def test_what_can_be_called_is_taken(function):
    assert not is_async(function)
    TransactionProducer("orders", check=function, answers_checks=False).close()


@pytest.mark.parametrize("kind", ASYNC)
def test_an_asyncio_producer_takes_it(kind):
    AsyncTransactionProducer("orders", check=ASYNC[kind], answers_checks=False)


def test_a_coroutine_that_a_plain_check_returned_is_told_and_closed(caplog):
    """Nobody sees it before; then Python's warning, at some later time, was all there was."""
    with (
        ChecksDoor() as door,
        driven("sync", "orders", door.address, check=lambda check: awaited(check)),  # noqa: PLW0108
        caplog.at_level(logging.ERROR, "halfhitch.client"),
    ):
        door.stream().check("t1")
        assert door.until_ends(1) == [("t1", "unknown")]
        (answer,) = [r.header("Half-Reason") for r in door.requests if r.method == "POST"]
    assert answer == (
        "TypeError: a check returned a coroutine, of which nothing has run: let it return a"
        " LocalTransactionState (`async def` is for AsyncTransactionProducer)"
    )
    assert [record.action for record in caplog.records] == ["check_failed"]


def test_a_coroutine_of_a_local_transaction_is_told_and_closed(caplog):
    told = awaited(None)
    result = result_of(Prepared("t1", "h1"), told)
    assert result.state is LocalTransactionState.UNKNOWN
    assert "execute_local_transaction returned a coroutine" in str(result.error)
    assert told.cr_frame is None  # closed: no warning follows


def test_what_else_is_awaited_and_what_is_no_state_is_named():
    class Future:
        def __await__(self):
            yield

    assert "a check returned a Future" in str(not_a_state(Future(), "a check"))
    assert str(not_a_state(1, "a check")) == "a check must return a LocalTransactionState, not int"
