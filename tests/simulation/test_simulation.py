"""Whole lives of one half partition, thousands of them: every invariant, whatever goes wrong.

`make simulate SEEDS=20000` for more of them, `make simulate SEED=17` for one with its trace.
A seed that shows what was wrong once is kept in REGRESSIONS, with what it was.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from harness.simulation.ending import lived

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED_COUNT = int(os.environ.get("HALFHITCH_SEEDS", "2000"))
FIRST_SEED = int(os.environ.get("HALFHITCH_FIRST_SEED", "0"))
IS_TRACED = SEED_COUNT == 1
#: With fewer lives chance decides what happens in them.
_TELLING_COUNT = 1_000
#: Lines of the trace of a red seed that are shown; the last ones tell most.
_LINES_MAX = 400

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
    "takeovers": 2_000,
    "undeliverable or incomplete, parked": 100,
    "undelivered checks": 50,
    "unknown outcomes": 100,
    "unknown outcomes, committed": 50,
}


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """The owner says what goes wrong, and here everything does."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def told(seed: int) -> str:
    """What happened in a red life, for people."""
    try:
        lived(seed, is_traced=True)
    except BaseException as error:  # noqa: BLE001 - whatever it was, it is shown
        life = error.life  # type: ignore[attr-defined]
        lines = life.timeline.lines or []
        left_out = max(0, len(lines) - _LINES_MAX)
        return "\n".join(
            [
                f"seed {seed} is red: make simulate SEED={seed}",
                str(life.plan),
                *([f"... {left_out} lines before"] if left_out else []),
                *lines[-_LINES_MAX:],
                f"{type(error).__name__}: {error}",
            ]
        )
    return f"seed {seed} is red only when it is not traced: it is not deterministic"


def live_all(seeds: range) -> Counter[str]:
    """All of them; the first that is red fails the test with its trace."""
    count: Counter[str] = Counter()
    for seed in seeds:
        try:
            life = lived(seed, is_traced=IS_TRACED)
            count.update(life.timeline.count)
            print(*(life.timeline.lines or ()), sep="\n", end="")
        except Exception:  # noqa: BLE001 - told anew
            pytest.fail(told(seed), pytrace=False)
    return count


@pytest.mark.timeout(7_200)
def test_every_invariant_holds_in_every_life() -> None:
    began_s = time.process_time()
    count = live_all(range(FIRST_SEED, FIRST_SEED + SEED_COUNT))
    elapsed_s = time.process_time() - began_s
    print(f"{SEED_COUNT} lives in {elapsed_s:.0f} s of one core, {SEED_COUNT / elapsed_s:.1f}/s")
    for name, times in sorted(count.items()):
        print(f"{times:9d}  {name}")
    if SEED_COUNT < _TELLING_COUNT:
        return
    rare = {
        name: (count[name], per_thousand * SEED_COUNT // 1_000)
        for name, per_thousand in MUST_HAPPEN.items()
        if count[name] < per_thousand * SEED_COUNT // 1_000
    }
    assert not rare, f"too rare to show anything (found, wanted): {rare}"


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_what_was_red_once(seed: int) -> None:
    live_all(range(seed, seed + 1))


def test_the_same_seed_is_the_same_life() -> None:
    once, again = lived(7, is_traced=True), lived(7, is_traced=True)
    assert once.timeline.lines == again.timeline.lines
    assert once.timeline.count == again.timeline.count
