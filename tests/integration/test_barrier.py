"""The barrier in real races on PostgreSQL and SQLite, over SQLAlchemy and plain drivers.

In PostgreSQL a check waits for a concurrent record of the same id; in SQLite, where one writes at a
time, it waits for the writer. Both give up after `wait_s` and then answer UNKNOWN.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from halfhitch.barrier import (
    DbapiBarrier,
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
    ddl,
)
from halfhitch.barrier.rules import Rules
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import (
    DATABASE_ERRORS,
    GROUP,
    AlchemyShop,
    DbapiShop,
    RecordingProducer,
    asked,
    insert,
    orders,
    ready_shop,
    rows,
    wrong_answers,
)
from harness.kafka import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.barriers import Shop
    from harness.postgres import EmbeddedPostgres

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN

_SERVER_S = 10.0


PLAIN = ("psycopg", "sqlite3")
BLOCKING = ("sqlalchemy-postgres", "sqlalchemy-sqlite")
ASYNCIO = ("asyncio-postgres", "asyncio-sqlite")


@pytest.fixture(params=[*BLOCKING, *PLAIN])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A shop on each database and driver."""
    with ready_shop(request.param, request.getfixturevalue, tmp_path) as made:
        yield made


def on(*kinds: str) -> pytest.MarkDecorator:
    """On these shops instead."""
    return pytest.mark.parametrize("shop", kinds, indirect=True)


ON_POSTGRES = on("sqlalchemy-postgres", "psycopg")
ON_SQLITE = on("sqlalchemy-sqlite", "sqlite3")
#: What is said of blocks is said of both faces.
ON_ALL = on(*BLOCKING, *ASYNCIO, *PLAIN)
ON_SESSIONS = on(*BLOCKING, *ASYNCIO)


@contextmanager
def open_order(shop: Shop, transaction_id: str, *, recorded: bool = True) -> Iterator[Any]:
    """A local transaction that has done its work, uncommitted."""
    local = shop.begin()
    try:
        local.order(transaction_id)
        if recorded:
            local.record(transaction_id)
        yield local
    finally:
        local.close()


@contextmanager
def waiting_check(shop: Shop, transaction_id: str) -> Iterator[Any]:
    """A check that waits for somebody's local transaction; gives its answer to come."""
    barrier = shop.with_barrier(wait_s=20.0)
    fencing = threading.Event()
    real = type(barrier_notes(barrier)).fence

    def fence(notes: Any, fenced_id: str, born_ms: int | None) -> None:
        fencing.set()
        real(notes, fenced_id, born_ms)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(type(barrier_notes(barrier)), "fence", fence)
        answer = pool.submit(barrier.check, asked(transaction_id))
        assert fencing.wait(_SERVER_S)
        if not shop.is_sqlite:
            wait_until(lambda: waiters(shop), _SERVER_S, what="the check to wait for the lock")
        assert not answer.done()
        yield answer


def barrier_notes(barrier: Any) -> Any:
    """Of the class through which this barrier's checks see the table."""
    from halfhitch.barrier import dbapi, sql_rows

    module = dbapi if type(barrier).__name__ == "DbapiBarrier" else sql_rows
    return module._Notes.__new__(module._Notes)


def waiters(shop: Shop) -> list[Any]:
    return shop.query("SELECT pid FROM pg_locks WHERE NOT granted")


# -- one after the other -------------------------------------------------------------------------


def test_a_committed_record_is_answered_commit(shop: Shop) -> None:
    with open_order(shop, "a") as local:
        local.commit()
    assert shop.barrier.check(asked("a")) is COMMIT
    assert shop.barrier.check(asked("a", age_s=0.0)) is COMMIT


def test_a_transaction_without_a_record_is_fenced_and_answered_rollback(shop: Shop) -> None:
    assert shop.barrier.check(asked("a")) is ROLLBACK
    assert rows(shop) == {"a": "fenced"}
    assert shop.barrier.check(asked("a")) is ROLLBACK


def test_a_rolled_back_record_is_answered_rollback(shop: Shop) -> None:
    with open_order(shop, "a") as local:
        local.rollback()
    assert shop.barrier.check(asked("a")) is ROLLBACK


def test_ids_are_compared_byte_by_byte(shop: Shop) -> None:
    for transaction_id in ("a", "ä", "e\u0301", "x'; --"):
        local = shop.begin()
        local.record(transaction_id)
        local.commit()
        local.close()
    others = ("A", "a ", "Ä", "\u00e9")
    assert [shop.barrier.check(asked(one)) for one in others] == [ROLLBACK] * 4
    assert shop.barrier.check(asked("x'; --")) is COMMIT


def test_two_groups_share_a_table_and_no_ids(shop: Shop) -> None:
    with open_order(shop, "a") as local:
        local.commit()
    other = type(shop.barrier)(*other_group(shop))
    assert other.check(asked("a", group="other")) is ROLLBACK
    assert shop.barrier.check(asked("a")) is COMMIT
    assert other.check(asked("a", group=GROUP)) is UNKNOWN


def other_group(shop: Shop) -> tuple[Any, str]:
    return (shop.engine if isinstance(shop, AlchemyShop) else shop.connect), "other"


# -- races ---------------------------------------------------------------------------------------


def test_a_record_that_is_not_committed_yet_is_answered_unknown(shop: Shop) -> None:
    with open_order(shop, "a") as local:
        assert shop.with_barrier(wait_s=0.2).check(asked("a")) is UNKNOWN
        local.commit()
    assert shop.barrier.check(asked("a")) is COMMIT
    assert orders(shop) == {"a"}


def test_a_commit_during_the_check_is_answered_commit(shop: Shop) -> None:
    with open_order(shop, "a") as local, waiting_check(shop, "a") as answer:
        local.commit()
        assert answer.result(_SERVER_S) is COMMIT
    assert rows(shop) == {"a": "committed"}


def test_a_rollback_during_the_check_is_answered_rollback(shop: Shop) -> None:
    with open_order(shop, "a") as local, waiting_check(shop, "a") as answer:
        local.rollback()
        assert answer.result(_SERVER_S) is ROLLBACK
    assert rows(shop) == {"a": "fenced"}
    assert orders(shop) == set()


def test_a_late_local_transaction_is_fenced_and_rolled_back_as_a_whole(shop: Shop) -> None:
    # In SQLite a process that has written keeps everybody else from writing: it is frozen before.
    if shop.is_sqlite:
        local = shop.begin()
    else:
        local = shop.begin()
        local.order("a")
    assert shop.barrier.check(asked("a")) is ROLLBACK
    if shop.is_sqlite:
        local.order("a")
    with pytest.raises(TransactionFenced, match="transaction a is fenced") as caught:
        local.record("a")
    assert "new transaction id" in str(caught.value)
    local.commit()  # by an application that does not care
    local.close()
    assert orders(shop) == set()
    assert shop.barrier.check(asked("a")) is ROLLBACK


def test_two_checks_at_once_agree_and_leave_one_fence(shop: Shop) -> None:
    start = threading.Barrier(4)

    def ask() -> LocalTransactionState:
        start.wait(_SERVER_S)
        return shop.barrier.check(asked("a"))

    with ThreadPoolExecutor(4) as pool:
        answers = [future.result(_SERVER_S) for future in [pool.submit(ask) for _ in range(4)]]
    assert answers == [ROLLBACK] * 4
    assert rows(shop) == {"a": "fenced"}


@ON_SQLITE
def test_a_sqlite_check_bounces_off_any_writer_and_waits_no_longer_than_it_may(
    shop: Shop,
) -> None:
    with open_order(shop, "another"):
        assert shop.with_barrier(wait_s=0.1).check(asked("a")) is UNKNOWN
    assert shop.barrier.check(asked("a")) is ROLLBACK


def test_the_application_keeps_its_own_waiting_time(tmp_path: Path) -> None:
    made = AlchemyShop(f"sqlite:///{tmp_path / 'shop.db'}", connect_args={"timeout": 7})
    made.set_up()
    assert made.barrier.check(asked("a")) is ROLLBACK
    assert made.query("PRAGMA busy_timeout") == [(7000,)]
    made.close()


@ON_POSTGRES
def test_a_check_that_is_cut_off_while_it_waits_is_answered_unknown(shop: Shop) -> None:
    with open_order(shop, "a") as local, waiting_check(shop, "a") as answer:
        shop.query("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
        assert answer.result(_SERVER_S) is UNKNOWN
        local.commit()
    assert shop.barrier.check(asked("a")) is COMMIT


@ON_POSTGRES
def test_a_locked_table_is_answered_unknown_in_time(shop: Shop) -> None:
    local = shop.begin()
    local.execute("LOCK TABLE halfhitch_barrier IN ACCESS EXCLUSIVE MODE")
    assert shop.with_barrier(wait_s=0.1).check(asked("a")) is UNKNOWN
    local.rollback()
    local.close()
    assert shop.barrier.check(asked("a")) is ROLLBACK


def test_a_pool_s_autocommit_connections_wait_no_longer_and_stay_as_they_were(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = psycopg.connect(postgres.dsn, autocommit=True, row_factory=dict_row)
    shop = DbapiShop(lambda: psycopg.connect(postgres.dsn))
    shop.set_up()
    barrier = DbapiBarrier(lambda: nullcontext(connection), GROUP, wait_s=_SERVER_S)
    with open_order(shop, "a") as local:
        with monkeypatch.context() as hurried:
            # The server gives up long before the deadline, which would close the pool's connection.
            hurried.setattr("halfhitch.barrier.deadline._PATIENCE", 0.1 / _SERVER_S)
            assert barrier.check(asked("a")) is UNKNOWN
        local.commit()
    assert barrier.check(asked("a")) is COMMIT
    assert barrier.check(asked("b")) is ROLLBACK
    assert connection.autocommit
    with pytest.raises(TransactionFenced), connection.transaction():
        barrier.record(connection, "b")
    connection.close()


@ON_POSTGRES
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_snapshot_older_than_the_fence_does_not_slip_by(shop: Shop, level: str) -> None:
    local = shop.begin()
    local.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    local.execute("SELECT * FROM halfhitch_barrier")
    local.order("a")
    assert shop.barrier.check(asked("a")) is ROLLBACK
    with pytest.raises(TransactionFenced):
        local.record("a")
    local.commit()
    local.close()
    assert orders(shop) == set()


# -- truth under fire ----------------------------------------------------------------------------


class Shooting:
    """Many local transactions, and checks of all of them at any moment."""

    def __init__(self, shop: Shop, seed: int, count: int) -> None:
        self.shop = shop
        self.seed = seed
        self.barrier = shop.with_barrier(wait_s=0.5)
        self.names = [f"order-{number}" for number in range(count)]
        #: Every answer that was ever given.
        self.answers: dict[str, set[LocalTransactionState]] = defaultdict(set)
        self.begun = threading.Semaphore(0)
        self.over = threading.Event()

    def run(self) -> None:
        with ThreadPoolExecutor(6) as pool:
            asking = [pool.submit(self.ask, part) for part in range(3)]
            working = [pool.submit(self.work, part) for part in range(3)]
            for future in working:
                future.result(60)
            self.over.set()
            for future in asking:
                future.result(60)
        for name in self.names:
            self.answers[name].add(self.shop.barrier.check(asked(name)))

    def work(self, part: int) -> None:
        dice = random.Random(f"{self.seed} work {part}")
        for name in self.names[part::3]:
            self.begun.release()
            local = self.shop.begin()
            try:
                self.order(name, local, dice)
            except (TransactionFenced, *DATABASE_ERRORS):
                pass
            finally:
                local.close()  # some die with their work undone

    def order(self, name: str, local: Any, dice: random.Random) -> None:
        is_early = dice.random() < 0.5
        if is_early:
            local.record(name)
        local.order(name)
        for _ in range(dice.randrange(3)):
            local.execute("SELECT id FROM shop_orders")
        if not is_early:
            local.record(name)
        if dice.random() < 0.6:
            local.commit()
        elif dice.random() < 0.5:
            local.rollback()

    def ask(self, part: int) -> None:
        dice = random.Random(f"{self.seed} ask {part}")
        while self.begun.acquire(timeout=0.05) or not self.over.is_set():
            name = dice.choice(self.names)
            self.answers[name].add(self.barrier.check(asked(name)))


def test_no_answer_ever_differs_from_the_truth(shop: Shop, rng: random.Random) -> None:
    count = 120 if isinstance(shop, AlchemyShop) else 60  # without a pool, connecting takes longest
    shooting = Shooting(shop, rng.randrange(2**32), count)
    shooting.run()
    answers = shooting.answers
    committed = orders(shop)
    assert wrong_answers(answers, committed) == {}
    assert all(given & {COMMIT, ROLLBACK} for given in answers.values())
    assert 0 < len(committed) < count
    wanted = {name: "committed" if name in committed else "fenced" for name in answers}
    assert rows(shop) == wanted


@on("sqlalchemy-postgres")
def test_a_check_without_a_fence_would_be_found_out(
    shop: Shop, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(self: Rules, notes: Any, question: Any) -> LocalTransactionState:
        found = notes.read(question.transaction_id)
        return COMMIT if found == "committed" else ROLLBACK

    monkeypatch.setattr(Rules, "decide", trusting)
    shooting = Shooting(shop, rng.randrange(2**32), 120)
    shooting.run()
    assert wrong_answers(shooting.answers, orders(shop)) != {}


# -- a database that does not answer -------------------------------------------------------------


def test_a_missing_table_is_answered_unknown_and_the_log_says_how_to_make_it(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    barrier = shop.with_barrier(table="not_made_yet")
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert barrier.check(asked("a")) is UNKNOWN
    assert "not_made_yet is missing: create it with Barrier.create()" in caplog.text
    barrier.create()
    barrier.create()
    assert barrier.check(asked("a")) is ROLLBACK
    shop.query("DROP TABLE not_made_yet")


def test_a_record_without_a_table_says_how_to_make_it(shop: Shop) -> None:
    local = shop.begin()
    shop.barrier, kept = shop.with_barrier(table="not_made_yet"), shop.barrier
    try:
        with pytest.raises(DATABASE_ERRORS) as caught:
            local.record("a")
    finally:
        shop.barrier = kept
        local.close()
    assert "halfhitch.barrier.ddl" in "".join(caught.value.__notes__)


def test_the_printed_definition_makes_a_table_that_works(shop: Shop) -> None:
    dialect = "sqlite" if shop.is_sqlite else "postgresql"
    for statement in ddl(dialect, "from_migration").split(";\n")[:-1]:
        shop.query(statement)
    barrier = shop.with_barrier(table="from_migration")
    assert barrier.check(asked("a")) is ROLLBACK
    assert rows(shop, "from_migration") == {"a": "fenced"}
    shop.query("DROP TABLE from_migration")


def test_several_processes_may_create_the_table_at_once(shop: Shop) -> None:
    start = threading.Barrier(4)
    barrier = shop.with_barrier(table="made_at_once")

    def create() -> None:
        start.wait(_SERVER_S)
        barrier.create()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(create) for _ in range(4)]:
            future.result(_SERVER_S)
    assert barrier.check(asked("a")) is ROLLBACK
    shop.query("DROP TABLE made_at_once")


@ON_POSTGRES
def test_a_database_that_is_down_is_answered_unknown_and_asked_again_later(
    shop: Shop, postgres: EmbeddedPostgres
) -> None:
    with open_order(shop, "a") as local:
        local.commit()
    postgres.kill()
    try:
        assert shop.barrier.check(asked("a")) is UNKNOWN
        assert shop.barrier.check(asked("b")) is UNKNOWN
    finally:
        postgres.restart()
    # A pool may still hand out a connection of before.
    wait_until(lambda: shop.barrier.check(asked("a")) is COMMIT, _SERVER_S)
    assert shop.barrier.check(asked("b")) is ROLLBACK


def test_a_file_that_is_gone_is_answered_unknown(tmp_path: Path) -> None:
    nowhere = tmp_path / "gone" / "shop.db"
    made = AlchemyShop(f"sqlite:///{nowhere}")
    assert made.barrier.check(asked("a")) is UNKNOWN
    made.close()


@ON_POSTGRES
def test_a_read_only_replica_decides_nothing(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    with open_order(shop, "a") as local:
        local.commit()
    shop.query("ALTER ROLE postgres SET default_transaction_read_only = on")
    try:
        shop.close()  # pooled connections know nothing of it
        # What a replica has may be lost on its primary, and it cannot be asked to make sure.
        assert shop.barrier.check(asked("a")) is UNKNOWN
        assert "INSERT, SELECT and DELETE" in caplog.text
        assert shop.barrier.check(asked("b")) is UNKNOWN
    finally:
        shop.query(
            "BEGIN READ WRITE; ALTER ROLE postgres RESET default_transaction_read_only; COMMIT"
        )
        shop.close()


# -- what a record refuses -----------------------------------------------------------------------


def test_a_record_that_would_be_committed_alone_is_refused(
    shop: Shop, tmp_path: Path, postgres: EmbeddedPostgres
) -> None:
    if isinstance(shop, AlchemyShop):
        engine = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
        with Session(engine) as session, pytest.raises(InvalidRequest, match="autocommit"):
            shop.barrier.record(session, "a")
    else:
        connection = shop.connect()
        if shop.is_sqlite:
            connection.isolation_level = None
        else:
            connection.autocommit = True
        with pytest.raises(InvalidRequest, match="autocommit"):
            shop.barrier.record(connection, "a")
        if shop.is_sqlite:
            connection.execute("BEGIN")
            shop.barrier.record(connection, "a")
            connection.execute("ROLLBACK")
        else:
            with connection.transaction(force_rollback=True):
                shop.barrier.record(connection, "a")
        connection.close()
    assert rows(shop) == {}


def test_a_second_record_of_an_id_is_refused_and_says_what_stands(shop: Shop) -> None:
    with open_order(shop, "a") as local:
        local.commit()
    with open_order(shop, "b", recorded=False) as local:
        with pytest.raises(TransactionRecordedTwice, match="has committed") as caught:
            local.record("a")
        local.commit()
    assert caught.value.committed_before
    assert orders(shop) == {"a"}
    with open_order(shop, "c") as local:
        with pytest.raises(TransactionRecordedTwice, match="call record once") as caught:
            local.record("c")
        local.commit()
    assert not caught.value.committed_before
    assert orders(shop) == {"a"}


@on(*BLOCKING)
def test_what_is_fenced_cannot_be_committed_by_not_caring(shop: AlchemyShop) -> None:
    assert shop.barrier.check(asked("a")) is ROLLBACK
    with Session(shop.engine) as session:
        session.execute(text("INSERT INTO shop_orders (id) VALUES ('a')"))
        with pytest.raises(TransactionFenced):
            shop.barrier.record(session, "a")
        session.commit()
    with shop.engine.begin() as connection:
        connection.execute(text("INSERT INTO shop_orders (id) VALUES ('a')"))
        with pytest.raises(TransactionFenced):
            shop.barrier.record(connection, "a")
    assert orders(shop) == set()


# -- messages and rows end together --------------------------------------------------------------


def run_block(
    barrier: Any, then: Any = None, *, order: str = "a", is_retry: bool = False
) -> RecordingProducer:
    """One block of transaction "a"; `then` does what goes wrong at its end."""
    producer = RecordingProducer(new_id="a")
    try:
        with barrier.transaction(producer, "a" if is_retry else None) as (_, local):
            insert(local, order)
            if then is not None:
                then(local)
    except BaseException as error:
        error.add_note(f"ends: {producer.made[0].ends}")
        raise
    return producer


def ends_in(caught: Any) -> str:
    return caught.value.__notes__[-1].removeprefix("ends: ")


@ON_ALL
def test_a_block_commits_rows_and_messages(shop: Shop) -> None:
    producer = RecordingProducer()
    with shop.barrier.transaction(producer, "a") as (tx, local):
        insert(local, tx.id)
        assert producer.made[0].ends == []
    assert producer.made[0].ends == ["commit"]
    assert (orders(shop), rows(shop)) == ({"a"}, {"a": "committed"})


@ON_ALL
def test_a_block_that_raises_commits_neither(shop: Shop) -> None:
    def fail(_: Any) -> None:
        raise KeyError

    with pytest.raises(KeyError) as caught:
        run_block(shop.barrier, fail)
    assert ends_in(caught) == "['rollback']"
    assert (orders(shop), rows(shop)) == (set(), {})


@ON_POSTGRES
def test_a_block_that_was_fenced_commits_neither(shop: Shop) -> None:
    with pytest.raises(TransactionFenced) as caught:
        run_block(shop.barrier, lambda _: shop.barrier.check(asked("a")))
    assert ends_in(caught) == "['rollback']"
    assert orders(shop) == set()


def overtaken(shop: Shop, producer: RecordingProducer, order: str) -> None:
    """A second attempt; the first one, of another process that was frozen, commits meanwhile."""
    with shop.barrier.transaction(producer, "a") as (_, local):
        shop.query("INSERT INTO shop_orders (id) VALUES ('a')")
        shop.query(
            "INSERT INTO halfhitch_barrier (producer_group, transaction_id, outcome)"
            f" VALUES ('{GROUP}', 'a', 'committed')"
        )
        insert(local, order)


@ON_ALL
@pytest.mark.parametrize("order", ["a", "b"])
def test_a_repeated_block_leaves_the_messages_of_the_first_to_the_check_back(
    shop: Shop, order: str
) -> None:
    producer = RecordingProducer()
    # The work itself fails (the order is there), or it does not and the record does.
    with pytest.raises((TransactionRecordedTwice, *DATABASE_ERRORS)) as caught:
        overtaken(shop, producer, order)
    assert isinstance(caught.value, TransactionRecordedTwice) == (order == "b")
    # What this attempt has sent may be a part of what the first one has.
    assert producer.made[0].ends == []
    assert "the check-back commits all messages" in caught.value.__notes__[0]
    assert orders(shop) == {"a"}


@ON_ALL
def test_a_repeated_block_that_fails_is_fenced_before_the_rollback(shop: Shop) -> None:
    def fail(_: Any) -> None:
        raise KeyError

    with pytest.raises(KeyError) as caught:
        run_block(shop.barrier, fail, is_retry=True)
    assert ends_in(caught) == "['rollback']"
    assert (orders(shop), rows(shop)) == (set(), {"a": "fenced"})


class LostError(Exception):
    """The connection broke while the answer was on its way."""


def breaks(*, after: bool, error: type[BaseException] = LostError) -> Any:
    """A commit that fails, after it has taken place or before."""

    def lose(_: Session) -> None:
        raise error

    def patch(session: Any) -> None:
        session = getattr(session, "sync_session", session)
        event.listen(session, "after_commit" if after else "before_commit", lose)

    return patch


@ON_SESSIONS
def test_a_commit_that_failed_but_took_place_commits_the_messages(shop: AlchemyShop) -> None:
    producer = run_block(shop.barrier, breaks(after=True))
    assert producer.made[0].ends == ["commit"]
    assert orders(shop) == {"a"}


@ON_SESSIONS
def test_a_commit_that_did_not_take_place_is_fenced_before_the_rollback(
    shop: AlchemyShop,
) -> None:
    # Patience is for checks: this process knows that nobody else is at it.
    patient = shop.with_barrier(fence_after_s=60.0)
    with pytest.raises(LostError) as caught:
        run_block(patient, breaks(after=False))
    assert ends_in(caught) == "['rollback']"
    assert (orders(shop), rows(shop)) == (set(), {"a": "fenced"})


@ON_SESSIONS
def test_a_commit_of_which_nobody_knows_decides_nothing(
    shop: AlchemyShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.barrier._rows, "decide", None)  # so nothing that could be asked
    with pytest.raises(LocalOutcomeUnknown, match="neither committed nor") as caught:
        run_block(shop.barrier, breaks(after=True))
    assert ends_in(caught) == "[]"
    monkeypatch.undo()
    assert shop.barrier.check(asked("a")) is COMMIT


@ON_POSTGRES
@pytest.mark.parametrize("is_retry", [False, True])
def test_a_server_that_dies_before_the_commit(
    shop: Shop, postgres: EmbeddedPostgres, *, is_retry: bool
) -> None:
    try:
        with pytest.raises(DATABASE_ERRORS) as caught:
            run_block(shop.barrier, lambda _: postgres.kill(), is_retry=is_retry)
    finally:
        postgres.restart()
    # A new id was surely not committed. Of an old one, nobody could be asked.
    assert ends_in(caught) == ("[]" if is_retry else "['rollback']")
    wait_until(lambda: shop.barrier.check(asked("a")) is ROLLBACK, _SERVER_S)


# -- age -----------------------------------------------------------------------------------------


def test_a_patient_barrier_fences_only_after_its_time(shop: Shop) -> None:
    barrier = shop.with_barrier(fence_after_s=30.0)
    assert barrier.check(asked("a", age_s=29.0)) is UNKNOWN
    assert rows(shop) == {}
    assert barrier.check(asked("a", age_s=30.0)) is ROLLBACK


def test_old_rows_are_purged_in_batches_and_young_ones_kept(shop: Shop) -> None:
    old_count = 25
    for number in range(old_count):
        assert shop.barrier.check(asked(f"old-{number}")) is ROLLBACK
    ago = "datetime('now', '-8 days')" if shop.is_sqlite else "now() - interval '8 days'"
    shop.query(f"UPDATE halfhitch_barrier SET at = {ago}")
    with open_order(shop, "young") as local:
        local.commit()
    other = type(shop.barrier)(*other_group(shop))
    assert other.purge() == 0
    assert shop.barrier.purge(batch_count=10) == old_count
    assert rows(shop) == {"young": "committed"}
    shop.query("UPDATE halfhitch_barrier SET at = " + ago)
    assert shop.barrier.purge(60, force=True) == 1


def test_what_may_have_been_purged_is_not_fenced(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert shop.barrier.check(asked("a", age_s=7 * 86_400)) is UNKNOWN
    assert "halfhitch tx commit" in caplog.text
    assert rows(shop) == {}
