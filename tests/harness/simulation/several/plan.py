"""What a seed decides at once about a life of several instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.defaults import check_rules
from harness.simulation.plan import HORIZON_MS, Plan, with_others
from harness.simulation.strangers import fresh_dice

if TYPE_CHECKING:
    from random import Random


@dataclass
class SeveralPlan(Plan):
    """Probabilities are per occasion, times per life."""

    instances: int = 2
    partitions: int = 1
    session_ms: int = 10_000
    stop_wait_ms: int = 5_000
    marker_ms: int = 5
    slow_marker: float = 0.0
    held_end: float = 0.0  # EndTxn waits in the network, the client asks again
    fast_retry: float = 0.0  # of those: the link was reset, and nothing took long
    held_offsets: float = 0.0
    held_init: float = 0.0
    lost_answer: float = 0.0
    lag: float = 0.0  # a read that brings nothing, although there is something
    hang: float = 0.0  # one call of one thread
    stop: float = 0.0  # SIGSTOP in the middle of a call
    cuts: int = 0  # an instance without network
    deafs: int = 0  # its heartbeats are lost, and nothing else
    restarts: int = 0
    kills: int = 0
    stops: int = 0
    lost_offsets: int = 0
    aways: int = 0
    old_pairs: float = 0.0  # Kafka gives watermarks that were stored some time ago
    reset_in_making: float = 0.0  # a connection that is lost while a producer is made
    #: Topics that take nothing, or nothing large: until somebody has looked, or for a while.
    closed_target: bool = False
    closed_parked: bool = False
    narrow_parked: bool = False
    narrow_half: bool = False
    closed_half: bool = False
    closed_op: bool = False
    instances_differ: bool = False  # in what their own doors take
    #: So long the finished are remembered. In a short memory nothing is repeated late (apps.py).
    memory_ms: int = HORIZON_MS
    regresses: int = 0  # a log begins again where it began some time ago: its broker had died


def planned(dice: Random, more_dice: Random, old_dice: Random, log_dice: Random) -> SeveralPlan:
    """The plan of a seed: each kind of fault is there or is not.

    All dice but the first decide on what was thought of later: older lives stay as they were.
    """

    def some(probability: float, often: float) -> float:
        return dice.uniform(0.2, 1.0) * often if dice.random() < probability else 0.0

    def times(probability: float, most: int) -> int:
        return dice.randint(1, most) if dice.random() < probability else 0

    interval_ms = dice.choice([8_000, 15_000])
    rules = check_rules(
        immunity_ms=dice.choice([0, 1_500, 6_000]),
        interval_ms=interval_ms,
        backoff=1.0,
        interval_ms_max=interval_ms,
        jitter=dice.choice([0.0, 0.1]),
        count_max=dice.choice([1, 2, 3]),
        age_ms_max=dice.choice([120_000, 240_000]),
        renew_ms=dice.choice([30_000, 90_000]),
        incomplete_ms=60_000,
    )
    plan = SeveralPlan(
        rules=rules,
        transaction_count=dice.randint(8, 24),
        active_ms=dice.choice([40_000, 80_000]),
        groups=dice.randint(1, 2),
        give_up=dice.choice(["park", "park", "rollback", "commit"]),
        batch_count_max=dice.choice([1, 3, 1_000, 1_000]),
        payload_cache_bytes=dice.choice([0, 1_000_000]),
        read_max=dice.choice([2, 1_000, 1_000]),
        latency_ms=dice.choice([2, 20, 200]),
        crash=some(0.3, 0.002),
        aborted_step=some(0.4, 0.1),
        unreadable=some(0.2, 0.02),
        check_lost=some(0.3, 0.3),
        report_lost=some(0.2, 0.2),
        decision_lost=some(0.2, 0.2),
        trim_fails=1.0 if dice.random() < 0.3 else some(0.2, 0.5),
        poisoned_topic=dice.random() < 0.1,
        has_redis=dice.random() < 0.8,
        redis_faults=times(0.2, 2),
        churn=times(0.4, 3),
        instances=dice.choice([2, 2, 3]),
        partitions=dice.choice([1, 1, 2, 3]),
        session_ms=dice.choice([6_000, 10_000]),
        stop_wait_ms=dice.choice([1_000, 5_000]),
        marker_ms=dice.choice([1, 5, 50]),
        slow_marker=some(0.3, 0.2),
        held_end=some(0.5, 0.4),
        fast_retry=dice.choice([0.0, 0.5, 1.0]),
        held_offsets=some(0.3, 0.2),
        held_init=some(0.3, 0.2),
        lost_answer=some(0.4, 0.1),
        lag=some(0.4, 0.6),
        hang=some(0.3, 0.004),
        stop=some(0.5, 0.004),
        cuts=times(0.3, 2),
        deafs=times(0.2, 2),
        restarts=times(0.5, 3),
        kills=times(0.4, 2),
        stops=times(0.4, 3),
        lost_offsets=times(0.25, 2),
        aways=times(0.25, 2),
    )
    for name, value in dice.choice(_RECIPES).items():
        setattr(plan, name, value)
    return _with_logs(_with_more(plan, more_dice, old_dice), log_dice, fresh_dice(dice))


def _with_logs(plan: SeveralPlan, dice: Random, others_dice: Random) -> SeveralPlan:
    plan = with_others(plan, others_dice)
    if dice.random() < 0.4:
        plan.memory_ms, plan.is_forgetful = 30_000, True
        plan.reuses = plan.late_adds = 0.0
    plan.regresses = dice.choice([0, 2])
    return plan


def _with_more(plan: SeveralPlan, dice: Random, old_dice: Random) -> SeveralPlan:
    plan.old_pairs = old_dice.choice([0.0, 0.3, 0.8])
    # A link that flaps is also one on which frames are late, and what is retried is so fast.
    if plan.held_end and dice.random() < 0.4:
        plan.reset_in_making, plan.fast_retry = 0.6, 1.0
    for name in _REFUSALS:
        setattr(plan, name, dice.random() < 0.12)
    return plan


_REFUSALS = (
    "closed_target",
    "closed_parked",
    "narrow_parked",
    "narrow_half",
    "closed_half",
    "closed_op",
    "instances_differ",
)


#: Faults that are dangerous together, often; else chance would rarely bring them to one place.
_RECIPES: list[dict[str, float]] = [
    {},
    {},
    {},
    {"stop": 0.01, "aborted_step": 0.2, "lag": 0.6, "deafs": 2, "session_ms": 6_000, "crash": 0},
    {"held_end": 0.6, "aborted_step": 0.2, "held_offsets": 0.2, "latency_ms": 20},
    {"lost_answer": 0.3, "lag": 0.7, "trim_fails": 0.5},
]
