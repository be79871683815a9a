"""Fixtures for pytest, which finds them by itself once halfhitch is installed.

    @pytest.mark.halfhitch(topics={"orders": 1}, settings={"checks.count_max": 3})
    def test_an_order(halfhitch_coordinator): ...

`halfhitch_coordinator` is a MemoryCoordinator for one test. `halfhitch_sidecar` is a RunningSidecar
on a real Kafka for the whole run; HALFHITCH_TEST_KAFKA=host:port gives it yours.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from halfhitch.testing import MemoryCoordinator, RunningSidecar

_MARK = "halfhitch"


def pytest_configure(config: pytest.Config) -> None:
    """pytest's hook."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(topics=None, settings=None): what halfhitch_coordinator is made with",
    )


@pytest.fixture
def halfhitch_coordinator(request: pytest.FixtureRequest) -> "Iterator[MemoryCoordinator]":
    """A coordinator in memory, with its clock in the test's hand."""
    from halfhitch.testing import MemoryCoordinator

    mark = request.node.get_closest_marker(_MARK)
    with MemoryCoordinator(**({} if mark is None else mark.kwargs)) as coordinator:
        yield coordinator


@pytest.fixture(scope="session")
def halfhitch_sidecar() -> "Iterator[RunningSidecar]":
    """A sidecar on a real Kafka."""
    from halfhitch.testing import RunningSidecar

    with RunningSidecar(os.environ.get("HALFHITCH_TEST_KAFKA") or None) as sidecar:
        yield sidecar
