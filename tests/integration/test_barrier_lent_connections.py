"""Connections that somebody else has used, or is using, and rows that the database takes away."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import Barrier, DbapiBarrier
from halfhitch.client import LocalTransactionState
from harness.barriers import GROUP, asked
from harness.blocks import each, in_block, order, refused
from harness.databases import ERRORS, WAYS, open_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.orm import Session

    from harness.databases import AlchemyShop, PlainShop, Shop, Truth, Way

# -- two records in one local transaction --------------------------------------------------------


@pytest.mark.parametrize("way", [way for way in WAYS if way.style == "sqlalchemy"], ids=str)
def test_a_block_that_recorded_for_another_group_too_was_refused_on_mariadb(
    shop: AlchemyShop, truth: Truth
) -> None:
    """The release of the block's savepoint takes the other record's away."""
    points = Barrier(shop.engine, "points")

    def body(session: Session) -> None:
        order(session, "a")
        points.record(session, "b")

    assert in_block(shop, body).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed", "b": "committed"})


# -- a connection that is not the check's alone --------------------------------------------------


@each("plain", "postgresql")
def test_a_check_read_what_the_application_had_not_committed(shop: PlainShop, truth: Truth) -> None:
    """`connect` gave the connection on which the local transaction was open."""
    with closing(shop.connect()) as used:

        @contextmanager
        def lent() -> Iterator[Any]:
            yield used

        barrier = DbapiBarrier(lent, GROUP)
        order(used, "a")
        barrier.record(used, "a")
        assert barrier.check(asked("a")) is LocalTransactionState.UNKNOWN
        used.rollback()
        assert barrier.check(asked("a")) is not LocalTransactionState.COMMIT
    assert truth.orders() == set()


@each("plain", "postgresql")
def test_a_check_goes_on_behind_a_statement_of_connect(shop: PlainShop, truth: Truth) -> None:
    shop.block("a")

    def connect() -> Any:
        made = shop.connect()
        made.execute("SET search_path = public")
        return made

    assert DbapiBarrier(connect, GROUP).check(asked("a")) is LocalTransactionState.COMMIT
    assert truth.orders() == {"a"}


@each("alchemy", "postgresql")
def test_a_begin_that_autocommit_gave_back_to_the_pool_left_every_check_unknown(
    way: Way, truth: Truth, addresses: Any
) -> None:
    """asyncpg: its rollback does nothing there."""
    shop: Any = open_shop(way.at("AUTOCOMMIT"), addresses(way.server), pool_size=1, max_overflow=0)
    with shop.begin() as local:
        local.execute("BEGIN")
        local.order("a")
        local.record("a")
    assert shop.check("a") is LocalTransactionState.ROLLBACK
    assert shop.check("b") is LocalTransactionState.ROLLBACK
    shop.close()
    assert truth.orders() == set()


# -- a record that was taken, and not written ----------------------------------------------------

_SWALLOW = {
    "sqlite": (
        "CREATE TRIGGER swallow BEFORE INSERT ON halfhitch_barrier BEGIN SELECT RAISE(IGNORE); END",
    ),
    "postgresql": (
        """CREATE OR REPLACE FUNCTION nothing() RETURNS trigger AS
        $$ BEGIN RETURN NULL; END $$ LANGUAGE plpgsql""",
        """CREATE TRIGGER swallow BEFORE INSERT ON halfhitch_barrier
        FOR EACH ROW EXECUTE FUNCTION nothing()""",
    ),
}


@pytest.fixture
def swallowing(truth: Truth) -> Iterator[Callable[[], None]]:
    def begin() -> None:
        for statement in _SWALLOW[truth.dialect]:
            truth.run(statement)

    yield begin
    on = " ON halfhitch_barrier" if truth.dialect == "postgresql" else ""
    with suppress(*ERRORS):
        truth.run("DROP TRIGGER IF EXISTS swallow" + on)


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.server in ("sqlite", "postgresql")], ids=str
)
def test_a_block_committed_rows_without_the_record_that_a_trigger_had_swallowed(
    shop: Shop, truth: Truth, swallowing: Callable[[], None]
) -> None:
    """No check could have told that the rows stood."""
    swallowing()

    refused(shop, lambda local: order(local, "a"), "wrote no row")
    assert (truth.orders(), truth.rows()) == (set(), {})
