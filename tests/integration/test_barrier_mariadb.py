"""What is particular to the barrier on MariaDB: charsets, modes, the binary log, deadlocks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from halfhitch.barrier import DbapiBarrier
from halfhitch.client import LocalTransactionState
from harness.barriers import GROUP, asked
from harness.databases import ENOUGH_S, ERRORS, WAYS, Truth, Way, open_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.databases import Shop
    from harness.mariadb import EmbeddedMariaDb

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN

NAMES = ("plain", "é", "日本", "\U0001f600", "a\\b", "it's")
CHARSETS = ("utf8mb4", "utf8mb3", "latin1", "gbk", "sjis")
MODES = ("", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ORACLE", "STRICT_ALL_TABLES")


@pytest.fixture(params=[way for way in WAYS if way.server == "mariadb"], ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def truth(truths: Callable[[str], Truth]) -> Truth:
    return truths("mariadb")


@pytest.fixture
def shop(way: Way, truth: Truth, mariadb: EmbeddedMariaDb) -> Iterator[Shop]:
    made = open_shop(way, mariadb.port)
    yield made
    made.close()


def barrier_over(mariadb: EmbeddedMariaDb, **options: Any) -> DbapiBarrier:
    """`options` go to `pymysql.connect`."""
    return DbapiBarrier(
        lambda: pymysql.connect(**mariadb.arguments(**options)), GROUP, wait_s=ENOUGH_S
    )


@pytest.mark.parametrize("charset", CHARSETS)
def test_an_id_is_the_same_whatever_charset_a_connection_has(
    mariadb: EmbeddedMariaDb, truth: Truth, charset: str
) -> None:
    other = barrier_over(mariadb, charset=charset)
    usual = barrier_over(mariadb)
    for recorder, checker in ((other, usual), (usual, other)):
        truth.empty_tables()
        connection = recorder._connect()
        for name in NAMES:
            recorder.record(connection, name)
        connection.commit()
        connection.close()
        assert {name: checker.check(asked(name)) for name in NAMES} == dict.fromkeys(NAMES, COMMIT)
        assert truth.rows() == dict.fromkeys(NAMES, "committed")


@pytest.mark.parametrize("mode", MODES)
def test_the_sql_mode_of_a_connection_changes_nothing(
    mariadb: EmbeddedMariaDb, truth: Truth, mode: str
) -> None:
    barrier = barrier_over(mariadb, sql_mode=mode)
    connection = barrier._connect()
    for name in NAMES:
        barrier.record(connection, name)
    connection.commit()
    connection.close()
    assert {name: barrier.check(asked(name)) for name in NAMES} == dict.fromkeys(NAMES, COMMIT)
    assert barrier.check(asked("other")) is ROLLBACK
    truth.make_old(days=8)
    assert barrier.purge(batch_count=2) == len(NAMES) + 1


@contextmanager
def setting(mariadb: EmbeddedMariaDb, name: str, value: str) -> Iterator[None]:
    """Of connections that are made from now on."""
    with mariadb.connection() as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        ((before,),) = cursor.fetchall()
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


@pytest.mark.parametrize("form", ["STATEMENT", "MIXED", "ROW"])
def test_every_form_of_the_binary_log_lets_a_check_fence(
    way: Way, truth: Truth, mariadb: EmbeddedMariaDb, form: str
) -> None:
    """At READ COMMITTED, STATEMENT refuses all writes: checks would be UNKNOWN for ever."""
    with setting(mariadb, "binlog_format", f"'{form}'"):
        shop = open_shop(way, mariadb.port)
        try:
            with shop.begin() as local:
                local.record("a")
                local.commit()
            assert [shop.check(name) for name in ("a", "b")] == [COMMIT, ROLLBACK]
            truth.make_old(days=8)
            assert shop.purge() == 2
        finally:
            shop.close()


@pytest.mark.parametrize("rows", ["tuples", "dictionaries"])
def test_rows_may_be_what_the_program_wants(
    mariadb: EmbeddedMariaDb, truth: Truth, rows: str
) -> None:
    kinds = {"tuples": pymysql.cursors.SSCursor, "dictionaries": pymysql.cursors.DictCursor}
    barrier = barrier_over(mariadb, cursorclass=kinds[rows])
    connection = barrier._connect()
    barrier.record(connection, "a")
    connection.commit()
    connection.close()
    assert [barrier.check(asked(name)) for name in ("a", "b")] == [COMMIT, ROLLBACK]
    truth.make_old(days=8)
    assert barrier.purge() == 2


_ROW = f"""INSERT INTO halfhitch_barrier (producer_group, transaction_id, outcome)
    VALUES ('{GROUP}', 'a', 'committed')"""


@pytest.mark.parametrize(
    "hold", [_ROW, "LOCK TABLES halfhitch_barrier WRITE"], ids=["row", "table"]
)
def test_the_database_itself_ends_a_checks_wait(
    truth: Truth, mariadb: EmbeddedMariaDb, hold: str
) -> None:
    """The pool keeps the connection: nobody had to cut it off."""
    way = next(way for way in WAYS if (way.server, way.style) == ("mariadb", "sqlalchemy"))
    shop: Any = open_shop(way, mariadb.port, pool_size=1, max_overflow=0)

    def connection_id() -> Any:
        with shop.begin() as local:
            return local.execute("SELECT CONNECTION_ID()").scalar()

    before = connection_id()
    with truth.connect() as other:
        other.begin()
        other.cursor().execute(hold)
        assert shop.check("a", wait_s=5.0) is UNKNOWN
        assert connection_id() == before
        other.rollback()
    assert shop.check("a") is ROLLBACK
    shop.close()


def test_a_deadlock_over_the_ids_row_is_never_a_wrong_answer(shop: Shop, truth: Truth) -> None:
    """A local transaction and a check wait for each other's row: the database chooses one."""
    from concurrent.futures import ThreadPoolExecutor

    with shop.begin() as first, shop.begin() as second, ThreadPoolExecutor(2) as pool:
        first.record("a")
        second.record("b")
        waiting = pool.submit(first.record, "b")
        truth.await_waiting(1)
        results = [attempt(lambda: second.record("a")), attempt(waiting.result)]
        assert sum(result is not None for result in results) >= 1
        for local in (first, second):
            attempt(local.commit)
    rows = truth.rows()
    assert rows in ({}, {"a": "committed", "b": "committed"})
    wanted = COMMIT if rows else ROLLBACK
    assert [shop.check(name) for name in ("a", "b")] == [wanted, wanted]


def attempt(step: Callable[[], object]) -> BaseException | None:
    """What went wrong, if anything."""
    try:
        step()
    except ERRORS as error:
        return error
    return None


def test_a_purge_looks_rows_up_by_their_key(truth: Truth) -> None:
    """However many of the rows are old: a search through the group would lock it as a whole."""
    from halfhitch.barrier.table import delete_of_mysql

    for old, young in ((7, 0), (7, 2), (300, 300), (1000, 10)):
        truth.empty_tables()
        values = [f"('{GROUP}', '{number}', 'fenced')" for number in range(old + young)]
        truth.run(
            "INSERT INTO halfhitch_barrier (producer_group, transaction_id, outcome) VALUES "
            + ", ".join(values)
        )
        ids = [str(number).encode().hex() for number in range(old)]
        statement = delete_of_mysql("halfhitch_barrier", ids).replace(
            "?", f"'{GROUP.encode().hex()}'"
        )
        *_, (_, _, name, kind, _, key, *_) = truth.run("EXPLAIN " + statement)[:2]
        assert (name, kind, key) == ("row", "eq_ref", "PRIMARY")


# -- time zones ----------------------------------------------------------------------------------

_ZONE = "Half/Hitch"
#: When its clocks go forward by an hour, and when they go back.
_FORWARD_S, _BACK_S = 1_774_746_000, 1_792_890_000
_WEEK_S = 7 * 86_400


@pytest.fixture
def zone(truth: Truth) -> str:
    """A time zone with summer time, as the server's tables have them."""
    number = 424_242
    for table, values in (
        ("time_zone", f"({number}, 'N')"),
        ("time_zone_name", f"('{_ZONE}', {number})"),
        ("time_zone_transition_type", f"({number}, 0, 3600, 0, 'W'), ({number}, 1, 7200, 1, 'S')"),
        ("time_zone_transition", f"({number}, {_FORWARD_S}, 1), ({number}, {_BACK_S}, 0)"),
    ):
        truth.run(f"INSERT IGNORE INTO mysql.{table} VALUES {values}")
    return _ZONE


@pytest.mark.parametrize("change_s", [_FORWARD_S, _BACK_S], ids=["forward", "back"])
@pytest.mark.parametrize("later_s", [1_200, 5_000, 86_400, _WEEK_S - 60, _WEEK_S + 4_800])
def test_a_purge_in_the_week_after_the_clocks_were_put_took_rows_an_hour_early_or_late(
    way: Way, truth: Truth, mariadb: EmbeddedMariaDb, zone: str, change_s: int, later_s: int
) -> None:
    """A check of such a transaction would have fenced what had committed."""
    now_s = change_s + later_s
    for name, age_s in {
        "young": _WEEK_S - 1_500,
        "just young": _WEEK_S - 1,
        "old": _WEEK_S + 1,
        "older": _WEEK_S + 1_500,
    }.items():
        truth.run(f"SET timestamp = {now_s - age_s}")
        truth.run(
            "INSERT INTO halfhitch_barrier (producer_group, transaction_id, outcome)"
            f" VALUES ('{GROUP}', '{name}', 'committed')"
        )
    truth.run("SET timestamp = DEFAULT")
    told = {"init_command": f"SET time_zone = '{zone}', timestamp = {now_s}"}
    options = told if way.style == "plain" else {"connect_args": told}
    shop = open_shop(way, mariadb.port, **options)
    try:
        assert shop.purge() == 2
    finally:
        shop.close()
    assert set(truth.rows()) == {"young", "just young"}
