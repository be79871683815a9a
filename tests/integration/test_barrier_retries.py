"""A block under an id of the program's own asks for earlier attempts before anything is sent.

On every database and driver. The coordinator forgets a transaction that has ended
(`ledger.horizon_s`); the barrier's table still knows it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from halfhitch.barrier import TransactionFenced, TransactionRecordedTwice
from halfhitch.client import LocalTransactionState
from halfhitch.errors import BackendError
from harness.barriers import RecordingProducer
from harness.blocks import each, order, run
from harness.databases import ERRORS, WAYS, Truth, Way, open_shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.databases import Shop

SERVERS = ("sqlite", "postgresql", "mariadb")
ON_ALL = pytest.mark.parametrize("way", [way for way in WAYS if way.server in SERVERS], ids=str)


class Attempt:
    """Of transaction "a": what becomes of it."""

    def __init__(self) -> None:
        self.producer = RecordingProducer()
        self.is_begun = False

    def run(self, barrier: Any, body: Any = None, **options: Any) -> None:
        with barrier.transaction(self.producer, "a", **options) as (_, local):
            self.is_begun = True  # what is sent, is sent from here on
            if body is not None:
                body(local)

    @property
    def ends(self) -> list[str]:
        return self.producer.made[0].ends


def first_attempt(shop: Shop) -> None:
    """It has committed, and its messages are long forgotten."""
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        local.commit()


@ON_ALL
def test_a_retry_of_which_the_coordinator_knew_nothing_any_more_sent_everything_again(
    shop: Shop, truth: Truth
) -> None:
    """It was refused at its end only, and a check then found the row of the first attempt."""
    first_attempt(shop)
    retry = Attempt()
    with pytest.raises(TransactionRecordedTwice, match="has committed") as refused:
        retry.run(shop.barrier(), lambda local: run(local, lambda one: order(one, "again")))
    assert refused.value.committed_before
    assert (retry.is_begun, retry.ends) == (False, [])
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed"})


@ON_ALL
def test_a_retry_after_a_failed_attempt_was_refused_by_the_coordinator_s_word_for_it(
    shop: Shop, truth: Truth
) -> None:
    """The first send raised ContraryDecision, where the documents promise TransactionFenced."""

    def fail(_: Any) -> None:
        raise KeyError

    failed, retry = Attempt(), Attempt()
    with pytest.raises(KeyError):
        failed.run(shop.barrier(), fail)
    assert (failed.ends, truth.rows()) == (["rollback"], {"a": "fenced"})
    with pytest.raises(TransactionFenced, match="Begin again with a new transaction id"):
        retry.run(shop.barrier())
    assert (retry.is_begun, retry.ends) == (False, [])


@ON_ALL
def test_a_first_attempt_under_an_id_of_one_s_own_is_none_the_wiser(
    shop: Shop, truth: Truth
) -> None:
    attempt = Attempt()
    attempt.run(shop.barrier(), lambda local: run(local, lambda one: order(one, "a")))
    assert (attempt.ends, truth.rows()) == (["commit"], {"a": "committed"})


# -- a session of the program's ------------------------------------------------------------------


@pytest.fixture
def narrow(way: Way, truth: Truth, addresses: Callable[[str], Any]) -> Iterator[Any]:
    """A shop whose pool has one connection."""
    made: Any = open_shop(way, addresses(way.server), pool_size=1, max_overflow=0, pool_timeout=1)
    yield made
    made.close()


def inner(session: Any) -> Any:
    """What a block is given."""
    return getattr(session, "inner", session)


def lent(shop: Any) -> int:
    """Connections out of the pool."""
    engine = getattr(shop, "async_engine", None) or shop.engine
    return int(engine.pool.checkedout())


@each("alchemy", *SERVERS)
def test_to_ask_for_an_earlier_attempt_begins_nothing_and_holds_no_connection(
    narrow: Any, truth: Truth
) -> None:
    seen: list[tuple[int, bool]] = []
    attempt = Attempt()
    with narrow.session() as session:
        attempt.run(
            narrow.barrier(),
            lambda _: seen.append((lent(narrow), inner(session).in_transaction())),
            session=inner(session),
        )
    assert (seen, attempt.ends) == ([(0, False)], ["commit"])


@each("alchemy", *SERVERS)
def test_a_session_that_holds_the_pool_s_last_connection_is_told_so_and_may_try_again(
    narrow: Any, truth: Truth
) -> None:
    """Over that session's own connection an old snapshot would answer."""
    attempt, again = Attempt(), Attempt()
    with narrow.session() as session:
        run(session, lambda one: one.execute(text("SELECT 1")))
        with pytest.raises(BackendError, match="no answer within") as refused:
            attempt.run(narrow.barrier(wait_s=0.2), session=inner(session))
        again.run(narrow.barrier(), session=inner(session))  # it has let go of its connection
    assert "takes one more connection for a moment" in refused.value.__notes__[-1]
    assert (attempt.is_begun, attempt.ends, again.ends) == (False, [], ["commit"])
    assert truth.rows() == {"a": "committed"}


def read(session: Any, level: str) -> None:
    """Something, in a transaction of this level: from now on it has its snapshot."""

    def look(one: Any) -> None:
        if one.get_bind().dialect.name == "sqlite":  # sqlite3 begins none for a SELECT
            one.execute(text("BEGIN"))
        else:
            one.connection(execution_options={"isolation_level": level})
        one.execute(text("SELECT id FROM shop_orders")).all()

    run(session, look)


@each("alchemy", *SERVERS)
def test_a_retry_was_begun_because_its_session_s_snapshot_was_older_than_the_first_attempt(
    shop: Any, truth: Truth
) -> None:
    """It was asked over that session, which saw no row; everything was sent again."""
    retry = Attempt()
    with shop.session() as session:
        read(session, "REPEATABLE READ")
        first_attempt(shop)
        with pytest.raises(TransactionRecordedTwice, match="has committed"):
            retry.run(shop.barrier(), session=inner(session))
    assert (retry.is_begun, retry.ends) == (False, [])
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed"})


def begin_serializable(session: Any) -> None:
    """Its transaction has a connection then."""
    session.connection(execution_options={"isolation_level": "SERIALIZABLE"})
    if session.get_bind().dialect.name != "postgresql":
        session.execute(text("SET SESSION innodb_lock_wait_timeout = 1"))


@each("alchemy", "postgresql", "mariadb")
def test_the_question_at_serializable_made_attempts_of_other_ids_fail(
    shop: Any, truth: Truth
) -> None:
    """Asked over the session, it collided with the record of a block it has nothing to do with."""
    producers = RecordingProducer(), RecordingProducer()
    barrier = shop.barrier()
    with shop.session() as one, shop.session() as two:
        for session in (one, two):
            run(session, begin_serializable)
        with (
            barrier.transaction(producers[0], "a", session=inner(one)),
            barrier.transaction(producers[1], "b", session=inner(two)),
        ):
            pass
    assert [producer.made[0].ends for producer in producers] == [["commit"], ["commit"]]
    assert truth.rows() == {"a": "committed", "b": "committed"}


@each("alchemy", *SERVERS)
def test_what_a_session_has_done_before_a_refused_retry_is_rolled_back(
    shop: Any, truth: Truth
) -> None:
    first_attempt(shop)
    retry = Attempt()
    with shop.session() as session:
        run(session, lambda one: order(one, "before"))
        with pytest.raises(TransactionRecordedTwice):
            retry.run(shop.barrier(), session=inner(session))
        session.commit()  # by a program that takes the refusal for success
    assert (retry.is_begun, truth.orders()) == (False, {"a"})


@each("alchemy", "mariadb")
def test_a_row_that_is_not_committed_refuses_no_retry(shop: Any, truth: Truth) -> None:
    """A session at READ UNCOMMITTED sees it, and it is rolled back."""
    attempt = Attempt()
    with shop.begin() as first, shop.session() as session:
        first.record("a")
        level = text("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        run(session, lambda one: one.execute(level))
        session.commit()
        run(session, lambda one: one.execute(text("SELECT 1")))
        attempt.run(shop.barrier(), lambda _: first.rollback(), session=inner(session))
    assert (attempt.ends, truth.rows()) == (["commit"], {"a": "committed"})


# -- a database that does not tell ---------------------------------------------------------------


@ON_ALL
def test_who_cannot_be_asked_for_an_earlier_attempt_begins_none_and_fences_nothing(
    shop: Shop, truth: Truth
) -> None:
    attempt = Attempt()
    with pytest.raises(ERRORS) as refused:
        attempt.run(shop.barrier(table="not_made_yet"))
    assert (attempt.is_begun, attempt.ends) == (False, [])
    how_to_make_it, unread = refused.value.__notes__
    assert "create the table not_made_yet" in how_to_make_it
    assert "nothing was sent. Try again with the same id" in unread


@each("alchemy", "sqlite")
def test_a_pool_that_is_used_up_begins_no_retry_and_says_when_to_try_again(
    narrow: Any, truth: Truth
) -> None:
    attempt = Attempt()
    with narrow.session() as session:
        run(session, lambda one: one.execute(text("SELECT 1")))
        with pytest.raises(BackendError, match="no answer within") as refused:
            attempt.run(narrow.barrier(wait_s=0.2))
    assert "nothing was sent. Try again with the same id" in refused.value.__notes__[-1]
    assert narrow.check("a") is LocalTransactionState.ROLLBACK
