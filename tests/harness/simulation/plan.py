"""What a seed decides at once: settings, which faults there are in its life, and how many of them.

A life has only some kinds of faults: all of them together hide each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from halfhitch.core.check_rules import CheckRules
from harness.defaults import check_rules
from harness.simulation.strangers import fresh_dice

if TYPE_CHECKING:
    from random import Random

HOUR_MS = 3_600_000
SLEEP_MS = 8 * 24 * HOUR_MS
#: So long the finished are remembered.
HORIZON_MS = 900_000


@dataclass
class Plan:
    """Probabilities are per occasion."""

    rules: CheckRules
    transaction_count: int
    active_ms: int  # faults and new transactions stop then
    groups: int
    give_up: str
    batch_count_max: int = 1_000
    payload_cache_bytes: int = 1_000_000
    read_max: int = 1_000
    latency_ms: int = 5
    crash: float = 0.0
    unknown_outcome: float = 0.0
    aborted_step: float = 0.0
    suspect_step: float = 0.0
    unreadable: float = 0.0
    check_lost: float = 0.0
    report_lost: float = 0.0
    decision_lost: float = 0.0
    trim_fails: float = 0.0
    poisoned_topic: bool = False
    broker_jumps: int = 0
    coordinator_jumps: int = 0
    producers_jump: bool = False
    op_ahead_ms: int = 0  # the op log's broker, against that of the half log
    has_redis: bool = True
    offset_resets: int = 0
    redis_faults: int = 0
    churn: int = 0
    operators: int = 0
    policy_of_topic: dict[str, str] = field(default_factory=dict)
    strangers: int = 0  # Kafka transactions of others that stay open for a while
    slow_adds: float = 0.0  # transactions whose messages come in several requests
    reuses: float = 0.0  # transactions whose id is used again, for another message
    late_adds: float = 0.0  # transactions that are added to when they have been given up
    long_aways: bool = False  # a target that goes away is away for long
    dead_resumes: float = 0.0  # the process of whoever puts parked messages back dies
    sleeps: int = 0  # crashes after which nobody owns the partition for days
    jump_ms: int = HOUR_MS  # of a clock
    is_forgetful: bool = False  # the finished are remembered shortly, and nobody is late

    @property
    def brokers_agree(self) -> bool:
        """About the time, as far as decisions need it that name no halves."""
        return self.broker_jumps == 0 and abs(self.op_ahead_ms) < HOUR_MS


_P = TypeVar("_P", bound=Plan)


def planned(dice: Random) -> Plan:
    """The plan of a seed: each kind of fault is there or is not."""

    def some(probability: float, often: float) -> float:
        return dice.uniform(0.2, 1.0) * often if dice.random() < probability else 0.0

    def times(probability: float, most: int) -> int:
        return dice.randint(1, most) if dice.random() < probability else 0

    interval_ms = dice.choice([8_000, 15_000, 30_000])
    rules = check_rules(
        immunity_ms=dice.choice([0, 1_500, 6_000, 20_000]),
        interval_ms=interval_ms,
        backoff=dice.choice([1.0, 1.0, 1.5]),
        interval_ms_max=dice.choice([interval_ms, 60_000]),
        jitter=dice.choice([0.0, 0.1, 0.5]),
        count_max=dice.choice([1, 2, 2, 3, 5]),
        age_ms_max=dice.choice([240_000, 600_000, 1_200_000]),
        renew_ms=dice.choice([20_000, 60_000, 200_000]),
        incomplete_ms=dice.choice([60_000, 150_000]),
    )
    plan = Plan(
        rules=rules,
        transaction_count=dice.randint(5, 16),
        active_ms=dice.choice([60_000, 150_000, 300_000]),
        groups=dice.randint(1, 3),
        give_up=dice.choice(["park", "park", "park", "rollback", "commit"]),
        batch_count_max=dice.choice([1, 2, 4, 1_000]),
        payload_cache_bytes=dice.choice([0, 3_000, 1_000_000]),
        read_max=dice.choice([1, 3, 1_000, 1_000]),
        latency_ms=dice.choice([1, 5, 40]),
        crash=some(0.6, 0.06),
        unknown_outcome=some(0.4, 0.06),
        aborted_step=some(0.4, 0.15),
        suspect_step=some(0.2, 0.1),
        unreadable=some(0.2, 0.05),
        check_lost=some(0.5, 0.4),
        report_lost=some(0.3, 0.3),
        decision_lost=some(0.3, 0.3),
        trim_fails=1.0 if dice.random() < 0.3 else some(0.2, 0.5),
        poisoned_topic=dice.random() < 0.15,
        broker_jumps=times(0.2, 2),
        coordinator_jumps=times(0.2, 2),
        producers_jump=dice.random() < 0.2,
        op_ahead_ms=dice.choice([0] * 8 + [-20_000, 20_000, -HOUR_MS, HOUR_MS]),
        has_redis=dice.random() < 0.9,
        offset_resets=times(0.15, 2),
        redis_faults=times(0.4, 4),
        churn=times(0.6, 6),
        operators=times(0.5, 6),
        policy_of_topic={"stock": dice.choice(["park", "rollback", "commit"])}
        if dice.random() < 0.2
        else {},
    )
    return with_others(plan, fresh_dice(dice))


def with_others(plan: _P, dice: Random) -> _P:
    """What came later; thrown with dice of its own, so that older lives stay what they were."""
    plan.strangers = dice.choice([0, 0, 0, 1, 3])
    plan.slow_adds = dice.choice([0.0, 0.0, 0.6])
    plan.dead_resumes = dice.choice([0.0, 0.3])
    plan.long_aways = dice.random() < 0.5
    plan.reuses = dice.choice([0.0, 0.0, 0.3])
    plan.late_adds = dice.choice([0.0, 0.0, 0.5])
    plan.sleeps = dice.choice([0, 0, 0, 1])
    plan.jump_ms = dice.choice([HOUR_MS, HOUR_MS, SLEEP_MS])
    return plan
