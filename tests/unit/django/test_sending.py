"""Messages follow the rows of their atomic block, and of no other one."""

from __future__ import annotations

import unittest
from contextlib import ExitStack

import pytest
from django.core.signals import got_request_exception
from django.db import IntegrityError, InterfaceError, OperationalError, connections, transaction
from django.test import Client, TestCase

import halfhitch.django
from halfhitch.client import TransactionDoomed, TransactionMisused
from halfhitch.errors import RequestError
from halfhitch.testing import SimulatedCrash
from harness.django_project import TOPIC, add, atomic_order, order, refused


class TimeLimit(Exception):
    """Of a task's."""


def test_messages_are_committed_when_django_has_committed(shop):
    with transaction.atomic():
        order("book")
        halfhitch.django.send(TOPIC, "book again")
        chosen = halfhitch.django.transaction_id()
        assert shop.messages() == []
        assert shop.coordinator.pending() == [chosen]
    assert shop.rows() == ["book"]
    assert shop.messages() == ["book", "book again"]
    assert shop.recorded() == {chosen: "committed"}
    assert {m.transaction_id for m in shop.coordinator.messages(TOPIC)} == {chosen}


def test_what_is_rolled_back_is_dropped_by_a_check(shop):
    with refused(ValueError):
        order("book")
        raise ValueError("sold out")
    (left,) = shop.coordinator.pending()
    shop.coordinator.advance(30)
    shop.require()
    assert shop.recorded() == {left: "fenced"}


def test_a_function_that_is_atomic_and_failed_once_sent_into_its_old_transaction(shop):
    """The decorator is one object for all its calls: by it they cannot be told apart."""

    @transaction.atomic
    def work(item):
        order(item)
        if item == "moon":
            raise ValueError(item)

    for item in ("moon", "book", "moon", "pen"):
        try:
            work(item)
        except ValueError:
            assert item == "moon"
    shop.coordinator.advance(30)
    shop.require("book", "pen")


def test_a_block_sent_into_that_of_one_whose_end_was_interrupted_behind_its_commit(shop):
    """Django leaves the functions of the first in its list; a signal's handler does this."""
    connection = connections["default"]
    commit = connection._commit

    def interrupted():
        commit()
        connection._commit = commit
        raise TimeLimit

    connection._commit = interrupted
    with refused(TimeLimit):
        order("book")
        first = halfhitch.django.transaction_id()
    with refused(ValueError):
        order("moon")
        assert halfhitch.django.transaction_id() != first
        raise ValueError("moon")
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_block_sent_into_that_of_a_transaction_that_was_committed_by_hand(shop):
    """Without autocommit Django's functions wait until it is back."""
    transaction.set_autocommit(False)
    try:
        with transaction.atomic(savepoint=False):
            order("book")
        transaction.commit()
        with transaction.atomic(savepoint=False):
            order("moon")
        transaction.rollback()
        with transaction.atomic():
            order("pen")
            with refused(ValueError):
                order("mars")
                raise ValueError("mars")
            order("ink")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    shop.coordinator.advance(30)
    shop.require("book", "ink", "pen")


def test_a_block_failed_for_the_messages_of_one_whose_rollback_was_interrupted(shop, caplog):
    """Its rows stood, and Django's function of the first told that they did not."""
    connection = connections["default"]
    roll_back = connection._rollback

    def interrupted():
        roll_back()
        connection._rollback = roll_back
        raise TimeLimit

    connection._rollback = interrupted
    with refused(TimeLimit):
        order("moon")
        raise ValueError("moon")
    with transaction.atomic():
        with transaction.atomic():
            order("ink")
        order("book")
        with transaction.atomic():
            order("pen")
    assert [record.action for record in caplog.records if record.name == "halfhitch.django"] == [
        "django_rollback_interrupted"
    ]
    shop.coordinator.advance(30)
    shop.require("book", "ink", "pen")


def run(statement):
    with connections["default"].cursor() as cursor:
        cursor.execute(statement)


def test_a_message_joined_a_transaction_that_the_program_had_committed(shop, caplog):
    """Its rows were rolled back; it was committed with the record of those before."""
    with refused(ValueError):
        order("book")
        run("COMMIT")
        run("BEGIN")
        order("moon")
        halfhitch.django.send(TOPIC, "far side")
        raise ValueError
    assert [record.action for record in caplog.records if record.name == "halfhitch.django"] == [
        "django_committed_inside"
    ]
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_statement_that_might_have_ended_a_transaction_and_has_not_changes_nothing(shop):
    with transaction.atomic():
        order("book")
        first = halfhitch.django.transaction_id()
        with pytest.raises(OperationalError):
            run("BEGIN")
        order("pen")
        assert halfhitch.django.transaction_id() == first
    shop.require("book", "pen")


def test_a_message_behind_a_commit_of_the_program_s_own_is_refused_where_none_is_open(shop):
    with refused(TransactionMisused):
        order("book")
        run("COMMIT")
        halfhitch.django.send(TOPIC, "moon")
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_savepoint_sent_into_an_earlier_one_of_the_same_name(shop):
    with transaction.atomic():
        with transaction.atomic():
            order("book")
        transaction.clean_savepoints()
        with refused(ValueError):
            order("moon")
            raise ValueError("moon")
        order("pen")
    shop.coordinator.advance(30)
    shop.require("book", "pen")


def test_a_message_without_rows_to_follow_is_refused(shop):
    with pytest.raises(TransactionMisused, match="outside of an atomic block"):
        halfhitch.django.send(TOPIC, "book")
    with pytest.raises(TransactionMisused, match=r"transaction_id\(\) outside of an atomic block"):
        halfhitch.django.transaction_id()


def test_a_savepoint_that_is_taken_back_takes_its_messages_and_no_others(shop):
    with transaction.atomic():
        order("book")
        with refused(ValueError):
            order("moon")
            with transaction.atomic():
                order("far side")
            raise ValueError("moon")
        with transaction.atomic():
            order("ink")
        order("pen")
    assert (shop.rows(), shop.messages()) == (["book", "ink", "pen"], ["book", "ink", "pen"])
    assert len(shop.coordinator.pending()) == 2
    shop.coordinator.advance(30)
    shop.require("book", "ink", "pen")


def test_a_block_without_a_savepoint_is_part_of_the_one_around_it(shop):
    with transaction.atomic():
        order("book")
        around = halfhitch.django.transaction_id()
        with transaction.atomic(savepoint=False):
            order("pen")
            assert halfhitch.django.transaction_id() == around
    shop.require("book", "pen")


def test_rows_followed_no_message_that_was_not_sent(shop, caplog):
    with transaction.atomic():
        order("book")
        with pytest.raises(RequestError):
            halfhitch.django.send("no such topic", "book")
        # Swallowed, so Django says nothing; the log does.
    assert [record.action for record in caplog.records if record.name == "halfhitch.django"] == [
        "django_block_doomed"
    ]
    shop.coordinator.advance(30)
    shop.require()


def test_a_commit_that_is_not_answered_is_no_failure_of_the_block(shop, caplog):
    with shop.coordinator.lose_next_commit(), transaction.atomic():
        order("book")
    assert caplog.records[-1].action == "django_commit_unanswered"
    assert (shop.rows(), shop.messages()) == (["book"], [])
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_process_that_dies_behind_the_local_commit_leaves_it_to_the_check(shop):
    with pytest.raises(SimulatedCrash), shop.coordinator.crash_after_local_commit():
        atomic_order("book")
    shop.coordinator.advance(30)
    shop.require("book")


def test_messages_followed_rows_that_a_savepoint_by_hand_had_taken_back(shop):
    """Django drops the functions of its own savepoints only."""

    @transaction.atomic
    def work():
        add("book")
        savepoint = transaction.savepoint()
        order("moon")
        transaction.savepoint_rollback(savepoint)

    with pytest.raises(TransactionMisused, match="a savepoint by hand"):
        work()
    assert (shop.rows(), shop.messages()) == (["book"], [])
    shop.coordinator.advance(30)
    assert (shop.rows(), shop.messages(), shop.coordinator.pending()) == (["book"], [], [])


def test_a_message_behind_a_savepoint_by_hand_followed_those_that_it_had_taken_back(shop, caplog):
    with transaction.atomic():
        savepoint = transaction.savepoint()
        order("moon")
        transaction.savepoint_rollback(savepoint)
        order("book")
        halfhitch.django.send(TOPIC, "book again")
    assert caplog.records[-1].action == "django_messages_taken_back"
    assert (shop.rows(), shop.messages()) == (["book"], ["book", "book again"])
    shop.coordinator.advance(30)
    assert (shop.messages(), shop.coordinator.pending()) == (["book", "book again"], [])


@pytest.mark.parametrize("is_sent_before", [False, True])
def test_messages_were_sent_in_a_block_that_sqlite_had_rolled_back(shop, is_sent_before):
    """The record would have been committed by itself, and the message with it."""
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE UNIQUE INDEX once ON items (item)")
    atomic_order("book")
    with refused(TransactionMisused):
        if is_sent_before:
            order("moon")
        with connections["default"].cursor() as cursor, pytest.raises(IntegrityError):
            cursor.execute("INSERT OR ROLLBACK INTO items VALUES ('book')")
        halfhitch.django.send(TOPIC, "mars")
    shop.coordinator.advance(30)
    shop.require("book")


def test_rows_that_stood_without_their_message_were_to_be_rolled_back(shop):
    """So said the exception; Django had committed them, for it was told to."""

    @transaction.atomic
    def work():
        order("book")
        savepoint = transaction.savepoint()
        with pytest.raises(RequestError):
            halfhitch.django.send("no such topic", "pen")
        transaction.set_rollback(False)
        transaction.savepoint_rollback(savepoint)

    with pytest.raises(TransactionDoomed, match=r"Django has committed.*ForbiddenTopic"):
        work()
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_producer_that_was_closed_before_the_commit_was_a_failure_of_the_block(shop, caplog):
    with transaction.atomic():
        order("book")
        halfhitch.django.close()
    assert caplog.records[-1].action == "django_commit_unanswered"
    halfhitch.django.start_checks()
    shop.coordinator.advance(30)
    shop.require("book")


def test_an_interface_error_behind_the_commit_was_a_failure_of_the_block(shop, caplog):
    """Some drivers say so of a connection that is closed; it is no DatabaseError."""

    def lose(*_):
        raise InterfaceError("connection already closed")

    connection = connections["default"]
    with ExitStack() as lost, transaction.atomic():
        order("book")
        connection.run_on_commit.insert(
            0, (set(), lambda: lost.enter_context(connection.execute_wrapper(lose)), False)
        )
    assert caplog.records[-1].action == "django_commit_unanswered"
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_connection_that_is_lost_behind_the_commit_leaves_it_to_the_check(shop, caplog):
    with transaction.atomic():
        order("book")

        def lose():
            connections["default"].connection.close()

        connections["default"].run_on_commit.insert(0, (set(), lose, False))
    assert caplog.records[-1].action == "django_commit_unanswered"
    connections["default"].connection = None
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_request_is_atomic_with_its_messages(shop):
    database = connections["default"].settings_dict
    database["ATOMIC_REQUESTS"] = True
    failed = []

    def note(**_):
        failed.append(shop.messages())

    got_request_exception.connect(note)
    try:
        client = Client(raise_request_exception=False)
        answers = [client.post(f"/orders/{item}").status_code for item in ("book", "moon")]
    finally:
        got_request_exception.disconnect(note)
    assert (answers, failed) == ([200, 500], [["book"]])
    shop.coordinator.advance(30)
    shop.require("book")


def test_a_test_case_of_django_s_sees_the_messages_that_it_captures(shop):
    seen = []

    class Orders(TestCase):
        def test_twice(self):
            for item in ("book", "pen"):
                with self.captureOnCommitCallbacks(execute=True):
                    atomic_order(item)
                seen.append(shop.messages())
            with self.captureOnCommitCallbacks(execute=True):
                order("ink")
            order("not captured")
            seen.append(shop.messages())

    result = unittest.TestResult()
    unittest.TestSuite([Orders("test_twice")]).run(result)
    assert (result.errors, result.failures, result.testsRun) == ([], [], 1)
    assert seen == [["book"], ["book", "pen"], ["book", "ink", "pen"]]
    assert shop.rows() == []
