"""Whole lives of one half partition, hundreds of them: every invariant, whatever goes wrong.

`make simulate` lives 2,000, `make simulate SEEDS=20000` more of them; `make simulate SEED=17` for
one with its trace.
A seed that shows what was wrong once is kept in REGRESSIONS, with what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.simulation.ending import lived
from harness.simulation.lives import Lives, silence

if TYPE_CHECKING:
    from collections.abc import Iterator

LIVES = Lives(lived, variable="HALFHITCH_SEEDS", seed_count=400, telling_count=400)

REGRESSIONS = {
    11: "a broker's clock was set back: decisions were taken for those of an earlier transaction",
    29: "Redis claimed the delivery of a number that nobody had seen",
    419: "a late decision was read by a replay, and the crash came before it was noted",
    78: "a roll back before its prepare, and brokers that do not agree about the time",
    1109: "the last answer came when it was given up already",
}
#: What must have happened, and at least how often in a thousand lives: else nothing was shown.
MUST_HAPPEN = {
    "answers after the time": 200,
    "answers twice": 50,
    "aborted steps": 200,
    "broker jumps": 100,
    "checks delivered": 5_000,
    "checks sent again": 1_000,
    "clocks that jump by days": 50,
    "conflicts, contrary": 200,
    "contrary answers": 100,
    "coordinator jumps": 100,
    "crash before anybody is told": 50,
    "crash before fencing": 50,
    "crash before the step": 50,
    "crash behind the step, unknown to the ledger": 50,
    "crash between step and delivery": 50,
    "crash in the step, not committed": 50,
    "crash while Redis is told": 50,
    "crash while checks are delivered": 50,
    "crash while reading": 50,
    "decisions by check": 1_000,
    "decisions without offsets": 100,
    "ends in the moment of giving up": 50,
    "decisions by operator": 50,
    "decisions by policy": 500,
    "decisions with old offsets": 500,
    "given up: checks_exhausted, commit": 50,
    "given up: checks_exhausted, park": 500,
    "given up: checks_exhausted, rollback": 50,
    "given up: too_old, park": 100,
    "halves read back": 5_000,
    "hastened": 50,
    "jumped producers": 1_000,
    "late decisions beside the parked": 100,
    "late messages parked": 100,
    "late messages that joined the next life": 1,
    "lies of Redis": 20,
    "lost checks": 500,
    "lost decisions": 100,
    "lost give-ups": 20,
    "lost reports": 100,
    "not sent again, Redis knows": 1,
    "offset resets": 1_000,
    "poisoned steps": 50,
    "producers died of a check": 100,
    "redis away": 50,
    "redis restored": 50,
    "redis wiped": 50,
    "renewals": 2_000,
    "resumes": 200,
    "resumes aborted": 20,
    "resumes fenced": 20,
    "sleeps of days": 50,
    "takeovers": 2_000,
    "undeliverable or incomplete, parked": 100,
    "undelivered checks": 50,
    "unknown outcomes": 100,
    "unknown outcomes, committed": 50,
}


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    with silence():
        yield


@pytest.mark.timeout(7_200)
def test_every_invariant_holds_in_every_life() -> None:
    LIVES.hold(MUST_HAPPEN)


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_what_was_red_once(seed: int) -> None:
    LIVES.live_all(range(seed, seed + 1))


def test_the_same_seed_is_the_same_life() -> None:
    LIVES.are_the_same_again(7)
