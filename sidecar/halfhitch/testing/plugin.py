"""Fixtures for pytest, which finds them by itself once halfhitch is installed.

    @pytest.mark.halfhitch(topics={"orders": 1}, settings={"checks.count_max": 3})
    def test_an_order(halfhitch_coordinator): ...

`halfhitch_coordinator` is a MemoryCoordinator for one test. `halfhitch_sidecar` is a real one for
the whole run: a RunningSidecar, or with `--halfhitch-sidecar=container` a HalfHitchContainer. It
has a Kafka and a Redis of its own, unless HALFHITCH_TEST_KAFKA=host:port and
HALFHITCH_TEST_REDIS=redis://... name yours.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from halfhitch.testing import HalfHitchContainer, MemoryCoordinator, RunningSidecar

_MARK = "halfhitch"
_CHOICE = "halfhitch_sidecar"
_IMAGE = "halfhitch_image"
_KINDS = ("process", "container")


def pytest_addoption(parser: pytest.Parser) -> None:
    """pytest's hook."""
    group = parser.getgroup("halfhitch")
    for name, told, choices in (
        (_CHOICE, "what halfhitch_sidecar is: a process, or the image", _KINDS),
        (_IMAGE, "the image, if it is not that of this release", None),
    ):
        group.addoption("--" + name.replace("_", "-"), choices=choices, help=told)
        parser.addini(name, told)


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
def halfhitch_sidecar(
    pytestconfig: pytest.Config,
) -> "Iterator[RunningSidecar | HalfHitchContainer]":
    """A sidecar on a real Kafka."""
    kafka = os.environ.get("HALFHITCH_TEST_KAFKA")
    redis = os.environ.get("HALFHITCH_TEST_REDIS")
    with ExitStack() as stack:
        kind = _chosen(pytestconfig, _CHOICE) or _KINDS[0]
        if kind not in _KINDS:
            raise pytest.UsageError(f"{_CHOICE} is {kind!r}: say {' or '.join(_KINDS)}")
        if kind == "container":
            from halfhitch.testing import HalfHitchContainer
            from halfhitch.testing.container import IMAGE

            if not kafka:
                from halfhitch.embedded import EmbeddedKafka, EmbeddedRedis

                kafka = stack.enter_context(EmbeddedKafka(short_lived=True)).bootstrap
                redis = redis or stack.enter_context(EmbeddedRedis()).url
            image = _chosen(pytestconfig, _IMAGE) or IMAGE
            yield stack.enter_context(HalfHitchContainer(kafka, redis or None, image))
        else:
            from halfhitch.testing import RunningSidecar

            settings = {"redis.url": redis} if redis else {}
            yield stack.enter_context(RunningSidecar(kafka or None, settings))


def _chosen(config: pytest.Config, name: str) -> str:
    """On the command line, else in the configuration; empty if nowhere."""
    return str(config.getoption(name) or config.getini(name))
