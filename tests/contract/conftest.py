"""Every contract test runs once for each world that has the features it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.worlds import WORLDS, KafkaWorld, MemoryWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.worlds import World


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" not in metafunc.fixturenames:
        return
    needed: frozenset[Any] = getattr(metafunc.function, "needed_features", frozenset())
    params = [
        pytest.param(name, marks=pytest.mark.kafka if kind is KafkaWorld else ())
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
        made = KafkaWorld(request.getfixturevalue("kafka").bootstrap)
    yield made
    made.close()
