"""What servers do of their own, behind Django: they wait, and one rolls back without a word."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from django.db import DatabaseError, connections, transaction

from halfhitch.client import LocalTransactionState, TransactionMisused
from halfhitch.django import process
from harness.barriers import asked
from harness.django_project import TOPIC, Project, mariadb, order, postgresql, project, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halfhitch.testing import MemoryCoordinator
    from harness.postgres import EmbeddedPostgres


@pytest.fixture
def shop(halfhitch_coordinator: MemoryCoordinator, postgres: EmbeddedPostgres) -> Iterator[Project]:
    halfhitch_coordinator.create_topic(TOPIC)
    with project(halfhitch_coordinator, postgresql(postgres.port)) as made:
        yield made


@pytest.fixture(params=["postgresql", "mariadb"])
def any_shop(
    halfhitch_coordinator: MemoryCoordinator, request: pytest.FixtureRequest
) -> Iterator[Project]:
    halfhitch_coordinator.create_topic(TOPIC)
    if request.param == "postgresql":
        database = postgresql(request.getfixturevalue("postgres").port)
    else:
        database = mariadb(request.getfixturevalue("mariadb").arguments())
    with project(halfhitch_coordinator, database) as made:
        yield made


def test_messages_follow_rows_and_savepoints(any_shop: Project) -> None:
    with transaction.atomic():
        order("book")
        with refused(ValueError):
            order("moon")
            raise ValueError
        with transaction.atomic():
            order("pen")
    with refused(ValueError):
        order("mars")
        raise ValueError
    any_shop.coordinator.advance(30)
    any_shop.require("book", "pen")
    assert sorted(any_shop.recorded().values()) == ["committed"] * 2 + ["fenced"] * 2


@pytest.mark.parametrize("statement", ["COMMIT", "CREATE TABLE IF NOT EXISTS sights (name INT)"])
def test_messages_joined_a_transaction_that_was_committed_inside_its_block(
    any_shop: Project, statement: str
) -> None:
    """What came behind was rolled back, and its messages were committed with the record before."""

    def run(*statements: str) -> None:
        for one in statements:
            with connections["default"].cursor() as cursor:
                cursor.execute(one)

    stands = statement == "COMMIT" or connections["default"].vendor == "mysql"
    with refused(ValueError):
        order("book")
        run(statement)
        order("moon")
        with transaction.atomic():
            order("far side")
        raise ValueError
    any_shop.coordinator.advance(30)
    any_shop.require(*["book"][:stands])
    with transaction.atomic():
        order("ink")
        run("SET @a = 1" if connections["default"].vendor == "mysql" else "SELECT 1")
        order("ink again")
        run(statement)
        order("pen")
    any_shop.require(*["book"][:stands], "ink", "ink again", "pen")


def swallow_a_failure() -> None:
    with connections["default"].cursor() as cursor, pytest.raises(DatabaseError):
        cursor.execute("SELECT 1 / 0")


def test_messages_followed_rows_that_postgresql_had_rolled_back_without_a_word(
    shop: Project,
) -> None:
    """Django takes the COMMIT for one, and calls what was to be done behind it."""

    @transaction.atomic
    def work() -> None:
        order("book")
        swallow_a_failure()

    with pytest.raises(TransactionMisused, match="without a word"):
        work()
    assert shop.rows() == []
    shop.coordinator.advance(30)
    shop.require()


def test_a_check_waits_for_a_local_transaction_that_is_open(shop: Project) -> None:
    import halfhitch.django

    answers: list[LocalTransactionState] = []
    with transaction.atomic():
        order("book")
        question = asked(halfhitch.django.transaction_id())
        check = process.barrier().check
        thread = threading.Thread(target=lambda: answers.append(check(question)))
        thread.start()
        thread.join(1)
        assert thread.is_alive()
    thread.join()
    assert answers == [LocalTransactionState.COMMIT]
    shop.require("book")


def test_a_check_s_connections_are_set_up_as_django_sets_up_its_own(
    halfhitch_coordinator: MemoryCoordinator, postgres: EmbeddedPostgres
) -> None:
    database = postgresql(postgres.port)
    database["OPTIONS"] = {"options": "-c search_path=shop"}
    plain = project(halfhitch_coordinator, postgresql(postgres.port))
    with plain, connections["default"].cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        cursor.execute("CREATE SCHEMA shop")
    with project(halfhitch_coordinator, database) as shop:
        assert process.barrier().check(asked("never")) is LocalTransactionState.ROLLBACK
        assert shop.recorded() == {"never": "fenced"}
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT count(*) FROM shop.halfhitch_barrier")
            assert cursor.fetchone() == (1,)
