"""Which clients an engine makes."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.adapters.native import owner as native_owner
from halfhitch.engine.kafka_clients import EngineClients
from halfhitch.wire.topics import InternalTopics
from harness.defaults import engine_options


@pytest.mark.parametrize("owner_enabled", [True, False])
def test_an_instance_without_owners_said_that_it_reads_natively_for_them(
    monkeypatch: pytest.MonkeyPatch, owner_enabled: bool
) -> None:
    loads: list[Any] = []
    monkeypatch.setattr(native_owner, "load", lambda: loads.append(1))
    EngineClients(engine_options(owner_enabled=owner_enabled), InternalTopics(""))
    assert bool(loads) is owner_enabled
