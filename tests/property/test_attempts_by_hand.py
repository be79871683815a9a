"""Attempts under one id in one process, by hand, that swallow what they like: is anything lost?

The crash matrix gives each attempt a process of its own, and its programs swallow no refusal.
"""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from halfhitch.barrier import Barrier, DbapiBarrier
from halfhitch.client import Message, TransactionProducer
from halfhitch.errors import HalfHitchError
from halfhitch.testing import MemoryCoordinator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUP, TOPIC = "shop", "orders"
ORDER_COUNT, MESSAGES_MAX = 40, 3
FAR_S = 3_600


class ApplicationError(Exception):
    """A bug of the program's own."""


class Program:
    """Makes orders; each step is the seed's."""

    def __init__(
        self, rng: random.Random, producer: TransactionProducer, database: Alchemy | Plain
    ) -> None:
        self.rng = rng
        self.producer = producer
        self.database = database
        self.kept: list[object] = []

    def attempt(self, order_id: str) -> None:
        """With a transaction object, or by a handle."""
        count = self.rng.randint(1, MESSAGES_MAX)
        values = [str(number) for number in range(count)]
        if self.rng.random() < 0.5:
            with self.producer.transaction(order_id) as tx:
                if self.rng.random() < 0.5:
                    self.kept.append(tx)
                for value in values:
                    tx.send(TOPIC, value)
                self.work(order_id, count)
            return
        prepared = self.producer.prepare([Message(TOPIC, values[0])], order_id)
        for value in values[1:]:
            prepared = self.producer.add(prepared.handle, [Message(TOPIC, value)])
        self.work(order_id, count)
        self.producer.commit(prepared.handle)

    def work(self, order_id: str, count: int) -> None:
        """The local transaction, again if it failed; then what may fail behind it."""
        for _ in range(self.rng.randint(1, 2)):
            try:
                with self.database.begin() as local:
                    insert = f"INSERT INTO orders VALUES ('{order_id}', {count})"
                    local.execute(text(insert) if isinstance(local, Session) else insert)
                    self.database.barrier.record(local, order_id)
                    if self.rng.random() < 0.4:
                        raise ApplicationError
            except (HalfHitchError, ApplicationError):
                if self.rng.random() < 0.3:
                    raise
        if self.rng.random() < 0.5:
            raise ApplicationError


class Alchemy:
    """Over SQLAlchemy."""

    def __init__(self, place: Path) -> None:
        self._engine = create_engine(f"sqlite:///{place}")
        self.barrier: Any = Barrier(self._engine, GROUP)

    @contextmanager
    def begin(self) -> Iterator[Any]:
        """A local transaction."""
        with Session(self._engine) as session, session.begin():
            yield session

    def close(self) -> None:
        self._engine.dispose()


class Plain:
    """On connections of sqlite3's own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.barrier: Any = DbapiBarrier(self._connect, GROUP)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._place, check_same_thread=False)

    @contextmanager
    def begin(self) -> Iterator[Any]:
        """A local transaction."""
        with closing(self._connect()) as connection, connection:
            yield connection

    def close(self) -> None:
        """Each is closed by whoever has opened it."""


@pytest.mark.parametrize("kind", [Alchemy, Plain])
@pytest.mark.parametrize("seed", range(2))
def test_attempts_that_swallow_lose_and_invent_nothing(
    tmp_path: Path, kind: type[Alchemy | Plain], seed: int
) -> None:
    place = tmp_path / "shop.db"
    with closing(sqlite3.connect(place)) as made:
        made.execute("CREATE TABLE orders (id TEXT, messages INTEGER)")
    rng, database = random.Random(seed), kind(place)
    database.barrier.create()
    with (
        closing(database),
        MemoryCoordinator({TOPIC: 1}) as coordinator,
        TransactionProducer(GROUP, coordinator.address, check=database.barrier.check) as producer,
    ):
        program = Program(rng, producer, database)
        for number in range(ORDER_COUNT):
            for _ in range(rng.randint(1, 3)):
                with suppress(HalfHitchError, ApplicationError):
                    program.attempt(f"{kind.__name__}-{seed}-{number}")
        coordinator.advance(FAR_S)
        visible = defaultdict(set)
        for message in coordinator.messages(TOPIC):
            visible[message.transaction_id].add(int(message.value or b""))
        pending = coordinator.pending()
    with closing(sqlite3.connect(place)) as connection:
        rows = dict(connection.execute("SELECT id, messages FROM orders"))
    lost = {one for one, count in rows.items() if not visible[one] >= set(range(count))}
    invented = {one for one, found in visible.items() if found and one not in rows}
    assert (lost, invented, pending) == (set(), set(), [])
    assert 0 < len(rows) < ORDER_COUNT
