"""What each role's client is told, where it matters to somebody."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.kafka import clients


def test_an_owner_at_rest_is_answered_twice_a_second_and_a_record_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten empty answers a second for each half partition were a third of what an owner cost."""
    made: list[dict[str, Any]] = []

    def consumer(config: dict[str, Any], **_: object) -> Any:
        made.append(config)

    monkeypatch.setattr(clients, "Consumer", consumer)
    clients.log_consumer({}, group="owners")
    (config,) = made
    assert config["fetch.wait.max.ms"] == 500
    assert config["fetch.min.bytes"] == 1
