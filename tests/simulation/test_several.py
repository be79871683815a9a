"""Several instances in simulated time: every invariant, whoever stops, dies, lags or is too late.

`make simulate` lives these lives too: SEEDS=20000 for more, SEED=17 for one with its trace. A seed
that shows what was wrong once is kept in REGRESSIONS, with what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.simulation.lives import Lives, silence
from harness.simulation.several.judge import lived_together

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Fewer than lives of one instance (test_simulation.py), for each of these takes longer.
LIVES = Lives(lived_together, variable="HALFHITCH_SEVERAL_SEEDS", seed_count=125, telling_count=125)

REGRESSIONS = {
    209: "one message and three of another transaction were halved for ever, and nobody left",
    41: "who was the owner no more read his successor's marks, and stumbled over the copies",
}
#: What must have happened, and at least how often in a thousand lives: else nothing was shown.
MUST_HAPPEN = {
    "aborted steps": 300,
    "aborts that did not work": 500,
    "calls that hang": 150,
    "checks delivered": 6_000,
    "checks sent again": 1_000,
    "commits without an answer": 200,
    "conflicts, contrary": 300,
    "crashes in a call": 30,
    "decisions by check": 1_500,
    "decisions by policy": 2_000,
    "decisions by producer": 5_000,
    "given up: checks_exhausted, park": 800,
    "held EndTxn": 800,
    "held EndTxn effective": 200,
    "held EndTxn of an abort": 250,
    "held EndTxn refused": 900,
    "held InitProducerId": 150,
    "held InitProducerId effective": 100,
    "held TxnOffsetCommit": 300,
    "held TxnOffsetCommit effective": 40,
    "held TxnOffsetCommit refused": 250,
    "instances cut off": 150,
    "instances killed": 250,
    "instances not heard of": 250,
    "instances stopped for a while": 300,
    "instances that stop in order": 350,
    "logs that begin earlier": 300,
    "late decisions beside the parked": 250,
    "left open, ended by who fences": 400,
    "offsets lost": 1_100,
    "offsets of another generation": 600,
    "old watermarks given": 500,
    "op log slow": 5_000,
    "owner ends: KafkaUnavailable": 150,
    "owner ends: OutcomeLostError": 350,
    "partitions lost": 800,
    "partitions revoked": 500,
    "rebalances": 5_000,
    "records replayed": 50_000,
    "requests of fenced producers": 2_000,
    "retries in silence": 1_000,
    "sessions timed out": 900,
    "steps": 15_000,
    "steps for targets that are away": 20,
    "steps that failed": 1_500,
    "stopped in a call": 600,
    "suspect steps": 1_200,
    "takeovers": 4_000,
    "takeovers from a proven pair": 40,
    "targets that go away": 100,
    "timed out by the coordinator": 60,
    "trims": 4_000,
    "undeliverable or incomplete, parked": 1_000,
    "unknown outcomes": 200,
    "unstable watermarks waited for": 50,
}


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    with silence():
        yield


@pytest.mark.timeout(14_400)
def test_every_invariant_holds_whoever_owns() -> None:
    LIVES.hold(MUST_HAPPEN)


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_what_was_red_once(seed: int) -> None:
    LIVES.live_all(range(seed, seed + 1))


def test_the_same_seed_is_the_same_life() -> None:
    LIVES.are_the_same_again(7)
