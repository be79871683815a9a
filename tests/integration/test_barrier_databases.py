"""The barrier's promises, each on every database, driver, pooler and isolation level.

What is particular to one database stands in a module of its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.barrier import LocalOutcomeUnknown, TransactionFenced
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.databases import ENOUGH_S, ERRORS, LEVELLED, WAYS, Truth, Way, open_shop
from harness.kafka import wait_until
from harness.wire import Wire

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from harness.databases import Shop

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN

#: Long enough for an answer that is there, short enough to wait for in vain.
_SHORT_S = 0.4

# aiomysql warns of a table that IF NOT EXISTS has found.
pytestmark = pytest.mark.filterwarnings("ignore:Table 'halfhitch_barrier' already exists")


@pytest.fixture(params=[*WAYS, *LEVELLED], ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    """Every way, and every level of it."""
    found: Way = request.param
    return found


def each(*ways: Way) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", ways, ids=str, indirect=True)


#: At the database's default level only: what levels have no part in.
DEFAULT = each(*WAYS)
SERVERS = each(*[way for way in WAYS if way.server != "sqlite"])


# -- what is answered ----------------------------------------------------------------------------


def test_what_is_recorded_and_committed_is_answered_commit(shop: Shop, truth: Truth) -> None:
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        local.commit()
    assert shop.check("a") is COMMIT
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed"})


def test_what_is_not_recorded_is_fenced_then_answered_rollback(shop: Shop, truth: Truth) -> None:
    assert shop.check("a") is ROLLBACK
    assert truth.rows() == {"a": "fenced"}
    assert shop.check("a") is ROLLBACK


def test_a_fence_beats_a_later_record(shop: Shop, truth: Truth) -> None:
    with shop.begin() as local:
        local.execute("SELECT id FROM shop_orders")  # its view of the database is older
        assert shop.check("a") is ROLLBACK
        local.order("a")
        # At the levels above READ COMMITTED the database may say of itself that it cannot be.
        with pytest.raises((TransactionFenced, *ERRORS)):
            local.record("a")
        try_to_commit(local)
    assert (truth.orders(), truth.rows()) == (set(), {"a": "fenced"})
    assert shop.check("a") is ROLLBACK


def try_to_commit(local: Any) -> None:
    """As a program that does not look at what it was told."""
    try:
        local.commit()
    except ERRORS:
        pass


def test_a_record_that_is_not_committed_is_never_answered(shop: Shop, truth: Truth) -> None:
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        assert shop.check("a", wait_s=_SHORT_S) is UNKNOWN
        local.commit()
    assert shop.check("a") is COMMIT
    assert truth.orders() == {"a"}


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_check_waits_for_the_end_of_a_running_one(
    shop: Shop, truth: Truth, way: Way, ends: str
) -> None:
    with shop.begin() as local, ThreadPoolExecutor(1) as pool:
        local.order("a")
        local.record("a")
        waiting = pool.submit(shop.check, "a")
        if way.server != "sqlite":  # which does not tell who waits
            truth.await_waiting(1)
        getattr(local, ends)()
        answer = waiting.result(ENOUGH_S)
    assert answer is (COMMIT if ends == "commit" else ROLLBACK)
    assert truth.orders() == ({"a"} if ends == "commit" else set())


@DEFAULT
def test_a_rollback_leaves_nothing(shop: Shop, truth: Truth) -> None:
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        local.rollback()
    assert (truth.orders(), truth.rows()) == (set(), {})
    assert shop.check("a") is ROLLBACK


@DEFAULT
def test_two_checks_at_once_agree(shop: Shop, truth: Truth) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = {name: [pool.submit(shop.check, name) for _ in range(4)] for name in "ab"}
        found = {name: {one.result(ENOUGH_S) for one in some} for name, some in answers.items()}
    assert found == {name: {ROLLBACK} for name in "ab"}
    assert truth.rows() == dict.fromkeys("ab", "fenced")


@SERVERS
def test_checks_that_wait_for_one_that_rolls_back_may_deadlock_and_are_never_wrong(
    shop: Shop, truth: Truth
) -> None:
    with shop.begin() as local, ThreadPoolExecutor(3) as pool:
        local.record("a")
        waiting = [pool.submit(shop.check, "a") for _ in range(3)]
        truth.await_waiting(3)
        local.rollback()
        answers = {one.result(ENOUGH_S) for one in waiting}
    assert ROLLBACK in answers
    assert COMMIT not in answers
    assert shop.check("a") is ROLLBACK


@each(*WAYS, *[way for way in LEVELLED if way.style == "sqlalchemy"])
def test_no_answer_ever_differs_from_the_truth(
    shop: Shop, truth: Truth, rng: random.Random
) -> None:
    names = [f"a{number}" for number in range(16)]
    dice = {name: random_of(rng) for name in names}

    def work(name: str) -> None:
        with shop.begin() as local:
            try:
                one_local_transaction(local, name, dice[name])
            except (TransactionFenced, *ERRORS):
                pass

    answers: dict[str, set[LocalTransactionState]] = {name: set() for name in names}

    def ask(name: str) -> None:
        answers[name].add(shop.check(name, wait_s=5.0))

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(job, name) for name in names for job in (work, ask, ask)]
        for job in jobs:
            job.result(2 * ENOUGH_S)
    for name in names:
        wait_until(lambda name=name: shop.check(name) is not UNKNOWN, ENOUGH_S)
        ask(name)
    orders = truth.orders()
    wanted = {name: COMMIT if name in orders else ROLLBACK for name in names}
    assert {name: given - {UNKNOWN} for name, given in answers.items()} == {
        name: {wanted[name]} for name in names
    }


def random_of(rng: random.Random) -> tuple[bool, bool]:
    """Recorded first; committed."""
    return rng.random() < 0.5, rng.random() < 0.7


def one_local_transaction(local: Any, name: str, dice: tuple[bool, bool]) -> None:
    is_early, is_committed = dice
    if is_early:
        local.record(name)
    local.execute("SELECT id FROM shop_orders")
    local.order(name)
    if not is_early:
        local.record(name)
    if is_committed:
        local.commit()


# -- ids -----------------------------------------------------------------------------------------

LONGEST = "ä" * 127 + "z"  # 255 bytes
IDS = (
    *("a", "A", "a ", " a", "a  ", "á", "a\u0301", "ss", "ß", "İ", "i", "I", "\u0131"),
    *("1", "01", "1.0", "1e0", "0x31", "é", "e", "日本", "\U0001f600", "\U0001f601"),
    *("%", "_", "\\", "\\\\", "'", '"', "?", "%s", ":p1", "$1", LONGEST, LONGEST[:-1]),
)


@DEFAULT
def test_ids_are_told_apart_byte_by_byte(shop: Shop, truth: Truth, rng: random.Random) -> None:
    recorded = set(rng.sample(IDS, len(IDS) // 2))
    with shop.begin() as local:
        for name in IDS:
            if name in recorded:
                local.record(name)
        local.commit()
    answers = {name: shop.check(name) for name in IDS}
    assert answers == {name: COMMIT if name in recorded else ROLLBACK for name in IDS}
    assert truth.rows() == {name: "committed" if name in recorded else "fenced" for name in IDS}


# -- what a local transaction must be like -------------------------------------------------------


@pytest.mark.parametrize(
    "way", [way.at("AUTOCOMMIT") for way in WAYS if way.style != "plain"], ids=str, indirect=True
)
def test_a_record_that_would_be_committed_alone_is_refused(shop: Shop, truth: Truth) -> None:
    with shop.begin() as local, pytest.raises(InvalidRequest, match="autocommit"):
        local.record("a")
    assert truth.rows() == {}
    # Checks have transactions of their own all the same.
    assert shop.check("a") is ROLLBACK


@each(*[way for way in WAYS if way.style == "plain" and way.server != "sqlite"])
def test_a_plain_record_that_would_be_committed_alone_is_refused(
    way: Way, truth: Truth, addresses: Any
) -> None:
    shop = open_shop(way, addresses(way.server), autocommit=True)
    with shop.begin() as local:
        with pytest.raises(InvalidRequest, match="autocommit"):
            local.record("a")
        assert truth.rows() == {}
        local.execute("BEGIN")
        local.record("a")
        local.execute("ROLLBACK")
    assert truth.rows() == {}
    assert shop.check("a") is ROLLBACK


@SERVERS
def test_a_record_that_fails_leaves_nothing_to_commit(shop: Shop, truth: Truth, way: Way) -> None:
    """It waited too long for a row of its own id that somebody else has not committed."""
    lower = {"mariadb": "SET SESSION innodb_lock_wait_timeout = 1"}
    with shop.begin() as first, shop.begin() as second:
        first.record("a")
        second.order("a")
        second.execute(lower.get(way.server, "SET LOCAL lock_timeout = 200"))
        with pytest.raises(ERRORS):
            second.record("a")
        try_to_commit(second)  # and does not look at what it was told
        first.rollback()
    assert (truth.orders(), truth.rows()) == (set(), {})
    assert shop.check("a") is ROLLBACK


# -- a check does not wait for long, and leaves nothing behind ------------------------------------


@SERVERS
def test_a_table_that_is_locked_as_a_whole_is_answered_unknown(
    shop: Shop, truth: Truth, way: Way
) -> None:
    other = truth.connect()
    cursor = other.cursor()
    try:
        if way.server == "mariadb":
            cursor.execute("LOCK TABLES halfhitch_barrier WRITE")
        else:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE halfhitch_barrier IN ACCESS EXCLUSIVE MODE")
        assert shop.check("a", wait_s=_SHORT_S) is UNKNOWN  # while it is locked
    finally:
        other.close()
    assert shop.check("a") is ROLLBACK


_SETTINGS = {
    "mariadb": "SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout,"
    " @@SESSION.max_statement_time, @@SESSION.tx_isolation, @@SESSION.autocommit",
    "postgresql": "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),"
    " current_setting('default_transaction_isolation')",
}


@each(*[way for way in WAYS if way.server != "sqlite" and way.style == "sqlalchemy"])
def test_a_check_leaves_the_pools_connection_as_it_was(
    way: Way, truth: Truth, addresses: Any
) -> None:
    shop: Any = open_shop(way, addresses(way.server), pool_size=1, max_overflow=0)
    statement = _SETTINGS["mariadb" if way.server == "mariadb" else "postgresql"]

    def settings() -> list[Any]:
        with shop.begin() as local:
            return [tuple(row) for row in local.execute(statement)]

    before = settings()
    with shop.begin() as local:  # of another connection, for the pool has one
        assert before == settings_of(local, statement)
    assert shop.check("a") is ROLLBACK
    assert settings() == before
    holder = open_shop(way, addresses(way.server))
    with holder.begin() as local:
        local.record("b")
        assert shop.check("b", wait_s=_SHORT_S) is UNKNOWN
    assert settings() == before
    holder.close()
    shop.close()


def settings_of(local: Any, statement: str) -> list[Any]:
    return [tuple(row) for row in local.execute(statement)]


# -- old rows ------------------------------------------------------------------------------------


@DEFAULT
def test_old_rows_are_purged_in_batches_and_young_ones_kept(shop: Shop, truth: Truth) -> None:
    for number in range(7):
        assert shop.check(f"old-{number}") is ROLLBACK
    truth.make_old(days=8)
    assert shop.check("young") is ROLLBACK
    assert shop.purge(batch_count=3) == 7
    assert truth.rows() == {"young": "fenced"}


@SERVERS
def test_a_purge_does_not_wait_for_local_transactions(shop: Shop, truth: Truth) -> None:
    for number in range(7):
        assert shop.check(f"old-{number}") is ROLLBACK
    truth.make_old(days=8)
    with shop.begin() as one, shop.begin() as other, ThreadPoolExecutor(1) as pool:
        one.record("a")
        assert pool.submit(shop.purge, batch_count=3).result(ENOUGH_S) == 7
        other.record("b")
        one.commit()
        other.commit()
    assert truth.rows() == {"a": "committed", "b": "committed"}


@DEFAULT
def test_the_table_may_be_created_again(shop: Shop, truth: Truth) -> None:
    assert shop.check("a") is ROLLBACK
    shop.create()
    assert truth.rows() == {"a": "fenced"}


# -- a connection that is lost in COMMIT ----------------------------------------------------------


@pytest.fixture
def wire(way: Way, addresses: Any) -> Iterator[Wire]:
    with Wire(addresses(way.server)) as made:
        yield made


@SERVERS
def test_a_block_whose_connection_is_lost_after_the_commit_commits_its_messages(
    way: Way, truth: Truth, wire: Wire
) -> None:
    with ExitStack() as stack:
        shop = open_shop(way, wire.port)
        stack.callback(shop.close)
        wire.cut_at(b"COMMIT", is_delivered=True)
        producer = shop.block("a")
    assert wire.cut_count == 1
    assert producer.made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed"})


@SERVERS
def test_a_block_whose_connection_is_lost_before_the_commit_rolls_its_messages_back(
    way: Way, truth: Truth, wire: Wire
) -> None:
    with ExitStack() as stack:
        shop = open_shop(way, wire.port)
        stack.callback(shop.close)
        wire.cut_at(b"COMMIT", is_delivered=False)
        with pytest.raises(ERRORS) as caught:
            shop.block("a")
        assert not isinstance(caught.value, LocalOutcomeUnknown)
        assert shop.check("a") is ROLLBACK
    assert wire.cut_count == 1
    assert (truth.orders(), truth.rows()) == (set(), {"a": "fenced"})


@SERVERS
def test_a_block_whose_database_is_gone_after_the_commit_decides_nothing(
    way: Way, truth: Truth, wire: Wire
) -> None:
    with ExitStack() as stack:
        shop = open_shop(way, wire.port)
        stack.callback(shop.close)
        wire.cut_at(b"COMMIT", is_delivered=True, is_last=True)
        with pytest.raises(LocalOutcomeUnknown):
            shop.block("a", wait_s=2.0)
        wire.mend()
        assert shop.check("a") is COMMIT
    assert truth.orders() == {"a"}
