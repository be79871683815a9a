"""After a life of several instances: each partition's account, then everything is read again.

A partition's story is judged by the account that judges the lives of one instance (account.py).
Checks are judged more mildly: an owner that has lost its partition and does not know it yet may
still repeat one, which costs a producer an answer and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from halfhitch.wire.parked import LateDecision, read_parked
from harness.audit import judge_indexes
from harness.simulation.account import Account, _is_used_up, _judge_story
from harness.simulation.cluster import HALF, OP, PARKED, TARGETS
from harness.simulation.several.life import SeveralLife

if TYPE_CHECKING:
    from halfhitch.core.model import Identity
    from harness.simulation.desk import Sent


class _OnePartition:
    """The world and the life as the account of one partition sees them."""

    def __init__(self, life: SeveralLife, partition: int) -> None:
        self._world = life.world
        self._partition = partition
        self.timeline, self.plan, self.apps = life.timeline, life.plan, life.apps
        self.calm_ms = life.quiet_ms
        self.takeover_ms = life.takeover_ms[partition] or [0]
        self.refused = life.world.refused
        self.audit_partition = partition
        self.cluster = self.kafka = self.stored_at = self

    def partition_count(self, topic: str) -> int | None:
        return 1 if topic in (HALF, OP) else self._world.kafka.partition_count(topic)

    def log(self, topic: str, partition: int) -> Any:
        return self._world.kafka.log(*self._real(topic, partition))

    def _real(self, topic: str, partition: int) -> tuple[str, int]:
        return topic, self._partition if topic in (HALF, OP) else partition

    def __getitem__(self, place: tuple[str, int, int]) -> int:
        return self._world.stored_at[(*self._real(*place[:2]), place[2])]


def lived_together(seed: int, *, is_traced: bool = False) -> SeveralLife:
    """A whole life, judged. Raises AssertionError when something was wrong in it."""
    life = SeveralLife(seed, is_traced=is_traced)
    try:
        life.live()
        judge(life)
        _read_again(life)
        judge(life)
    except BaseException as error:
        error.add_note(f"seed {seed}: {life.plan}")
        error.life = life  # type: ignore[attr-defined]
        raise
    finally:
        for instance in life.instances:
            instance.end()
    return life


def judge(life: SeveralLife) -> None:
    """Everything has come to rest: all invariants that the logs can show."""
    assert life.world.kafka.open_count == 0, "I21: a Kafka transaction is left open"
    count = 0
    for partition in range(life.plan.partitions):
        view: Any = _OnePartition(life, partition)
        account = Account(view)
        for identity, transaction in life.apps.transactions.items():
            story = account.stories.get(identity)
            if story is not None and story.lives:
                count += 1
                _judge_story(account, story, transaction)
        _judge_checks(life, account)
        counted = judge_indexes(life.world.kafka, partition, life.plan.partitions)
        life.timeline.count["indexes"] += counted
    assert count >= len(life.apps.transactions) - 1, "transactions were not judged"


def _judge_checks(life: SeveralLife, account: Account) -> None:
    by_identity: dict[Identity, list[Sent]] = defaultdict(list)
    for sent in life.sent:
        by_identity[sent.identity].append(sent)
    rules = life.plan.rules
    for identity, sents in by_identity.items():
        story = account.stories.get(identity)
        if story is None or not story.lives:
            continue  # of another partition
        name, halves = identity[1], story.lives[0].halves
        began_ms = min(account.true_ms(HALF, half.half_offset) for half in halves)
        asked_ms = halves[0].immunity_ms
        immunity_ms = rules.immunity_ms if asked_ms < 0 else asked_ms
        early_ms = began_ms + immunity_ms - sents[0].sent_ms
        assert early_ms <= 0, f"I10: {name} is asked {early_ms} ms too early"
        highest = 0
        for place, sent in enumerate(sents):
            assert sent.number <= min(highest + 1, rules.count_max), f"I3: {name} {sent}"
            if sent.number > highest > 0:
                before = [s for s in sents[:place] if s.number == highest]
                assert _is_used_up(before, sent.sent_ms), f"I3: {name} {highest} not delivered"
            highest = max(highest, sent.number)
            assert any(
                half.check_count == sent.number
                and account.true_ms(HALF, half.half_offset) <= sent.sent_ms
                for half in halves
            ), f"I3: {name} {sent} is not in the log"


def _seen(life: SeveralLife) -> tuple[Any, ...]:
    kafka = life.world.kafka
    found = [read_parked(r.offset(), r.headers()) for r in kafka.committed(PARKED)]
    # A late decision may be noted once more: of several the first in the op log counts.
    parked = sum(not isinstance(record, LateDecision) for record in found)
    ends = [len(kafka.committed(topic)) for topic in TARGETS if kafka.partition_count(topic)]
    return (*ends, parked)


def _read_again(life: SeveralLife) -> None:
    """I14: the group's offsets are gone, and with them all that was remembered."""
    seen = _seen(life)
    if life.plan.regresses:
        for partition in range(life.plan.partitions):
            life.begin_earlier((HALF,), partition)
    life.lose_offsets()
    life.restart_all()
    life.timeline.count["replays of everything"] += 1
    life.pass_until(life._is_settled, 300_000)
    assert _seen(life) == seen, f"I14: reading it all again has changed {seen} to {_seen(life)}"
