"""What the settings say, and what a process makes of them."""

from __future__ import annotations

import threading

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import override_settings

from halfhitch.client import LocalTransactionState
from halfhitch.django import process
from harness.barriers import asked
from harness.django_project import order, project, sqlite


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "HALFHITCH is missing"),
        ({}, "HALFHITCH is missing"),
        ({"GROUP": "shop", "ADRESS": "x"}, "HALFHITCH has ADRESS: its keys are ADDRESS"),
        ({"GROUP": "shop", "PRODUCER": {"check": 1}}, "HALFHITCH has check"),
        ({"GROUP": "shop", "BARRIER": {"table": "x"}}, "HALFHITCH has table"),
    ],
)
def test_settings_that_are_wrong_say_what_is(shop, given, says):
    with override_settings(HALFHITCH=given), pytest.raises(ImproperlyConfigured, match=says):
        process.settings()


def test_what_the_settings_say_reaches_barrier_and_producer(halfhitch_coordinator, tmp_path):
    given = {"TABLE": "shop_barrier", "PRODUCER": {"deadline_s": 3.0}, "ANSWERS_CHECKS": False}
    with project(halfhitch_coordinator, sqlite(tmp_path), **given):
        here = process.running()
        assert here.settings.table == "shop_barrier"
        assert here.producer.group == here.barrier.group == "shop"
        assert here.producer.address == halfhitch_coordinator.address
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT count(*) FROM shop_barrier")
            assert cursor.fetchone() == (0,)


def test_threads_that_begin_at_once_share_one_producer(shop):
    gate, found = threading.Barrier(4), []

    def begin():
        gate.wait()
        found.append(process.running())

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1


def test_settings_that_change_end_the_producer_of_the_old_ones(shop):
    before = process.running()
    with override_settings(HALFHITCH={"GROUP": "other"}):
        assert process.running().producer.group == "other"
    assert process.running() is not before
    assert process.running().producer.group == "shop"


def test_checks_are_answered_from_the_table_over_connections_of_their_own(shop):
    check = process.barrier().check
    with transaction.atomic():
        order("book")
    (recorded,) = shop.recorded()
    assert check(asked(recorded)) is LocalTransactionState.COMMIT
    assert check(asked("never")) is LocalTransactionState.ROLLBACK
    assert shop.recorded() == {recorded: "committed", "never": "fenced"}


def test_a_check_of_a_database_in_memory_leaves_no_connection_behind(halfhitch_coordinator):
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "file:halfhitch?mode=memory&cache=shared",
    }
    with project(halfhitch_coordinator, database):
        for _ in range(3):
            process.barrier().check(asked("never"))
