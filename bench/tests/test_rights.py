"""What `make bench-rights` measures takes place, each way, and is compared round by round."""

from __future__ import annotations

from bench.rights import WAYS, measured, share


async def test_every_way_prepares_and_commits() -> None:
    taken = await measured(2, 3)
    assert set(taken) == set(WAYS)
    assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in taken.values())


def test_a_share_is_that_of_rounds_that_are_alike() -> None:
    taken = {"a": [11.0 * n for n in range(1, 30)], "b": [10.0 * n for n in range(1, 30)]}
    assert [round(found, 6) for found in share(taken, "a", "b")] == [10.0, 10.0]
