"""The demo's orders: each fate leaves the database, the barrier and the messages as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from halfhitch.barrier import Barrier
from halfhitch.client import LocalTransactionState
from halfhitch_cli.demo.shop import GROUP, Base, Fate, Fates, Order, open_database

_ONE_ORDER = """\
import sys
from pathlib import Path
from halfhitch.barrier import Barrier, TransactionFenced
from halfhitch_cli.demo import shop
from halfhitch_cli.demo.shop import GROUP, Attempt, Fate, OutOfStockError, open_database, take_order
from harness.barriers import RecordingProducer
producer = RecordingProducer()
barrier = Barrier(open_database(Path(sys.argv[1])), GROUP)
attempt = Attempt(number=7, transaction_id="order-7")
meet = shop._meet
def told(*arguments):  # not before: an id that is fenced already is refused before anything is sent
    print("begins", flush=True)
    meet(*arguments)
shop._meet = told
try:
    take_order(producer, barrier, attempt, Fate[sys.argv[2]])
except OutOfStockError:
    pass
except TransactionFenced:
    print("fenced")
print(producer.made[0].ends)
"""


@pytest.mark.parametrize(
    ("fate", "ends", "state", "orders"),
    [
        (Fate.TAKEN, "['commit']", LocalTransactionState.COMMIT, ["order-7"]),
        (Fate.OUT_OF_STOCK, "['rollback']", LocalTransactionState.ROLLBACK, []),
        (Fate.DIES_BEFORE, None, LocalTransactionState.ROLLBACK, []),
        (Fate.DIES_AFTER, None, LocalTransactionState.COMMIT, ["order-7"]),
    ],
)
def test_the_barrier_knows_what_became_of_an_order(
    fate: Fate, ends: str | None, state: LocalTransactionState, orders: list[str], tmp_path: Path
) -> None:
    file, barrier, database = _shop(tmp_path)
    with _one_order(file, fate) as process:
        said, trouble = process.communicate(timeout=60)
    if ends is None:
        assert process.returncode == -signal.SIGKILL, trouble
    else:
        assert (process.returncode, said.splitlines()) == (0, ["begins", ends]), trouble

    assert _orders(database) == orders
    assert barrier.check(_CHECK) is state
    database.dispose()


def test_an_order_that_is_asked_about_while_it_hangs_cannot_be_committed_later(
    tmp_path: Path,
) -> None:
    file, barrier, database = _shop(tmp_path)
    with _one_order(file, Fate.LATE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        assert barrier.check(_CHECK) is LocalTransactionState.ROLLBACK
        said, trouble = process.communicate(timeout=60)
    assert (process.returncode, said.splitlines()) == (0, ["fenced", "['rollback']"]), trouble

    assert _orders(database) == []
    database.dispose()


def test_every_process_knows_the_same_fates_and_nobody_dies_while_others_hang() -> None:
    fates = [Fates(5, 400, 6).of(number) for number in range(400)]
    assert fates == [Fates(5, 400, 6).of(number) for number in range(400)]
    deaths = [n for n, fate in enumerate(fates) if fate in (Fate.DIES_BEFORE, Fate.DIES_AFTER)]
    late = [number for number, fate in enumerate(fates) if fate is Fate.LATE]
    assert len(deaths) == 6
    assert late
    assert max(deaths) < min(late)
    assert 20 < fates.count(Fate.OUT_OF_STOCK) < 60


_CHECK = SimpleNamespace(transaction_id="order-7", producer_group=GROUP, age_s=10.0)


def _shop(folder: Path) -> tuple[Path, Barrier, Engine]:
    file = folder / "shop.sqlite"
    database = open_database(file)
    Base.metadata.create_all(database)
    barrier = Barrier(database, GROUP)
    barrier.create()
    return file, barrier, database


def _one_order(file: Path, fate: Fate) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _ONE_ORDER, str(file), fate.name],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _orders(database: Engine) -> list[str]:
    with Session(database) as session:
        return list(session.scalars(select(Order.transaction_id)))
