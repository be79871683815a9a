"""A few faults of the kit, in every run of the tests; all of them: `make faults`.

One stage for all: three brokers, a Redis, and for each test fresh sidecars and applications. The
seed is the same each time, for this asks whether what held still holds; `make faults SEED=n` and
HALFHITCH_TEST_FAULT_SEED look for what nobody has seen yet.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from chaos.director import run_scenario
from chaos.kit.scenarios import SCENARIOS, mix
from chaos.kit.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.kit.scenarios import Scenario

SEED = int(os.environ.get("HALFHITCH_TEST_FAULT_SEED", "1"))

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

NAMES = (
    "owner-kill",
    "owner-zombie",
    "target-leader-kill",
    "redis-flushed",
    "crash-after_send_offsets",
    "crash-after_commit",
)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def hold(stage: Stage, scenario: Scenario) -> None:
    """Run it; a run in which nothing has happened is no success either."""
    result = run_scenario(stage, scenario, SEED)
    assert result.verdict == "green", f"seed {SEED}: {result.to_json()}"


@pytest.mark.parametrize("name", NAMES)
def test_every_promise_holds_through_one_fault(stage: Stage, name: str) -> None:
    hold(stage, SCENARIOS[name])


def test_every_promise_holds_through_a_mix_of_faults(stage: Stage) -> None:
    hold(stage, mix(SEED, count=3))
