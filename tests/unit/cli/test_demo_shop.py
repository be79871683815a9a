"""The demo's orders: each fate leaves the database, the barrier and the messages as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from halfhitch.barrier import Barrier
from halfhitch.client import LocalTransactionState
from halfhitch_cli.demo.shop import GROUP, Base, Fate, Order, open_database

_ONE_ORDER = """\
import sys
from pathlib import Path
from halfhitch.barrier import Barrier
from halfhitch_cli.demo.shop import GROUP, Attempt, Fate, OutOfStockError, open_database, take_order
from harness.barriers import RecordingProducer
producer = RecordingProducer()
barrier = Barrier(open_database(Path(sys.argv[1])), GROUP)
attempt = Attempt(number=7, transaction_id="order-7")
try:
    take_order(producer, barrier, attempt, Fate[sys.argv[2]])
except OutOfStockError:
    pass
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
    file = tmp_path / "shop.sqlite"
    database = open_database(file)
    Base.metadata.create_all(database)
    barrier = Barrier(database, GROUP)
    barrier.create()

    done = subprocess.run(
        [sys.executable, "-c", _ONE_ORDER, str(file), fate.name],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if ends is None:
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        assert (done.returncode, done.stdout.strip()) == (0, ends), done.stderr

    with Session(database) as session:
        assert list(session.scalars(select(Order.transaction_id))) == orders
    check = SimpleNamespace(transaction_id="order-7", producer_group=GROUP, age_s=10.0)
    assert barrier.check(check) is state
    database.dispose()
