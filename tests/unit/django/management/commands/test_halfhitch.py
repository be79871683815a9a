"""What a project runs beside its web processes."""

from __future__ import annotations

import os
import signal
import threading
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections

from halfhitch.django import process
from halfhitch.testing import SimulatedCrash
from harness.django_project import atomic_order
from harness.kafka import wait_until

pytestmark = pytest.mark.usefixtures("handlers")


@pytest.fixture
def handlers():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_purge_deletes_what_no_check_can_need(shop):
    atomic_order("book")
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE halfhitch_barrier SET at = datetime('now', '-30 days')")
    atomic_order("pen")
    told = StringIO()
    call_command("halfhitch", "purge", stdout=told)
    assert told.getvalue() == "1 rows deleted\n"
    assert len(shop.recorded()) == 1


def test_checks_answers_until_it_is_told_to_stop(shop):
    with pytest.raises(SimulatedCrash), shop.coordinator.crash_after_local_commit():
        atomic_order("book")
    process.close()  # as the process that has died
    told = StringIO()

    def meanwhile():
        wait_until(lambda: "answering the checks of shop" in told.getvalue(), 20, what="a word")
        shop.coordinator.advance(30)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    call_command("halfhitch", "checks", stdout=told)
    thread.join()
    shop.require("book")
