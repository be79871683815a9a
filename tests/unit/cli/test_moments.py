"""Moments as people give them."""

from __future__ import annotations

import pytest
import typer

from halfhitch_cli import moments

AT_FOUR_MS = 1_795_276_800_000  # 2026-11-21T16:00Z
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-11-21T16:00Z", AT_FOUR_MS),
        ("2026-11-21T16:00", AT_FOUR_MS),
        ("2026-11-21T17:00+01:00", AT_FOUR_MS),
        ("2026-11-21", AT_FOUR_MS - 16 * HOUR_MS),
    ],
)
def test_since_takes_a_date_and_time(text: str, expected_ms: int) -> None:
    assert moments.since_ms(text) == expected_ms


def test_since_takes_a_length_of_time() -> None:
    long_ago_ms, lately_ms = moments.since_ms("1d"), moments.since_ms("1h30m")
    assert abs(lately_ms - long_ago_ms - 22.5 * HOUR_MS) < 60_000
    assert moments.since_ms("99999999999999999999d") == 0


@pytest.mark.parametrize("text", ["yesterday", "2h ago", "", "5"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"--since takes .* not"):
        moments.since_ms(text)
