"""A child that is forked inside a block, and leaves it: its parent's local transaction goes on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.barriers import AlchemyShop, orders, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.postgres import EmbeddedPostgres

_PROGRAM = """\
import asyncio, os, sys
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.client import AsyncTransactionProducer, TransactionProducer

url, kind, way = sys.argv[1:]
INSERT = "INSERT INTO shop_orders (id) VALUES ('of the parent')"
child = None

def fork(barrier):
    global child
    child = os.fork()
    if not child:
        if way == "exit":
            raise SystemExit(0)
        return
    assert os.waitpid(child, 0)[1] == 0
    print("the child has ended", flush=True)

def blocking():
    if kind == "sqlalchemy":
        barrier = Barrier(create_engine(url), "shop")
    else:
        plain = url.replace("+psycopg", "")
        barrier = DbapiBarrier(lambda: psycopg.connect(plain), "shop")
    given = None if way == "exit" else "of the parent"
    with TransactionProducer("shop", "http://127.0.0.1:9") as producer:
        with barrier.transaction(producer, given) as (tx, local):
            local.execute(text(INSERT) if kind == "sqlalchemy" else INSERT)
            fork(barrier)

async def tasks():
    barrier = AsyncBarrier(create_async_engine(url), "shop")
    given = None if way == "exit" else "of the parent"
    async with AsyncTransactionProducer("shop", "http://127.0.0.1:9") as producer:
        async with barrier.transaction(producer, given) as (tx, session):
            await session.execute(text(INSERT))
            fork(barrier)

try:
    asyncio.run(tasks()) if kind == "asyncio" else blocking()
except BaseException as error:
    if child != 0:
        raise
    print(type(error).__name__, flush=True)  # and the child ends as programs do
else:
    print("committed")
"""


@pytest.fixture
def shop(postgres: EmbeddedPostgres) -> Iterator[AlchemyShop]:
    made = AlchemyShop(postgres.url)
    made.set_up()
    yield made
    made.close()


@pytest.mark.parametrize("way", ["exit", "end"])
@pytest.mark.parametrize("kind", ["sqlalchemy", "asyncio", "plain"])
def test_a_child_that_left_the_block_rolled_its_parents_rows_back(
    postgres: EmbeddedPostgres, shop: AlchemyShop, kind: str, way: str
) -> None:
    """Over the parent's connection; then the parent's record was committed alone, and messages."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, postgres.url, kind, way],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    left_by = "SystemExit" if way == "exit" else "TransactionMisused"
    told = [left_by, "the child has ended", "committed"]
    assert done.stdout.splitlines() == told, done.stderr
    assert orders(shop) == {"of the parent"}
    assert list(rows(shop).values()) == ["committed"]


_LATE_BARRIER = """\
import os, sys, time
from sqlalchemy import create_engine, event, text

engine = create_engine(sys.argv[1], pool_pre_ping=sys.argv[3] == "ping")
opened, pinged = [], []
ping = engine.dialect.do_ping
engine.dialect.do_ping = lambda connection: pinged.append(connection) or ping(connection)
event.listen(engine, "connect", lambda *_: opened.append(os.getpid()))
with engine.connect() as connection:  # the pool keeps it
    connection.execute(text("SELECT 1"))
    of_parent = connection.connection.dbapi_connection
began_s = time.time()
while time.time() < began_s + 0.1:  # a fork's time is told in hundredths
    pass
if sys.argv[2] == "imported":
    import halfhitch.barrier.sql
child = os.fork()
if not child:
    from halfhitch.barrier import Barrier
    Barrier(engine, "shop").create()
    with engine.connect() as connection:  # the application's own, too
        connection.execute(text("SELECT 1"))
    print("opened by the child:", opened.count(os.getpid()), flush=True)
    print("the parent's were pinged:", of_parent in pinged, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with engine.connect() as connection:
    connection.execute(text("SELECT 1"))
print("opened by the parent:", opened.count(os.getpid()), flush=True)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("when", ["imported", "later"])
@pytest.mark.parametrize("asks", ["ping", "none"])
def test_a_barrier_made_in_a_child_used_a_connection_of_the_parent(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, when: str, asks: str
) -> None:
    """Both spoke over one socket, and each read what the other had asked.

    `pool_pre_ping` did that before anybody could look at the connection.
    """
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").url
    done = subprocess.run(
        [sys.executable, "-c", _LATE_BARRIER, url, when, asks],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = ["opened by the child: 1", "the parent's were pinged: False", "opened by the parent: 1"]
    assert done.stdout.splitlines() == told, done.stderr
