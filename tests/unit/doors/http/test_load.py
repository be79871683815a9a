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
