"""What the door carries."""

from __future__ import annotations

from unittest.mock import sentinel

from halfhitch.doors.http.load import Load


def test_the_last_to_end_is_noticed() -> None:
    load = Load()
    load.connections.add(sentinel.connection)
    load.tasks.add(sentinel.task)
    load.drained_some()
    assert not load.when_empty.is_set()
    load.connections.clear()
    load.drained_some()
    assert not load.when_empty.is_set()
    load.tasks.clear()
    load.drained_some()
    assert load.when_empty.is_set()


def test_streams_that_have_ended_leave_no_names_behind() -> None:
    load = Load()
    load.stream_begins("shop", "team")
    load.stream_begins("shop", None)
    assert load.stream_count == load.group_streams["shop"] == 2
    assert load.identity_streams["team"] == 1
    load.stream_ended("shop", "team")
    load.stream_ended("shop", None)
    assert load.stream_count == 0
    assert not load.group_streams
    assert not load.identity_streams


def test_without_native_threads_the_bound_is_for_the_loops_requests() -> None:
    load = Load()
    load.changed()
    assert load.admit(1)
    load.tasks.add(sentinel.task)
    assert not load.admit(1)
    assert load.in_flight_count == 1
    load.held_back_count = 1
    assert load.admit(1)
