"""Every contract test runs once for each world that has the features it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.native import needs_native
from harness.worlds import WORLDS, KafkaWorld, MemoryWorld, NativeWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.worlds import World

MARKS: dict[str, Any] = {
    "memory": (),
    "kafka": pytest.mark.kafka,
    "native": (pytest.mark.kafka, needs_native),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" not in metafunc.fixturenames:
        return
    needed: frozenset[Any] = getattr(metafunc.function, "needed_features", frozenset())
    params = [
        pytest.param(name, marks=MARKS[name])
        for name, kind in WORLDS.items()
        if needed <= kind.features
    ]
    metafunc.parametrize("world", params, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World
    if request.param == "memory":
        made = MemoryWorld()
    else:
        kind = NativeWorld if request.param == "native" else KafkaWorld
        made = kind(request.getfixturevalue("kafka").bootstrap)
    yield made
    made.close()
