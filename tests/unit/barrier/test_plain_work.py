"""A block on a plain driver's connection."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import TransactionProducer
from halfhitch.barrier import DbapiBarrier, plain_work, statement
from halfhitch.errors import InvalidRequest
from halfhitch.testing import MemoryCoordinator
from harness.barriers import RecordingProducer
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id TEXT)")
    connection.close()
    DbapiBarrier(lambda: sqlite3.connect(path), "shop").create()
    return path


def ids(file: Path) -> list[str]:
    connection = sqlite3.connect(file)
    found = [str(row[0]) for row in connection.execute("SELECT id FROM orders ORDER BY id")]
    connection.close()
    return found


def test_a_handler_that_raised_left_a_connection_with_its_lock(file: Path) -> None:
    """While somebody kept the exception, nobody else could write."""
    barrier = DbapiBarrier(lambda: sqlite3.connect(file, timeout=0.5), "shop")
    kept: list[BaseException] = []
    with (
        MemoryCoordinator(topics={"orders": 1}) as coordinator,
        TransactionProducer("shop", coordinator.address, check=barrier.check) as producer,
    ):

        def block(name: str) -> None:
            with barrier.transaction(producer, name) as (tx, connection):
                tx.send("orders", name)
                connection.execute("INSERT INTO orders VALUES (?)", (name,))

        for number, strike in enumerate(strikes(plain_work, statement, is_real=True)):
            with strike:
                try:
                    block(f"{number}-struck")
                except Struck as struck:
                    kept.append(struck)
                    block(f"{number}-again")
                    raise
            kept.clear()
        for _ in range(3):
            coordinator.advance(60)
        sent = sorted(str(message.value, "utf-8") for message in coordinator.messages("orders"))
    assert sent == ids(file)
    assert sum(name.endswith("again") for name in sent) == number


def test_what_the_connection_may_not_be_is_told_before_the_block(file: Path) -> None:
    closed = []

    @contextmanager
    def used() -> Iterator[Any]:
        connection = sqlite3.connect(file)
        connection.execute("INSERT INTO orders VALUES ('before')")
        try:
            yield connection
        finally:
            connection.close()
            closed.append(connection)

    producer: Any = RecordingProducer()
    with pytest.raises(InvalidRequest), DbapiBarrier(used, "shop").transaction(producer):
        pytest.fail("it was begun")
    assert len(closed) == 1
    assert ids(file) == []
