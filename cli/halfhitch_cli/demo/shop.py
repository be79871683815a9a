"""The order service: each order is one local transaction and two messages on two topics.

This is what an application looks like that uses Half Hitch: `take_order` is the part to copy, and
the two lines of `main` that make the barrier and the producer. The rest makes trouble: some orders
fail and are rolled back, and at some the whole process dies without a word, before or after its
local commit, to be started again by whoever watches it. A process that is there, the same or
another, is then asked what became of the order, and the barrier answers from the database. And some
take so long that they are asked about while they are still at it: the barrier fences them, and
their local commit, which comes too late, must fail.

    python -m halfhitch_cli.demo.shop --database FILE --address unix:PATH --share 0/3 ...
"""

import argparse
import json
import os
import queue
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, String, column, create_engine, event, select, table
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry

from halfhitch import Message, TransactionProducer
from halfhitch.barrier import Barrier, TransactionFenced
from halfhitch.barrier.table import DEFAULT_TABLE, FENCED
from halfhitch.errors import HalfHitchError

GROUP: Final = "shop"
ORDERS: Final = "orders"
POINTS: Final = "points"
CUSTOMERS: Final = 50

#: Ids of which the barrier has said, for good, that they were not committed.
FENCED_IDS: Final = (
    select(column("transaction_id", String))
    .select_from(table(DEFAULT_TABLE))
    .where(column("outcome", String) == FENCED)
)

_ROLLED_BACK_SHARE: Final = 0.1
_DEADLINE_S: Final = 90.0  # longer than a coordinator needs to be started again
_CHECK_WAIT_S: Final = 5.0  # SQLite has one writer at a time, and a check is one of many
_LATE_COUNT: Final = 3
_LATE_S: Final = 30.0  # so long a check may be in coming
_LOOK_EVERY_S: Final = 0.1


class Base(DeclarativeBase):
    """Tables of the shop."""


class Attempt(Base):
    """An order somebody has begun to take. Written before anything else: the ground truth."""

    __tablename__ = "attempts"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    transaction_id: Mapped[str] = mapped_column(String(64))


class Order(Base):
    """An order that was taken: it exists if and only if its local transaction was committed."""

    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    transaction_id: Mapped[str] = mapped_column(String(64), unique=True)
    customer: Mapped[str] = mapped_column(String(32))
    points: Mapped[int]


class Refusal(Base):
    """An order whose local commit came after a check had fenced it, and failed."""

    __tablename__ = "refusals"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    transaction_id: Mapped[str] = mapped_column(String(64))


class OutOfStockError(Exception):
    """Why an order is rolled back."""


class Fate(Enum):
    """What becomes of an order."""

    TAKEN = "taken"
    OUT_OF_STOCK = "out of stock"
    DIES_BEFORE = "the process dies before its local commit"
    DIES_AFTER = "the process dies after its local commit, before it could tell"
    LATE = "it hangs, and is asked about, before its local commit"


class Fates:
    """Every order's fate, from the seed: the same in every process."""

    def __init__(self, seed: int, order_count: int, deaths: int) -> None:
        rng = random.Random(f"deaths {seed}")  # noqa: S311 - a demo's dice
        # Not at the very end: a death must have something to disturb.
        numbers = rng.sample(range(order_count // 20, order_count * 9 // 10), k=deaths)
        self._chosen = {
            number: (Fate.DIES_BEFORE, Fate.DIES_AFTER)[place % 2]
            for place, number in enumerate(numbers)
        }
        # At the very end: nobody dies any more while these wait.
        for number in rng.sample(range(order_count * 19 // 20, order_count), k=_LATE_COUNT):
            self._chosen[number] = Fate.LATE
        self._seed = seed

    def of(self, number: int) -> Fate:
        """The fate of one order."""
        if number in self._chosen:
            return self._chosen[number]
        dice = random.Random(f"{self._seed} {number}")  # noqa: S311
        return Fate.OUT_OF_STOCK if dice.random() < _ROLLED_BACK_SHARE else Fate.TAKEN


def open_database(path: Path) -> Engine:
    """SQLite, set up so that several processes can write."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

    @event.listens_for(engine, "connect")
    def _prepare(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()

    return engine


def take_order(
    producer: TransactionProducer, barrier: Barrier, attempt: Attempt, fate: Fate
) -> None:
    """One order: prepare two messages, write the order, let both become true together."""
    customer, points = f"customer-{attempt.number % CUSTOMERS:02d}", 1 + attempt.number % 9
    order = {"order_id": str(attempt.number), "customer": customer, "points": points}
    content = json.dumps(order)

    with barrier.transaction(producer, attempt.transaction_id) as (tx, session):
        tx.prepare([Message(ORDERS, content, customer), Message(POINTS, content, customer)])
        session.add(
            Order(number=attempt.number, transaction_id=tx.id, customer=customer, points=points)
        )
        _meet(fate, session, tx.id)
    # Leaving the block commits order and messages; an exception inside rolls both back.


def _meet(fate: Fate, session: Session, transaction_id: str) -> None:
    """What goes wrong, if anything does."""
    if fate is Fate.OUT_OF_STOCK:
        raise OutOfStockError
    if fate is Fate.DIES_BEFORE:
        session.flush()
        _die()
    if fate is Fate.DIES_AFTER:
        event.listen(session, "after_commit", lambda _: _die())
    if fate is Fate.LATE:
        _hang_until_fenced(session, transaction_id)


def _hang_until_fenced(session: Session, transaction_id: str) -> None:
    """As a process does that is stopped for too long. Nothing has been written: no lock is held."""
    engine = session.get_bind()
    assert isinstance(engine, Engine)
    asked = FENCED_IDS.where(column("transaction_id", String) == transaction_id)
    give_up_s = time.monotonic() + _LATE_S
    while time.monotonic() < give_up_s:
        with engine.connect() as connection:  # a transaction of its own: it sees what is new
            if connection.execute(asked).first() is not None:
                return
        time.sleep(_LOOK_EVERY_S)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _serve(
    numbers: "queue.SimpleQueue[int]",
    producer: TransactionProducer,
    database: Engine,
    barrier: Barrier,
    fates: Fates,
) -> None:
    while True:
        try:
            number = numbers.get_nowait()
        except queue.Empty:
            return
        transaction_id = f"order-{number}-{os.urandom(4).hex()}"
        attempt = Attempt(number=number, transaction_id=transaction_id)
        _write(database, attempt)
        try:
            take_order(producer, barrier, attempt, fates.of(number))
        except OutOfStockError:
            pass  # rolled back, as it should be
        except TransactionFenced as error:
            sys.stderr.write(f"order {number}: {error}\n")
            _write(database, Refusal(number=number, transaction_id=transaction_id))
        except HalfHitchError as error:
            sys.stderr.write(f"order {number}: {error}\n")


def _write(database: Engine, row: Attempt | Refusal) -> None:
    with Session(database, expire_on_commit=False) as session, session.begin():
        session.add(row)


def _left(database: Engine, share: str, order_count: int) -> "queue.SimpleQueue[int]":
    """This process's share of the orders, without those already attempted."""
    place, places = map(int, share.split("/"))
    with Session(database) as session:
        attempted = set(session.scalars(select(Attempt.number)))
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()  # at most --orders
    for number in range(place, order_count, places):
        if number not in attempted:
            numbers.put(number)
    return numbers


def main() -> int:
    """Take this process's share of the orders, those already attempted left out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--share", required=True, help="which of how many, such as 0/3")
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--deaths", type=int, required=True)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--done-file", type=Path, help="made when no order is left to take")
    parser.add_argument("--stop-file", type=Path, help="stay to answer checks until it is there")
    asked = parser.parse_args()
    database = open_database(asked.database)
    numbers = _left(database, asked.share, asked.orders)
    fates = Fates(asked.seed, asked.orders, asked.deaths)
    barrier = Barrier(database, GROUP, wait_s=_CHECK_WAIT_S)
    barrier.create()
    with TransactionProducer(
        GROUP, asked.address, deadline_s=_DEADLINE_S, check=barrier.check
    ) as producer:
        with ThreadPoolExecutor(asked.threads) as pool:
            serving = [
                pool.submit(_serve, numbers, producer, database, barrier, fates)
                for _ in range(asked.threads)
            ]
            for thread in serving:
                thread.result()  # what nobody has foreseen ends the process, and the demo
        if asked.done_file is not None:
            asked.done_file.touch()
        while asked.stop_file is not None and not asked.stop_file.exists():
            time.sleep(_LOOK_EVERY_S)
    database.dispose()
    return 0


if __name__ == "__main__":
    sys.exit(main())
