"""What a transaction's standing says is one table; doors and operators read nothing else."""

import pytest

from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, Resolution
from halfhitch.core.standing import Standing


def test_every_standing_has_a_word_of_its_own() -> None:
    assert {standing.value for standing in Standing} == {
        "unknown",
        "early",
        "pending",
        "committing",
        "rolling_back",
        "committed",
        "rolled_back",
        "parked",
        "giving_up",
        "given_up",
    }


@pytest.mark.parametrize(
    ("standing", "resolution", "ending", "is_parked"),
    [
        (Standing.UNKNOWN, None, None, False),
        (Standing.EARLY, None, None, False),
        (Standing.PENDING, None, None, False),
        (Standing.COMMITTING, Resolution.COMMIT, None, False),
        (Standing.ROLLING_BACK, Resolution.ROLLBACK, None, False),
        (Standing.GIVING_UP, Resolution.PARK, None, False),
        (Standing.COMMITTED, Resolution.COMMIT, 1, False),
        (Standing.ROLLED_BACK, Resolution.ROLLBACK, ROLLED_BACK, False),
        (Standing.PARKED, Resolution.COMMIT, PARKED, True),
        (Standing.GIVEN_UP, Resolution.PARK, GIVEN_UP, True),
    ],
)
def test_a_standing_says_what_it_means(
    standing: Standing, resolution: Resolution | None, ending: int | None, is_parked: bool
) -> None:
    assert (standing.resolution, standing.ending) == (resolution, ending)
    assert (standing.is_carried_out, standing.is_parked) == (ending is not None, is_parked)
    if ending is not None:
        assert Standing.of_ending(ending) is standing
    elif resolution is not None:
        assert Standing.of_resolution(resolution) is standing


def test_the_table_of_standings_is_whole() -> None:
    assert Standing.of_ending(17) is Standing.COMMITTED
    assert {Standing.of_resolution(resolution) for resolution in Resolution} == {
        standing for standing in Standing if standing.resolution and not standing.is_carried_out
    }
