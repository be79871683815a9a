"""A world for verify to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.verified import C, P, R, ended
from harness.verify_world import World

if TYPE_CHECKING:
    import random


@pytest.fixture
def world(rng: random.Random) -> World:
    """A few transactions of every ending."""
    made = World(rng)
    for resolution in (C, R, P, C, C, R, C):
        ended(made, resolution)
    return made
