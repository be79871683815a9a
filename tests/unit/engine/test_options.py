"""How long owners may take to end, as the options give it."""

import pytest

from harness.defaults import engine_options


@pytest.mark.parametrize(
    ("session_timeout_ms", "stop_wait_s"), [(6_000, 4.0), (10_000, 8.0), (60_000, 8.0)]
)
def test_owners_end_before_the_group_forgets_that_their_member_joins_again(
    session_timeout_ms: int, stop_wait_s: float
) -> None:
    assert engine_options(session_timeout_ms=session_timeout_ms).stop_wait_s == stop_wait_s


def test_a_stop_of_the_whole_process_may_be_given_less() -> None:
    assert engine_options(session_timeout_ms=60_000, stop_wait_s_max=1.0).stop_wait_s == 1.0
