"""A block whose local transaction is ended inside it: its record knew nothing of what came before.

Each misuse on every database and driver. The rows of the block and its record are one transaction,
or the block is refused and its messages are rolled back.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from sqlalchemy.util import await_only

from halfhitch.barrier.one_transaction import OneTransaction
from halfhitch.errors import InvalidRequest
from harness.blocks import each, in_block, order, refused
from harness.databases import ERRORS, Truth, Way, open_shop

if TYPE_CHECKING:
    from harness.blocks import Body
    from harness.databases import Shop

pytestmark = pytest.mark.filterwarnings("ignore:The 'reconnect' argument is deprecated")


# -- over SQLAlchemy -----------------------------------------------------------------------------


def roll_back_and_begin(session: Session) -> None:
    session.rollback()
    session.begin()


def swallowed_commit(session: Session) -> None:
    """As in a helper that tries again."""
    with pytest.raises(InvalidRequest):
        session.commit()
    session.rollback()


#: What ends the transaction of a session, what is said of it, and whether the rows before stand.
ENDS: dict[str, tuple[Body, str, bool]] = {
    "commit": (Session.commit, "a commit inside a block", False),
    "swallowed commit": (swallowed_commit, "was ended inside it", False),
    "rollback": (Session.rollback, "rollback or close", False),
    "rollback and begin": (roll_back_and_begin, "rollback or close", False),
    "close": (Session.close, "rollback or close", False),
    "COMMIT": (lambda session: session.execute(text("COMMIT")), "was ended inside it", True),
    "ROLLBACK": (lambda session: session.execute(text("ROLLBACK")), "was ended inside it", False),
    "driver's commit": (
        lambda session: session.connection().connection.commit(),
        "was ended inside it",
        True,
    ),
    "driver's rollback": (
        lambda session: session.connection().connection.rollback(),
        "was ended inside it",
        False,
    ),
}


@pytest.mark.parametrize("rest", ["more", "nothing"])
@pytest.mark.parametrize("end", ENDS)
@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_session_s_transaction_that_ended_inside_the_block_was_not_noticed(
    shop: Shop, truth: Truth, way: Way, end: str, rest: str
) -> None:
    """The messages followed a record that rows before knew nothing of, or that had lost them."""
    ends, words, stands = ENDS[end]

    def body(session: Session) -> None:
        order(session, "before")
        ends(session)
        if rest == "more":
            order(session, "after")

    refused(shop, body, words)
    wanted = {"before"} if stands else set()
    if way.driver == "asyncpg" and end.isupper() and rest == "more":
        wanted.add("after")  # this driver begins none anew: what follows is committed at once
    assert (truth.orders(), truth.rows()) == (wanted, {})


@pytest.mark.parametrize("end", ["ROLLBACK", "COMMIT"])
@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_what_a_given_session_had_done_before_the_block_was_lost_inside_it(
    shop: Shop, truth: Truth, end: str
) -> None:
    refused(
        shop,
        lambda session: session.execute(text(end)),
        "was ended inside it",
        given=lambda session: order(session, "before"),
    )
    assert (truth.orders(), truth.rows()) == ({"before"} if end == "COMMIT" else set(), {})


@each("alchemy")
def test_a_block_that_keeps_to_one_transaction_is_left_alone(shop: Shop, truth: Truth) -> None:
    def body(session: Session) -> None:
        session.rollback()  # nothing was done yet
        session.execute(text("SELECT 1"))
        order(session, "before")
        nested = session.begin_nested()
        order(session, "undone")
        nested.rollback()
        with session.begin_nested():
            order(session, "nested")

    assert in_block(shop, body).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before", "nested"}, {"a": "committed"})


def in_savepoint(session: Session) -> None:
    with session.begin_nested():
        order(session, "before")


def by_text(session: Session) -> None:
    session.execute(text("savepoint one"))
    order(session, "before")
    session.execute(text("release one"))


def from_a_query(session: Session) -> None:
    """A cursor of the driver's runs it as it stands."""
    statement = "WITH one AS (SELECT 'before' AS id) INSERT INTO shop_orders SELECT id FROM one"
    session.execute(text(f" -- of the shop\n/* first **/ {statement}"))


#: What sqlite3 begins no transaction for, as the first one of a block that writes.
UNBEGUN: dict[str, Body] = {"begin_nested": in_savepoint, "text": by_text, "WITH": from_a_query}


@pytest.mark.parametrize("given", ["used", "new"])
@pytest.mark.parametrize("first", UNBEGUN)
@each("alchemy", "sqlite")
def test_a_savepoint_or_with_before_the_first_write_on_sqlite_was_committed_alone(
    shop: Shop, truth: Truth, first: str, given: str
) -> None:
    """The row stood, and the messages were rolled back."""
    before: Body | None = (lambda one: one.execute(text("SELECT 1"))) if given == "used" else None

    def fails(session: Session) -> None:
        UNBEGUN[first](session)
        raise LookupError("there is no such customer")

    with pytest.raises(LookupError):
        in_block(shop, fails, given=before)
    assert (truth.orders(), truth.rows()) == (set(), {})

    def ends(session: Session) -> None:
        UNBEGUN[first](session)
        order(session, "after")

    assert in_block(shop, ends, given=before).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before", "after"}, {"a": "committed"})


def driver_s_rollback(session: Session) -> None:
    """Nothing of what follows is SQLAlchemy's, either."""
    driver = session.connection().connection
    driver.rollback()
    order(driver, "after")


@pytest.mark.parametrize("given", ["used", "new"])
@each("alchemy", "sqlite")
def test_a_rollback_and_what_followed_over_the_driver_alone_was_not_noticed_on_sqlite(
    shop: Shop, truth: Truth, given: str
) -> None:
    before: Body | None = (lambda one: order(one, "first")) if given == "used" else None

    def body(session: Session) -> None:
        order(session, "before")
        driver_s_rollback(session)

    refused(shop, body, "was ended inside it", given=before)
    assert (truth.orders(), truth.rows()) == (set(), {})
    assert in_block(shop, lambda session: order(session, "next")).made[0].ends == ["commit"]
    assert truth.orders() == {"next"}


_COPY = "CREATE TABLE shop_copy AS SELECT 'before' AS id"


@each("alchemy", "sqlite")
def test_a_table_made_of_rows_was_committed_alone_on_sqlite(shop: Shop, truth: Truth) -> None:
    """sqlite3 begins no transaction for it, and counts no change."""

    def fails(session: Session) -> None:
        session.execute(text(_COPY))
        raise LookupError("there is no such customer")

    with pytest.raises(LookupError):
        in_block(shop, fails)
    assert truth.run("SELECT name FROM sqlite_master WHERE name = 'shop_copy'") == []
    assert in_block(shop, lambda one: one.execute(text(_COPY))).made[0].ends == ["commit"]
    assert truth.run("SELECT id FROM shop_copy") == [("before",)]


@each("plain", "sqlite")
def test_a_table_made_of_rows_on_a_connection_of_sqlite_s_needs_a_begin(
    shop: Shop, truth: Truth
) -> None:
    def body(connection: Any) -> None:
        connection.execute(_COPY)

    refused(shop, body, "was ended inside it")
    assert truth.run("SELECT id FROM shop_copy") == [("before",)]
    truth.run("DROP TABLE shop_copy")

    def begun(connection: Any) -> None:
        connection.execute("BEGIN")
        body(connection)

    assert in_block(shop, begun).made[0].ends == ["commit"]


@each("alchemy", "sqlite")
def test_a_query_that_begins_with_with_takes_no_view_of_sqlite_too_early(
    shop: Shop, truth: Truth
) -> None:
    """With one, the first write behind somebody else's would be refused (SQLITE_BUSY_SNAPSHOT)."""

    def body(session: Session) -> None:
        session.execute(text("WITH one AS (SELECT id FROM shop_orders) SELECT * FROM one")).all()
        with closing(truth.connect()) as another:  # asyncio's session works in its loop's thread
            another.execute("INSERT INTO shop_orders VALUES ('another')")
        order(session, "before")

    assert in_block(shop, body).made[0].ends == ["commit"]
    assert truth.orders() == {"another", "before"}


@each("alchemy")
def test_a_session_that_was_used_before_its_block_is_as_good(shop: Shop, truth: Truth) -> None:
    def before(session: Session) -> None:
        order(session, "before")

    def body(session: Session) -> None:
        order(session, "after")

    assert in_block(shop, body, given=before).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before", "after"}, {"a": "committed"})


@each("alchemy")
def test_a_block_without_a_row_leaves_its_record(shop: Shop, truth: Truth) -> None:
    assert in_block(shop, lambda session: None).made[0].ends == ["commit"]
    assert truth.rows() == {"a": "committed"}


# -- plain drivers -------------------------------------------------------------------------------


PLAIN_ENDS: dict[str, tuple[Body, bool]] = {
    "commit": (lambda connection: connection.commit(), True),
    "rollback": (lambda connection: connection.rollback(), False),
    "COMMIT": (lambda connection: connection.cursor().execute("COMMIT"), True),
    "ROLLBACK": (lambda connection: connection.cursor().execute("ROLLBACK"), False),
}


@pytest.mark.parametrize("rest", ["more", "nothing"])
@pytest.mark.parametrize("end", PLAIN_ENDS)
@each("plain")
def test_a_plain_connection_s_transaction_that_ended_inside_the_block_was_not_noticed(
    shop: Shop, truth: Truth, end: str, rest: str
) -> None:
    ends, stands = PLAIN_ENDS[end]

    def body(connection: Any) -> None:
        order(connection, "before")
        ends(connection)
        if rest == "more":
            order(connection, "after")

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == ({"before"} if stands else set(), {})


@each("plain", "sqlite")
def test_with_a_connection_of_sqlite_s_is_a_commit(shop: Shop, truth: Truth) -> None:
    def body(connection: Any) -> None:
        with connection:
            order(connection, "before")
        order(connection, "after")

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == ({"before"}, {})


@pytest.mark.parametrize(
    "statements",
    [
        ("SAVEPOINT one", "INSERT INTO shop_orders VALUES ('before')", "RELEASE one"),
        ("WITH one AS (SELECT 'before' AS id) INSERT INTO shop_orders SELECT id FROM one",),
    ],
    ids=["SAVEPOINT", "WITH"],
)
@each("plain", "sqlite")
def test_a_savepoint_or_with_first_on_a_connection_of_sqlite_s_needs_a_begin(
    shop: Shop, truth: Truth, statements: tuple[str, ...]
) -> None:
    def body(connection: Any, *first: str) -> None:
        for statement in (*first, *statements):
            connection.execute(statement)

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == ({"before"}, {})
    truth.empty_tables()
    made = in_block(shop, lambda connection: body(connection, "BEGIN")).made
    assert made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before"}, {"a": "committed"})


@each("plain", "mariadb")
def test_a_statement_that_commits_on_mariadb_was_not_noticed(shop: Shop, truth: Truth) -> None:
    def body(connection: Any) -> None:
        order(connection, "before")
        connection.cursor().execute("CREATE TABLE IF NOT EXISTS shop_other (id INT)")
        order(connection, "after")

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == ({"before"}, {})


@each("plain")
def test_a_plain_block_that_keeps_to_one_transaction_is_left_alone(
    shop: Shop, truth: Truth, way: Way
) -> None:
    def body(connection: Any) -> None:
        connection.cursor().execute("SELECT 1")
        if way.server != "mariadb":  # where it would commit what the block has begun
            connection.cursor().execute("BEGIN")
        if way.driver == "psycopg":
            with connection.transaction():
                order(connection, "nested")
        order(connection, "before")
        connection.cursor().execute("SAVEPOINT one")
        order(connection, "undone")
        connection.cursor().execute("ROLLBACK TO SAVEPOINT one")
        connection.cursor().execute("RELEASE SAVEPOINT one")

    assert in_block(shop, body).made[0].ends == ["commit"]
    wanted = {"before", "nested"} if way.driver == "psycopg" else {"before"}
    assert (truth.orders(), truth.rows()) == (wanted, {"a": "committed"})


@each("plain", "mariadb")
def test_a_begin_in_a_block_on_mariadb_commits_and_is_refused(shop: Shop, truth: Truth) -> None:
    def body(connection: Any) -> None:
        order(connection, "before")
        connection.begin()
        order(connection, "after")

    refused(shop, body, "was ended inside it")
    assert truth.orders() == {"before"}


# -- autocommit ----------------------------------------------------------------------------------


def two_by_hand(local: Any) -> None:
    """Transactions of the program's own; the first one is given up, and its row lost."""

    def run(statement: str) -> None:
        if isinstance(local, Session):
            local.execute(text(statement))
        else:
            local.cursor().execute(statement)

    run("BEGIN")
    order(local, "before")
    run("ROLLBACK")
    run("BEGIN")
    order(local, "after")


@each("plain")
def test_transactions_by_hand_on_a_plain_connection_in_autocommit_were_not_noticed(
    way: Way, truth: Truth, addresses: Any
) -> None:
    """The messages followed the last one. Such a block is not begun."""
    mode = {"isolation_level": None} if way.server == "sqlite" else {"autocommit": True}
    with pytest.raises(InvalidRequest, match="in autocommit mode"):
        in_block(open_shop(way, addresses(way.server), **mode), two_by_hand)
    assert (truth.orders(), truth.rows()) == (set(), {})


@each("alchemy")
def test_transactions_by_hand_in_a_session_in_autocommit_were_not_noticed(
    way: Way, truth: Truth, addresses: Any
) -> None:
    shop = open_shop(way.at("AUTOCOMMIT"), addresses(way.server))
    refused(shop, two_by_hand, "in autocommit mode")
    assert (truth.orders(), truth.rows()) == (set(), {})
    shop.close()


# -- a connection that is opened anew ------------------------------------------------------------


def reopen(connection: Any, truth: Truth) -> None:
    """The server has ended it; the program, or a helper of its, asks its driver to see to that."""
    cursor = connection.cursor()
    cursor.execute("SELECT CONNECTION_ID()")
    ((number,),) = cursor.fetchall()
    truth.run(f"KILL {number}")
    connection.ping(reconnect=True)
    cursor = connection.cursor()
    cursor.execute("SELECT CONNECTION_ID()")
    assert cursor.fetchall() != ((number,),)


@each("plain", "mariadb")
def test_a_plain_connection_that_was_opened_anew_lost_the_rows_and_kept_the_messages(
    shop: Shop, truth: Truth
) -> None:
    def body(connection: Any) -> None:
        order(connection, "before")
        reopen(connection, truth)
        order(connection, "after")

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == (set(), {})


@pytest.mark.parametrize("rest", ["more", "nothing"])
@each("alchemy", "mariadb")
def test_a_session_s_connection_that_was_opened_anew_lost_the_rows_and_kept_the_messages(
    shop: Shop, truth: Truth, rest: str
) -> None:
    """SQLAlchemy has asked nothing meanwhile, so it knows of no lost connection."""

    def body(session: Session) -> None:
        order(session, "before")
        driver: Any = session.connection().connection.dbapi_connection
        if session.get_bind().dialect.driver == "aiomysql":
            number = session.execute(text("SELECT CONNECTION_ID()")).scalar()
            truth.run(f"KILL {number}")
            await_only(driver.driver_connection.ping(reconnect=True))
        else:
            reopen(driver, truth)
        if rest == "more":
            order(session, "after")

    refused(shop, body, "was ended inside it")
    assert (truth.orders(), truth.rows()) == (set(), {})


@each("alchemy", "mariadb")
def test_a_pool_that_asks_before_each_use_opens_none_anew_in_mid_transaction(
    way: Way, truth: Truth, addresses: Any
) -> None:
    """`pool_pre_ping`: what was lost in a block is an error of the database's, not a new begin."""
    shop: Any = open_shop(way, addresses(way.server), pool_pre_ping=True)

    def body(session: Session) -> None:
        order(session, "before")
        number = session.execute(text("SELECT CONNECTION_ID()")).scalar()
        truth.run(f"KILL {number}")
        order(session, "after")

    with pytest.raises(ERRORS):
        in_block(shop, body)
    assert in_block(shop, lambda session: order(session, "next")).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"next"}, {"a": "committed"})
    shop.close()


@each("plain", "sqlite")
def test_a_signal_s_exception_in_sqlite_s_trace_was_swallowed(
    shop: Shop, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the barrier looks at a statement is raised at the block's end, then."""
    look = OneTransaction.look
    struck: list[int] = []

    def interrupted(self: OneTransaction) -> None:
        if not struck:
            struck.append(1)
            raise KeyboardInterrupt
        look(self)

    monkeypatch.setattr(OneTransaction, "look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_block(shop, lambda connection: order(connection, "before"))
    assert struck
    assert (truth.orders(), truth.rows()) == (set(), {})
