"""Between the record and the commit the local transaction ended: nobody noticed.

Rows and record were gone, or committed by themselves, what came afterwards was committed, and the
messages followed. A hook before the commit does it that swallows an exception, or a program that
has recorded early.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from halfhitch.client import LocalTransactionState, TransactionDoomed
from halfhitch.errors import InvalidRequest
from harness.barriers import RecordingProducer
from harness.blocks import each, in_block, order, refused, run
from harness.databases import Truth, Way

if TYPE_CHECKING:
    from harness.blocks import Body
    from harness.databases import Shop


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_orders"
    id: Mapped[str] = mapped_column(primary_key=True)


def conflict(session: Session, _: Truth) -> None:
    """SQLite rolls back the whole, for it was asked to."""
    with pytest.raises(DBAPIError):
        session.execute(text("INSERT OR ROLLBACK INTO shop_orders VALUES ('before')"))


def deadlock(session: Session, truth: Truth) -> None:
    """MariaDB gives up the one that has changed less."""
    with closing(truth.connect()) as other, ThreadPoolExecutor(1) as pool:
        cursor = other.cursor()
        cursor.execute("BEGIN")
        for number in range(40):
            cursor.execute(f"INSERT INTO shop_orders (id) VALUES ('other-{number}')")
        wanted = "INSERT INTO shop_orders (id) VALUES ('before')"
        waiting = pool.submit(cursor.execute, wanted)
        truth.await_waiting(1)
        with pytest.raises(DBAPIError, match="Deadlock found"):
            order(session, "other-7")
        waiting.result()
        cursor.execute("ROLLBACK")


def driver_s(name: str) -> Any:
    return lambda session, _: getattr(session.connection().connection, name)()


def as_text(statement: str) -> Any:
    return lambda session, _: session.execute(text(statement))


#: What loses the rows and the record: of which databases, and how.
LOSES: dict[str, tuple[tuple[str, ...], Any]] = {
    "INSERT OR ROLLBACK": (("sqlite",), conflict),
    "deadlock": (("mariadb",), deadlock),
    "driver's rollback": ((), driver_s("rollback")),
    "ROLLBACK": ((), as_text("ROLLBACK")),
}
#: What commits them before the end.
COMMITS: dict[str, tuple[tuple[str, ...], Any]] = {
    "driver's commit": ((), driver_s("commit")),
    "COMMIT": ((), as_text("COMMIT")),
    "DDL": (("mariadb",), as_text("CREATE TABLE IF NOT EXISTS shop_other (id INT)")),
}


def where(ends: dict[str, tuple[tuple[str, ...], Any]]) -> pytest.MarkDecorator:
    """Each of them on each way that has it."""
    ways: list[Way] = each("alchemy").args[1]
    return pytest.mark.parametrize(
        ("way", "end"),
        [
            pytest.param(way, end, id=f"{way}-{name}")
            for name, (servers, end) in ends.items()
            for way in ways
            if not servers or way.server in servers
        ],
    )


def hooked(end: Any, truth: Truth, rest: str) -> Body:
    """A block's body that leaves such a hook behind."""

    def body(session: Session) -> None:
        order(session, "before")

        def hook(_: Session) -> None:
            end(session, truth)
            if rest == "more":
                order(session, "after")

        event.listen(session, "before_commit", hook, once=True)

    return body


@pytest.mark.parametrize("rest", ["more", "nothing"])
@where(LOSES)
def test_a_hook_before_the_commit_lost_rows_and_record_and_the_messages_were_committed(
    shop: Shop, truth: Truth, way: Way, end: Any, rest: str
) -> None:
    refused(shop, hooked(end, truth, rest), "between the record and its commit")
    assert truth.rows() == {"a": "fenced"}
    assert truth.orders() == what_stands(way, end, rest)


def what_stands(way: Way, end: Any, rest: str) -> set[str]:
    """asyncpg begins none anew: what follows is committed at once."""
    is_alone = way.driver == "asyncpg" and end is LOSES["ROLLBACK"][1] and rest == "more"
    return {"after"} if is_alone else set()


@pytest.mark.parametrize("rest", ["more", "nothing"])
@where(COMMITS)
def test_a_hook_that_commits_by_itself_parts_what_it_does_then_and_is_told(
    shop: Shop, truth: Truth, way: Way, end: Any, rest: str
) -> None:
    """Rows and record stand, so the messages follow; the error says that there was more."""
    refused(shop, hooked(end, truth, rest), "between the record and its commit", messages="commit")
    assert truth.rows() == {"a": "committed"}
    is_alone = way.driver == "asyncpg" and end is COMMITS["COMMIT"][1] and rest == "more"
    assert truth.orders() == {"before"} | ({"after"} if is_alone else set())


@where(LOSES)
def test_a_record_by_hand_was_lost_before_the_commit(
    shop: Any, truth: Truth, way: Way, end: Any
) -> None:
    """Recorded early; then a transaction that the program has not begun itself is committed."""

    def rest(session: Session) -> None:
        order(session, "before")
        end(session, truth)
        order(session, "after")

    with shop.session() as session:
        shop.barrier().record(getattr(session, "inner", session), "a")
        run(session, rest)
        with pytest.raises(InvalidRequest, match="between the record and its commit"):
            session.commit()
    assert shop.check("a") is LocalTransactionState.ROLLBACK
    assert truth.orders() == what_stands(way, end, "more")


@each("alchemy")
def test_hooks_that_keep_to_the_transaction_are_left_alone(shop: Shop, truth: Truth) -> None:
    def body(session: Session) -> None:
        order(session, "before")

        def hook(_: Session) -> None:
            nested = session.begin_nested()
            order(session, "undone")
            nested.rollback()
            order(session, "audit")

        event.listen(session, "before_commit", hook, once=True)

    assert in_block(shop, body).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before", "audit"}, {"a": "committed"})


@each("alchemy")
def test_a_record_that_was_rolled_back_says_nothing_of_the_next_transaction(
    shop: Any, truth: Truth
) -> None:
    """On one connection: `c` is committed without a record, and that is the program's own."""
    if way_is_asyncio(shop):
        barrier, given = shop.barrier(), shop.session()
    else:
        barrier, given = shop.barrier(), shop.engine.connect()
    with given as local:
        inner = getattr(local, "inner", local)
        barrier.record(inner, "a")
        local.rollback()
        local.execute(text("INSERT INTO shop_orders (id) VALUES ('c')"))
        local.commit()
        for name in ("d", "e"):
            barrier.record(inner, name)
            local.commit()
    assert truth.orders() == {"c"}
    assert truth.rows() == {"d": "committed", "e": "committed"}


def way_is_asyncio(shop: Any) -> bool:
    return hasattr(shop, "async_engine")


@each("alchemy", "sqlite", "mariadb", "postgresql")
def test_a_record_in_a_savepoint_of_the_program_s_text_was_lost_with_it(
    shop: Any, truth: Truth
) -> None:
    def begin(session: Session) -> None:
        order(session, "before")
        session.execute(text("SAVEPOINT one"))

    def end(session: Session) -> None:
        session.execute(text("ROLLBACK TO SAVEPOINT one"))

    with shop.session() as session:
        run(session, begin)
        shop.barrier().record(getattr(session, "inner", session), "a")
        run(session, end)
        with pytest.raises(InvalidRequest, match="inside a savepoint"):
            session.commit()
    assert (truth.orders(), truth.rows()) == (set(), {})


@pytest.mark.parametrize("hook", ["before_flush", "after_flush", "before_commit"])
@each("alchemy")
def test_rows_were_committed_without_a_message_that_a_hook_had_failed_to_send(
    shop: Any, truth: Truth, hook: str
) -> None:
    """The block had asked for the messages before; and the hook's program only logs."""
    producer = RecordingProducer("a")
    doomed = TransactionDoomed("a message of this transaction could not be sent")

    def body(session: Session) -> None:
        def fails(*_: object) -> None:
            producer.made[0].doomed = doomed

        event.listen(session, hook, fails, once=True)
        session.add(Order(id="before"))

    with (
        pytest.raises(TransactionDoomed),
        shop.barrier().transaction(producer) as (_, local),
    ):
        run(local, body)
    assert producer.made[0].ends == ["rollback"]
    assert truth.orders() == set()
    # The pool's next one commits its own.
    with shop.session() as session:
        run(session, lambda local: order(local, "next"))
        session.commit()
    assert truth.orders() == {"next"}


@where(COMMITS)
def test_what_a_hook_did_behind_its_own_commit_was_lost_with_the_exception(
    shop: Shop, truth: Truth, way: Way, end: Any
) -> None:
    def body(session: Session) -> None:
        order(session, "before")

        def hook(_: Session) -> None:
            end(session, truth)
            order(session, "after")
            order(session, "before")  # refused, and let out

        event.listen(session, "before_commit", hook, once=True)

    producer = RecordingProducer("a")
    with (
        pytest.raises(DBAPIError) as caught,
        shop.barrier().transaction(producer) as (_, local),
    ):
        run(local, body)
    assert "a commit of the program's own behind the record" in " ".join(caught.value.__notes__)
    assert producer.made[0].ends == ["commit"]
    assert truth.rows() == {"a": "committed"}
    is_alone = way.driver == "asyncpg" and end is COMMITS["COMMIT"][1]
    assert truth.orders() == {"before"} | ({"after"} if is_alone else set())


@each("alchemy")
def test_a_hook_that_commits_the_session_s_connection_is_refused_before_it(
    shop: Any, truth: Truth
) -> None:
    def body(session: Session) -> None:
        order(session, "before")
        event.listen(session, "before_commit", lambda one: one.connection().commit(), once=True)

    refused(shop, body, "a commit inside a block")
    assert truth.orders() == set()


@where(LOSES | COMMITS)
def test_a_second_record_hid_that_the_first_one_s_transaction_was_over(
    shop: Any, truth: Truth, way: Way, end: Any
) -> None:
    """Two producers in one local transaction: the mark was the last record's alone."""

    def rest(session: Session) -> None:
        order(session, "before")
        end(session, truth)

    barrier = shop.barrier()
    with shop.session() as session:
        inner = getattr(session, "inner", session)
        barrier.record(inner, "a")
        run(session, rest)
        with pytest.raises(InvalidRequest, match="between the record and its commit"):
            barrier.record(inner, "b")
    is_committed = any(end is one for _, one in COMMITS.values())
    assert truth.rows() == ({"a": "committed"} if is_committed else {})


@each("alchemy")
def test_two_records_in_one_local_transaction_are_committed(shop: Any, truth: Truth) -> None:
    barrier = shop.barrier()
    with shop.session() as session:
        for name in ("a", "b"):
            barrier.record(getattr(session, "inner", session), name)
        session.commit()
    assert truth.rows() == {"a": "committed", "b": "committed"}


BLOCKING = [one for one in each("alchemy", "postgresql").args[1] if one.style == "sqlalchemy"]


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_commit_in_two_phases_without_the_first_committed_nothing_and_was_not_told(
    shop: Any, truth: Truth
) -> None:
    with shop.engine.connect() as connection:
        transaction = connection.begin_twophase()
        insert = text("INSERT INTO shop_orders (id) VALUES ('before')")
        connection.execute(insert)
        shop.barrier().record(connection, "a")
        with pytest.raises(DBAPIError):
            connection.execute(insert)
        with pytest.raises(InvalidRequest):
            transaction.commit()
    assert (truth.orders(), truth.rows()) == (set(), {})
