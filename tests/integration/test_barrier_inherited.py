"""A child that is forked inside a block, and leaves it: its parent's local transaction goes on."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from harness.barriers import AlchemyShop, orders, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

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
